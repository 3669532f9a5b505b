import { InvalidArgumentError, type Command } from "commander";
import { readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { ConfigError, loadConfig, readReferences } from "../../config/load.ts";
import { pathStatus } from "../../lib/pathStatus.ts";
import { CommandFailure } from "../failure.ts";
import { writeNewFile } from "../newFile.ts";
import { printResult, printWarning } from "../print.ts";
import { globalOptions } from "../session.ts";
import { nextSteps } from "./nextSteps.ts";
import { obstacles, writtenFolders } from "./places.ts";
import { unitText } from "./unit.ts";

interface InstallOptions {
  readonly file: string;
  readonly user: string;
  readonly print?: true;
}

const UNIT_FILE = "/etc/systemd/system/tollgate.service";
/** As systemd has them: it may be read by all, and holds no secret. */
const UNIT_MODE = 0o644;
const NOT_ROOT = "run it as root, or see the unit with --print";

/** Registers `tollgate service`. */
export function addService(program: Command): void {
  program
    .command("service")
    .description("run the gateway as a service of systemd")
    .command("install")
    .description("write a hardened systemd unit for this executable and this config")
    .option("--user <name>", "the account that it runs as", accountOfSystem, "tollgate")
    .option("--file <file>", "where to write it", unitFile, UNIT_FILE)
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
    if (!changed) return `nothing changed: ${options.file} is what it would be`;
    return [`wrote ${options.file}`, "next, as root:", ...next.map((line) => `      ${line}`)].join(
      "\n",
    );
  };
  printResult({ document, text }, json);
}

function ownExecutable(): string {
  if (Bun.isStandaloneExecutable) return process.execPath;
  throw new CommandFailure(
    "a service needs the built executable: `bun run build` makes dist/tollgate, copy it to /usr/local/bin and run that one",
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
    `${file}: exists already, differs, and was not changed: compare it with what --print shows, remove it, and run this again`,
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
      "Name an account of this system: 1 to 31 letters, digits, dashes and underscores.",
    );
  }
  if (text === "root") throw new InvalidArgumentError("A gateway needs no root: name another.");
  return text;
}

function unitFile(text: string): string {
  const file = resolve(text);
  if (/^[\w.:-]+\.service$/.test(basename(file)) && !/\p{C}/u.test(dirname(file))) return file;
  throw new InvalidArgumentError(
    "The name of a unit ends in .service: /etc/systemd/system/tollgate.service.",
  );
}
