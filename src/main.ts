import { CommanderError, type Command } from "commander";
import type { Group } from "./administration/operation.ts";
import {
  CommandAnswer,
  CommandFailure,
  printError,
  printText,
  printUsage,
} from "./commands/cli/print.ts";
import { CommandWithHints, addHelp } from "./commands/cli/help.ts";
import { ConfigError } from "./config/load.ts";
import { version } from "./lib/version.ts";

const DONE = 0;
const FAILED = 1;
const WRONG_USAGE = 2;

/** Long invalid arguments are cut to their first 100 characters in error messages. */
const LONG_ARGUMENT = /'(.{100}).{100,}' is invalid/su;

type AddCommand = (program: Command) => void;

/**
 * The commands in the order of the help. Only those that the command line names are loaded, because loading all
 * of them takes a fifth of the start time of a gateway.
 */
const commands: Readonly<Record<string, () => Promise<AddCommand>>> = {
  serve: async () => (await import("./commands/serve/serve.ts")).addServe,
  demo: async () => (await import("./commands/demo/demo.ts")).addDemo,
  init: async () => (await import("./commands/init.ts")).addInit,
  check: async () => (await import("./commands/check/check.ts")).addCheck,
  accounts: group(async () => (await import("./administration/accounts.ts")).accounts),
  keys: group(async () => (await import("./administration/keys.ts")).keys),
  balance: group(async () => (await import("./administration/balance.ts")).balance),
  vouchers: group(async () => (await import("./administration/vouchers.ts")).vouchers),
  usage: group(async () => (await import("./administration/usage.ts")).usage),
  requests: group(async () => (await import("./administration/requests.ts")).requests),
  console: async () => (await import("./commands/console.ts")).addConsole,
  models: async () => (await import("./commands/models/models.ts")).addModels,
  prices: async () => (await import("./commands/prices/prices.ts")).addPrices,
  audit: async () => (await import("./commands/audit.ts")).addAudit,
  backup: async () => (await import("./commands/backup.ts")).addBackup,
  restore: async () => (await import("./commands/backup.ts")).addRestore,
  migrate: async () => (await import("./commands/migrate.ts")).addMigrate,
  "migrate-schema": async () => (await import("./commands/migrateSchema.ts")).addMigrateSchema,
  doctor: async () => (await import("./commands/doctor/doctor.ts")).addDoctor,
  explain: async () => (await import("./commands/explain.ts")).addExplain,
  healthcheck: async () => (await import("./commands/healthcheck.ts")).addHealthcheck,
  service: async () => (await import("./commands/service/service.ts")).addService,
  completion: async () => (await import("./commands/completion.ts")).addCompletion,
  complete: async () => (await import("./commands/completion.ts")).addComplete,
};

/** The commands of operations. */
function group(load: () => Promise<Group>): () => Promise<AddCommand> {
  return async () => {
    const { addGroup } = await import("./commands/cli/operationCommand.ts");
    const loaded = await load();
    return (program) => addGroup(program, loaded);
  };
}

/** Runs one command line and returns the exit status: 0 done, 1 failed, 2 wrong usage, 3 an answer of the command. */
async function main(args: readonly string[]): Promise<number> {
  try {
    await (await commandLine(args)).parseAsync(args, { from: "user" });
    return DONE;
  } catch (error) {
    return exitStatus(error);
  }
}

/** The program with the commands that these arguments name. */
export async function commandLine(args: readonly string[]): Promise<Command> {
  const program = new CommandWithHints("tollgate")
    .description(
      "An LLM gateway with prepaid accounts: one executable, one config file, exact billing.",
    )
    .version(version(), "--version", "print the version")
    .option(
      "--config <file>",
      "config file; default: $TOLLGATE_CONFIG, ./config.toml, /etc/tollgate/config.toml",
    )
    .option("--json", "print one JSON document instead of text")
    .option(
      "--actor <name>",
      "for whom a change is made: the admin log has it beside the system's user; default: $TOLLGATE_ACTOR",
    )
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeOut: printText, writeErr: printUsage, outputError: printUsageError })
    .exitOverride();
  for (const load of namedCommands(args)) (await load())(program);
  addHelp(program);
  return program;
}

/** The commands whose output depends on all others. */
const describesAll: readonly string[] = ["help", "complete"];

/** The commands that the arguments name. All commands for the help and for an unknown word, which may be misspelled. */
function namedCommands(args: readonly string[]): readonly (() => Promise<AddCommand>)[] {
  const found = Object.entries(commands).filter(([name]) => args.includes(name));
  const first = args.findIndex((word) => Object.hasOwn(commands, word));
  const isProgramHelp = args.slice(0, first).some((word) => word === "-h" || word === "--help");
  const isAll =
    found.length === 0 || isProgramHelp || describesAll.some((name) => args.includes(name));
  return isAll ? Object.values(commands) : found.map(([, load]) => load);
}

/** Prints the error, unless Commander printed it already, and returns the exit status. */
function exitStatus(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === DONE ? DONE : WRONG_USAGE;
  if (error instanceof CommandAnswer) return error.status;
  if (error instanceof ConfigError) {
    error.problems.forEach(printError);
    return FAILED;
  }
  printError(error instanceof Error ? error.message : String(error));
  return error instanceof CommandFailure ? error.status : FAILED;
}

/** Commander writes its own `error: ` prefix, and a suggestion on a second line. */
function printUsageError(text: string): void {
  printError(
    text
      .trimEnd()
      .replace(/^error: /, "")
      .replace(LONG_ARGUMENT, "'$1...' is invalid")
      .replace(/\n\(/, " ("),
  );
}

// In an executable for Windows Bun 1.4.5 calls no module the main one.
if (import.meta.main || Bun.isStandaloneExecutable) process.exit(await main(process.argv.slice(2)));
