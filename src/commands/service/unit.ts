import { ENVIRONMENT_FILE } from "../../config/load.ts";
import type { Listen } from "../../config/schema.ts";
import { hasUnprintable } from "../../lib/printable.ts";
import { CommandFailure } from "../cli/print.ts";

/** What a unit is made from. Paths are absolute. */
export interface UnitPlan {
  readonly executable: string;
  readonly configFile: string;
  /** The account that it runs as. */
  readonly user: string;
  /** Folders that are there before the service starts, and that it may write to. */
  readonly writableFolders: readonly string[];
  /** Folders below /run, which systemd makes at each start, relative to it. */
  readonly runtimeFolders: readonly string[];
  readonly listens: readonly Listen[];
  readonly shutdownGraceMs: number;
  /** Those of the environment that the config names. */
  readonly variables: readonly string[];
}

/** They change what the program is, or whom it trusts, whatever the config says. */
const TRAP_VARIABLES = [
  "BUN_OPTIONS",
  "BUN_BE_BUN",
  "NODE_TLS_REJECT_UNAUTHORIZED",
  "NODE_OPTIONS",
];
const UNIT_PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY"];

/** What a stop takes beyond the grace: the last words of what is cut off, ends that wait for the store, both listeners. */
const STOP_MARGIN_S = 30;
/** Below it a port asks for a capability. */
const FREE_PORTS_FROM = 1024;

/**
 * The text of the unit. The restrictions are what `systemd-analyze security` asks for and a program with a
 * just-in-time compiler survives. Throws CommandFailure for a path that no unit can hold.
 */
export function unitText(plan: UnitPlan): string {
  const command = (name: string): string =>
    `${programWord(plan.executable)} ${name} --config ${argumentWord(plan.configFile)}`;
  const stopS = Math.ceil(plan.shutdownGraceMs / 1000) + STOP_MARGIN_S;
  return `# Written by \`tollgate service install\`. Change it with \`systemctl edit\`, which keeps this file as it is.
[Unit]
Description=Tollgate, an LLM gateway with prepaid accounts
Wants=network-online.target
After=network-online.target
# It is tried for ever: what stops it, such as a full disk, may pass.
StartLimitIntervalSec=0

[Service]
Type=exec
User=${plan.user}
ExecStart=${command("serve")}
# Reads the config again; one that would be refused fails the reload before the gateway hears of it. The gateway keeps
# the variables that it started with, which the check does not know:
# a new or changed one needs \`systemctl restart\`, a changed api_key_file does not.
ExecReload=${command("check")}
ExecReload=/bin/kill -HUP $MAINPID
# The \${NAME} of the config: lines NAME=value. The file may be missing.
EnvironmentFile=-${ENVIRONMENT_FILE}
# Each of them would change what the program is, or whom it trusts.
UnsetEnvironment=${unset(plan.variables)}
KillSignal=SIGTERM
# server.shutdown_grace of the config and what the end takes after it.
TimeoutStopSec=${stopS}s
Restart=on-failure
RestartSec=5s
# To systemd that is a clean end, and a reload may come before the program hears of signals.
RestartForceExitStatus=SIGHUP
# A wrong command line does not mend itself.
RestartPreventExitStatus=2
LimitNOFILE=65536
# A dump would hold keys and prompts.
LimitCORE=0
UMask=0077

# The whole file system is read-only but for these.
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
# The runtime compiles while it runs, so its memory must be writable and executable.
MemoryDenyWriteExecute=no

[Install]
WantedBy=multi-user.target
`;
}

/** A proxy that the config names is kept: `serve` hands it to the config and hides it from the runtime. */
function unset(variables: readonly string[]): string {
  return [
    ...TRAP_VARIABLES,
    ...UNIT_PROXY_VARIABLES.filter((name) => !variables.includes(name)),
  ].join(" ");
}

function writable({ writableFolders, runtimeFolders }: UnitPlan): string {
  return [
    ...writableFolders.map((folder) => `ReadWritePaths=${pathWord(folder)}`),
    ...runtimeFolders.map((folder) => `RuntimeDirectory=${folder}`),
  ].join("\n");
}

/** None, unless a port is one of those that only root may listen on. */
function capabilities(listens: readonly Listen[]): string {
  const isLow = ({ port }: { port: number }) => port > 0 && port < FREE_PORTS_FROM;
  if (!listens.some((listen) => listen.kind === "tcp" && isLow(listen))) {
    return "CapabilityBoundingSet=";
  }
  return "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE";
}

/** What to do where the unit of a service still holds to the config from which it was made. */
export const UNIT_ANEW =
  "write the unit of the service again (remove it, then `tollgate service install` and `systemctl daemon-reload`)";

/**
 * How paths are written in a systemd unit. Quotes and backslashes follow
 * https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html, the doubled `%` and `$`
 * https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#Command%20lines
 */

/** A path as one word of a list of paths. Throws CommandFailure for one that no unit can hold. */
function pathWord(path: string): string {
  if (hasUnprintable(path)) {
    throw new CommandFailure(
      `${path}: a unit cannot use a path with control characters: rename it`,
    );
  }
  const escaped = path.replaceAll("%", "%%").replace(/["\\]/g, "\\$&");
  return /^[\w./%@:+,=-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}

/** The same as an argument of a command, where `$` begins a variable. */
function argumentWord(path: string): string {
  return pathWord(path).replaceAll("$", "$$$$");
}

/** The same as the program of a command, where `$` is only itself and systemd refuses some others. */
function programWord(path: string): string {
  if (!/["'\\]/.test(path)) return pathWord(path);
  throw new CommandFailure(
    `${path}: systemd cannot start a program with a quote or a backslash in its path: copy it to /usr/local/bin and run that`,
  );
}
