import { Command, CommanderError } from "commander";
import { addAccounts } from "./commands/accounts.ts";
import { addAudit } from "./commands/audit.ts";
import { addBalance } from "./commands/balance.ts";
import { addCheck } from "./commands/check.ts";
import { addDemo } from "./commands/demo/demo.ts";
import { CommandFailure } from "./commands/failure.ts";
import { addInit } from "./commands/init.ts";
import { addKeys } from "./commands/keys.ts";
import { addModels } from "./commands/models.ts";
import { printError, printText, printUsage } from "./commands/print.ts";
import { addRequests } from "./commands/requests.ts";
import { addServe } from "./commands/serve.ts";
import { addUsage } from "./commands/usage.ts";
import { ConfigError } from "./config/load.ts";
import { version } from "./lib/version.ts";

const DONE = 0;
const FAILED = 1;
const WRONG_USAGE = 2;

/**
 * The commands, in the order in which the help lists them. Each is a function that registers one; a
 * command that needs more than the store loads that when it runs, so that the others start at once.
 */
const commands: readonly ((program: Command) => void)[] = [
  addServe,
  addDemo,
  addInit,
  addCheck,
  addAccounts,
  addKeys,
  addBalance,
  addUsage,
  addRequests,
  addModels,
  addAudit,
];

/** Runs one command line and returns the exit status: 0 done, 1 failed, 2 wrong usage. */
async function main(args: readonly string[]): Promise<number> {
  try {
    await program().parseAsync(args, { from: "user" });
    return DONE;
  } catch (error) {
    return exitStatus(error);
  }
}

function program(): Command {
  const program = new Command("tollgate")
    .description(
      "An LLM gateway with prepaid accounts: one executable, one config file, exact billing.",
    )
    .version(version(), "--version", "print the version")
    .option(
      "--config <file>",
      "the config; default: $TOLLGATE_CONFIG, ./config.toml, /etc/tollgate/config.toml",
    )
    .option("--json", "print one JSON document instead of text for people")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeOut: printText, writeErr: printUsage, outputError: printUsageError })
    .exitOverride();
  for (const add of commands) add(program);
  return program;
}

/** Tells what went wrong, unless that was told already, and returns the status to end with. */
function exitStatus(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === DONE ? DONE : WRONG_USAGE;
  if (error instanceof ConfigError) {
    error.problems.forEach(printError);
    return FAILED;
  }
  printError(error instanceof Error ? error.message : String(error));
  return error instanceof CommandFailure ? error.status : FAILED;
}

/** Its suggestion comes on a line of its own, its text with a prefix that is ours to write. */
function printUsageError(text: string): void {
  printError(
    text
      .trimEnd()
      .replace(/^error: /, "")
      .replace(/\n\(/, " ("),
  );
}

if (import.meta.main) process.exit(await main(process.argv.slice(2)));
