import { Command, type ErrorOptions } from "commander";
import { nearest } from "../../lib/nearest.ts";

/** Gives the program, and each command with others below it, a `help` that walks all the words behind it. */
export function addHelp(parent: Command): void {
  if (parent.commands.length === 0) return;
  parent.commands.forEach(addHelp);
  parent
    .command("help")
    .description("show the help of a command")
    .argument("[command...]")
    .action((words: readonly string[]) => {
      walk(parent, words).outputHelp();
    });
}

/** The command of these words below `parent`. Ends the command line as wrong usage where there is none. */
function walk(parent: Command, words: readonly string[]): Command {
  let found: Command = parent;
  for (const [at, word] of words.entries()) {
    const next = found.commands.find((one) => one.name() === word);
    if (next === undefined) {
      const names = found.commands.map((one) => one.name());
      const meant = nearest(word, names);
      const advice = meant === undefined ? "" : ` (Did you mean ${meant}?)`;
      found.error(`unknown command '${words.slice(0, at + 1).join(" ")}'${advice}`, {
        code: "commander.unknownCommand",
      });
    }
    found = next;
  }
  return found;
}

/** The codes of what is missing on a command line, or too much: the help tells what belongs there. */
const HELPED: ReadonlySet<string | undefined> = new Set([
  "commander.unknownCommand",
  "commander.unknownOption",
  "commander.missingArgument",
  "commander.missingMandatoryOptionValue",
  "commander.optionMissingArgument",
  "commander.excessArguments",
]);

/** A command whose errors of usage name its help, unless they guess what was meant. Those below it are such commands too. */
export class CommandWithHints extends Command {
  override createCommand(name?: string): Command {
    return new CommandWithHints(name);
  }

  override error(message: string, options?: ErrorOptions): never {
    const isHelped = HELPED.has(options?.code) && !message.includes("(Did you mean");
    super.error(isHelped ? `${message.replace(/\.$/, "")}: see ${helpOf(this)}` : message, options);
  }
}

/** The command line that shows it: `tollgate help accounts create`. */
function helpOf(command: Command): string {
  const { parent } = command;
  return parent ? `${helpOf(parent)} ${command.name()}` : `${command.name()} help`;
}
