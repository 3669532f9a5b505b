import { ENVIRONMENT_FILE } from "../../config/load.ts";
import type { Listen } from "../../config/schema.ts";
import { hasUnprintable } from "../../lib/printable.ts";
import { CommandFailure } from "../cli/print.ts";

/** The settings of a unit. Paths are absolute. */
export interface UnitPlan {
  readonly executable: string;
  readonly configFile: string;
  /** The system user that runs it. */
  readonly user: string;
  /** Folders that exist before the service starts, and that it may write to. */
  readonly writableFolders: readonly string[];
  /** Folders relative to /run, which systemd creates at each start. */
  readonly runtimeFolders: readonly string[];
  readonly listens: readonly Listen[];
  /** How long the gateway serves after the signal to stop, and how long open requests may then take. */
  readonly drainDelayMs: number;
  readonly shutdownGraceMs: number;
  /** The environment variables that the config uses. */
  readonly variables: readonly string[];
}

/** Variables that change which code runs or which certificates are trusted. */
const DANGEROUS_VARIABLES = [
  "BUN_OPTIONS",
  "BUN_BE_BUN",
  "NODE_TLS_REJECT_UNAUTHORIZED",
  "NODE_OPTIONS",
];
const PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY"];

/** What a stop takes after the grace: settling cut requests, sending their last bytes, closing the listeners. */
const STOP_MARGIN_S = 30;
/** Listening on a lower port needs a capability. */
const UNPRIVILEGED_PORTS_FROM = 1024;

/**
 * Returns the text of the unit. It has the restrictions that `systemd-analyze security` recommends and that allow a
 * just-in-time compiler. Throws CommandFailure for a path that a unit cannot contain.
 */
export function unitText(plan: UnitPlan): string {
  const command = (name: string): string =>
    `${programWord(plan.executable)} ${name} --config ${argumentWord(plan.configFile)}`;
  const stopS = Math.ceil((plan.drainDelayMs + plan.shutdownGraceMs) / 1000) + STOP_MARGIN_S;
  return `# Written by \`tollgate service install\`. Change it with \`systemctl edit\`, which keeps this file as it is.
[Unit]
Description=Tollgate, an LLM gateway with prepaid accounts
Wants=network-online.target
After=network-online.target
# systemd restarts it without a limit, because a cause such as a full disk can go away.
StartLimitIntervalSec=0

[Service]
# The service counts as started when the program runs. So no time limit ends a start that upgrades a large database.
Type=exec
User=${plan.user}
ExecStart=${command("serve")}
# Reads the config again. The check fails the reload of an invalid config. The gateway keeps its environment variables:
# a new or changed one needs \`systemctl restart\`, a changed api_key_file does not.
ExecReload=${command("check")}
ExecReload=/bin/kill -HUP $MAINPID
# The values of \${NAME} in the config: lines NAME=value. The file may be missing.
EnvironmentFile=-${ENVIRONMENT_FILE}
# These change which code runs, or which certificates and proxies are trusted.
UnsetEnvironment=${unsetVariables(plan.variables)}
KillSignal=SIGTERM
# server.drain_delay and server.shutdown_grace of the config, and the time to close everything.
TimeoutStopSec=${stopS}s
Restart=on-failure
RestartSec=5s
# The gateway itself starts a serving process again that was killed for memory.
OOMPolicy=continue
# A reload before the program handles SIGHUP ends it. systemd regards that as a clean exit.
RestartForceExitStatus=SIGHUP
# A wrong command line stays wrong.
RestartPreventExitStatus=2
LimitNOFILE=65536
# A core dump would contain keys and prompts.
LimitCORE=0
UMask=0077

# The file system is read-only, except for these folders.
ProtectSystem=strict
${writable(plan)}
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
NoNewPrivileges=yes
${capabilities(plan.listens)}
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
# The just-in-time compiler needs memory that is writable and executable.
MemoryDenyWriteExecute=no

[Install]
WantedBy=multi-user.target
`;
}

/** A proxy variable that the config uses stays: `serve` gives it to the config and removes it from the environment. */
function unsetVariables(variables: readonly string[]): string {
  const proxies = PROXY_VARIABLES.filter((name) => !variables.includes(name));
  return [...DANGEROUS_VARIABLES, ...proxies].join(" ");
}

function writable({ writableFolders, runtimeFolders }: UnitPlan): string {
  return [
    ...writableFolders.map((folder) => `ReadWritePaths=${pathWord(folder)}`),
    ...runtimeFolders.map((folder) => `RuntimeDirectory=${pathWord(folder)}`),
  ].join("\n");
}

function capabilities(listens: readonly Listen[]): string {
  const isLow = ({ port }: { port: number }) => port > 0 && port < UNPRIVILEGED_PORTS_FROM;
  if (!listens.some((listen) => listen.kind === "tcp" && isLow(listen))) {
    return "CapabilityBoundingSet=";
  }
  return "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE";
}

/** The advice for a config change that the unit does not allow. */
export const REWRITE_UNIT =
  "write the unit of the service again (remove it, then `tollgate service install` and `systemctl daemon-reload`)";

/**
 * A path as one word of a list of paths. Throws CommandFailure for a path that a unit cannot contain. Quotes and
 * backslashes follow https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html, the doubled `%` and
 * `$` https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#Command%20lines
 */
function pathWord(path: string): string {
  if (hasUnprintable(path)) {
    throw new CommandFailure(
      `${path}: a unit cannot use a path with control characters: rename it`,
    );
  }
  const escaped = path.replaceAll("%", "%%").replace(/["\\]/g, "\\$&");
  return /^[\w./%@:+,=-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}

/** An argument of a command, where `$` starts a variable. */
function argumentWord(path: string): string {
  return pathWord(path).replaceAll("$", "$$$$");
}

/** The program of a command. systemd reads `$` in it literally, and refuses quotes and backslashes. */
function programWord(path: string): string {
  if (!/["'\\]/.test(path)) return pathWord(path);
  throw new CommandFailure(
    `${path}: systemd cannot start a program with a quote or a backslash in its path: copy it to /usr/local/bin and run that`,
  );
}
