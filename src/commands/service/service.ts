import { InvalidArgumentError, type Command } from "commander";
import { readFileSync, existsSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { ConfigError, loadConfig, readReferences, ENVIRONMENT_FILE } from "../../config/load.ts";
import { pathStatus } from "../../lib/systemError.ts";
import { CommandFailure, printResult, printWarning, visible } from "../cli/print.ts";
import { writeNewFile } from "../init.ts";
import { globalOptions } from "../cli/session.ts";
import { obstacles, writtenFolders } from "./installPaths.ts";
import { unitText } from "./unit.ts";
import type { Config } from "../../config/schema.ts";
import { STORE_SUFFIXES } from "../../store/store.ts";
import { shellWord } from "../cli/format.ts";

interface InstallOptions {
  readonly file: string;
  readonly user: string;
  readonly print?: true;
}

const UNIT_FILE = "/etc/systemd/system/tollgate.service";
/** As systemd has them: it may be read by all, and holds no secret. */
const UNIT_MODE = 0o644;
const NOT_ROOT = "run this as root, or print the unit with --print";

/** Registers `tollgate service`. */
export function addService(program: Command): void {
  program
    .command("service")
    .description("run the gateway as a systemd service")
    .command("install")
    .description("write a hardened systemd unit for this executable and config")
    .option("--user <name>", "system user that runs the gateway", accountOfSystem, "tollgate")
    .option("--file <file>", "file to write the unit to", unitFile, UNIT_FILE)
    .option("--print", "print the unit and write nothing")
    .action((options: InstallOptions, command: Command) => install(options, command));
}

function install(options: InstallOptions, command: Command): void {
  const { config: path, json } = globalOptions(command);
  const executable = ownExecutable();
  const { config } = loadConfig({ path, secrets: "unread" });
  const { variables, files } = readReferences(config.file);
  const folders = writtenFolders(config);
  const unit = unitText({
    executable,
    configFile: config.file,
    user: options.user,
    writableFolders: folders.writable,
    runtimeFolders: folders.runtime,
    listens: [config.server.listen, ...(config.metrics ? [config.metrics.listen] : [])],
    shutdownGraceMs: config.server.shutdownGraceMs,
    variables,
  });
  const problems = obstacles(executable, config, files);
  if (problems.length > 0 && !options.print) throw new ConfigError(problems);
  if (!json) problems.forEach(printWarning);
  const changed = !options.print && writeUnit(options.file, unit);
  const next = nextSteps({ ...options, ...folders, executable, config, variables, files });
  const document = { file: options.file, changed, unit, variables, next, problems };
  const text = () => {
    if (options.print) return unit;
    if (!changed) return `nothing changed: ${options.file} is up to date`;
    return [`wrote ${options.file}`, "next, as root:", ...next.map((line) => `      ${line}`)].join(
      "\n",
    );
  };
  printResult({ document, text }, json);
}

function ownExecutable(): string {
  if (Bun.isStandaloneExecutable) return process.execPath;
  throw new CommandFailure(
    "a service needs the built executable: run `bun run build`, copy dist/tollgate to /usr/local/bin and run that",
  );
}

/**
 * Writes the unit, or finds that it stands there already: then it returns false. Throws CommandFailure for
 * a file that differs, which may hold somebody's own changes.
 */
export function writeUnit(file: string, unit: string): boolean {
  const there = pathStatus(file);
  // What cannot be looked at cannot be written either, and that failure has its words.
  if (typeof there !== "object") {
    writeNewFile(file, unit, { mode: UNIT_MODE, whenDenied: NOT_ROOT });
    return true;
  }
  // Nothing but a plain file of the right size is read: a pipe would not end.
  const mayBeSame = there.isFile() && there.size === Buffer.byteLength(unit);
  if (mayBeSame && readUnit(file) === unit) return false;
  throw new CommandFailure(
    `${file}: exists already, differs, and was not changed: compare it with the output of --print, remove it, and run this again`,
  );
}

function readUnit(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new CommandFailure(`${file}: exists already and cannot be read: ${NOT_ROOT}`, { cause });
  }
}

