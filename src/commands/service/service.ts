import { InvalidArgumentError, type Command } from "commander";
import { readFileSync, existsSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { ConfigError, loadConfig, readReferences, ENVIRONMENT_FILE } from "../../config/load.ts";
import { CommandFailure, printResult, printWarning } from "../cli/print.ts";
import { writeNewFile } from "../init.ts";
import { globalOptions } from "../cli/session.ts";
import { databasePaths, pathProblems, writtenFolders } from "./installPaths.ts";
import { unitText } from "./unit.ts";
import type { Config } from "../../config/schema.ts";
import { STORE_SUFFIXES } from "../../store/open.ts";
import { shellWord, visible } from "../../lib/terminal.ts";

interface InstallOptions {
  readonly file: string;
  readonly user: string;
  readonly print?: true;
}

const UNIT_FILE = "/etc/systemd/system/tollgate.service";
/** Every user may read a unit, so it contains no secret. */
const UNIT_MODE = 0o644;
const NEEDS_ROOT = "run this as root, or print the unit with --print";

/** Registers `tollgate service`. */
export function addService(program: Command): void {
  program
    .command("service")
    .description("run the gateway as a systemd service")
    .command("install")
    .description("write a hardened systemd unit for this executable and config")
    .option("--user <name>", "system user that runs the gateway", systemUser, "tollgate")
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
    drainDelayMs: config.server.drainDelayMs,
    shutdownGraceMs: config.server.shutdownGraceMs,
    variables,
  });
  const problems = pathProblems(executable, config, files);
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
 * Writes the unit and returns true. Returns false if the file already has this text. Throws CommandFailure for an
 * existing file with another text, which may contain the operator's changes.
 */
export function writeUnit(file: string, unit: string): boolean {
  if (!existsSync(file)) {
    writeNewFile(file, unit, { mode: UNIT_MODE, whenDenied: NEEDS_ROOT });
    return true;
  }
  if (readUnit(file) === unit) return false;
  throw new CommandFailure(
    `${file}: exists already, differs, and was not changed: compare it with the output of --print, remove it, and run this again`,
  );
}

function readUnit(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new CommandFailure(`${file}: exists already and cannot be read: ${NEEDS_ROOT}`, {
      cause,
    });
  }
}

function systemUser(text: string): string {
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

/** An installed service. */
export interface Installation {
  /** The unit file. */
  readonly file: string;
  readonly user: string;
  readonly executable: string;
  readonly config: Config;
  /** The folders that the service may write to. */
  readonly writable: readonly string[];
  /** The environment variables that the config uses. */
  readonly variables: readonly string[];
  /** The files that the config names. */
  readonly files: readonly string[];
}

/** systemd knows the units in this folder by name. */
const UNIT_FOLDER = "/etc/systemd/system";

/** The steps after the unit is written: shell commands to run as root, and comments. */
export function nextSteps(installation: Installation): readonly string[] {
  const { file, user, executable, config, variables } = installation;
  const unit = dirname(file) === UNIT_FOLDER ? basename(file, ".service") : file;
  const asUser = (command: string) =>
    `runuser -u ${user} -- ${shellWord(executable)} ${command} --config ${shellWord(config.file)}`;
  const check = asUser("check --live");
  return [
    `id -u ${user} >/dev/null 2>&1 || useradd --system --user-group --shell /usr/sbin/nologin ${user}`,
    ...ownershipSteps(installation),
    ...environmentSteps(variables),
    "# then check that the providers answer (a small request to each route); run `doctor` in the same way:",
    variables.length === 0 ? check : `(set -a; . ${ENVIRONMENT_FILE}; ${check})`,
    "systemctl daemon-reload",
    `systemctl enable --now ${shellWord(unit)}`,
    "# run the other commands as the same user, which owns the database, such as:",
    asUser("keys create --account NAME"),
  ].map(visible);
}

/** An existing folder may contain files of others: only the database files in it change their owner. */
function ownershipSteps(installation: Installation): readonly string[] {
  const { user, config, executable, writable, files } = installation;
  const missing = writable.filter((folder) => !existsSync(folder));
  const databaseFiles = databasePaths(config).flatMap((path) =>
    STORE_SUFFIXES.map((suffix) => path + suffix),
  );
  const owned = [
    ...[...writable, ...databaseFiles].filter((path) => existsSync(path)),
    config.file,
  ];
  const replaceable = [config.file, executable].filter((file) => writable.includes(dirname(file)));
  return [
    ...missing.map((folder) => `install -d -m 0750 -o ${user} ${shellWord(folder)}`),
    // -h: a link that the user put into its own folder must not make root change other files.
    `chown -h ${user}: ${owned.map(shellWord).join(" ")}`,
    ...(files.length === 0
      ? []
      : [`# ${user} must be able to read: ${files.map(shellWord).join(" ")}`]),
    ...replaceable.map(
      (file) =>
        `# ${user} may change ${file}, because it is in the folder of the database: database.path = "/var/lib/tollgate/tollgate.db" separates them`,
    ),
  ];
}

function environmentSteps(variables: readonly string[]): readonly string[] {
  if (variables.length === 0) return [];
  // systemd and a shell read single quotes in the same way.
  const lines = variables.map((name) => `${name}='...'`).join(" ");
  return [
    `mkdir -p ${dirname(ENVIRONMENT_FILE)} && (umask 077; touch ${ENVIRONMENT_FILE})`,
    `# the config uses variables: add a line for each to ${ENVIRONMENT_FILE}: ${lines}`,
  ];
}