/** Without root's rights, and with a name that a unit takes as it is. */
function accountOfSystem(text: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_-]{0,30}$/.test(text)) {
    throw new InvalidArgumentError(
      "Use a system user: 1 to 31 letters, digits, hyphens and underscores.",
    );
  }
  if (text === "root")
    throw new InvalidArgumentError("The gateway does not need root. Use another user.");
  return text;
}

function unitFile(text: string): string {
  const file = resolve(text);
  if (/^[\w.:-]+\.service$/.test(basename(file)) && !/\p{C}/u.test(dirname(file))) return file;
  throw new InvalidArgumentError(
    "The file name must end in .service, such as /etc/systemd/system/tollgate.service.",
  );
}

/** What was installed, and for whom. */
export interface Installed {
  /** The unit's own. */
  readonly file: string;
  readonly user: string;
  readonly executable: string;
  readonly config: Config;
  /** The folders that the service may write to. */
  readonly writable: readonly string[];
  readonly variables: readonly string[];
  readonly files: readonly string[];
}

/** Where a unit is known by its name alone. */
const UNIT_FOLDER = "/etc/systemd/system";
const APART = 'database.path = "/var/lib/tollgate/tollgate.db" separates them';

/** What is left to do after the unit was written: lines for a shell, run as root, and comments. */
export function nextSteps(installed: Installed): readonly string[] {
  const { file, user, executable, config } = installed;
  const unit = dirname(file) === UNIT_FOLDER ? basename(file, ".service") : file;
  const run = (command: string) =>
    `runuser -u ${user} -- ${shellWord(executable)} ${command} --config ${shellWord(config.file)}`;
  const check = run("check --live");
  return [
    `id -u ${user} >/dev/null 2>&1 || useradd --system --user-group --shell /usr/sbin/nologin ${user}`,
    ...ownershipSteps(installed),
    ...environmentSteps(installed.variables),
    "# then check that the providers answer (a small request to each route); run `doctor` in the same way:",
    installed.variables.length === 0 ? check : `(set -a; . ${ENVIRONMENT_FILE}; ${check})`,
    "systemctl daemon-reload",
    `systemctl enable --now ${shellWord(unit)}`,
    "# run the other commands as the same user, which owns the database, such as:",
    run("keys create --account NAME"),
  ].map(visible);
}

/** A folder that is there already may hold more than is the gateway's: what else is in it stays whose it is. */
function ownershipSteps({
  user,
  config,
  executable,
  writable,
  files,
}: Installed): readonly string[] {
  const made = writable.filter((folder) => !existsSync(folder));
  const owned = [
    ...writable.filter((folder) => existsSync(folder)),
    // Made by whoever used the database first.
    ...STORE_SUFFIXES.map((suffix) => config.database.path + suffix).filter((one) =>
      existsSync(one),
    ),
    config.file,
  ];
  return [
    ...made.map((folder) => `install -d -m 0750 -o ${user} ${shellWord(folder)}`),
    // A link that the account put into its own folder must not lead root to other files.
    `chown -h ${user}: ${owned.map(shellWord).join(" ")}`,
    ...(files.length === 0
      ? []
      : [`# ${user} must be able to read: ${files.map(shellWord).join(" ")}`]),
    ...[config.file, executable]
      .filter((file) => writable.includes(dirname(file)))
      .map(
        (file) =>
          `# ${user} may change ${file}, because it is in the folder of the database: ${APART}`,
      ),
  ];
}

function environmentSteps(variables: readonly string[]): readonly string[] {
  if (variables.length === 0) return [];
  // In such quotes systemd and a shell read the same.
  const lines = variables.map((name) => `${name}='...'`).join(" ");
  return [
    `mkdir -p ${dirname(ENVIRONMENT_FILE)} && (umask 077; touch ${ENVIRONMENT_FILE})`,
    `# the config uses variables: add a line for each to ${ENVIRONMENT_FILE}: ${lines}`,
  ];
}
