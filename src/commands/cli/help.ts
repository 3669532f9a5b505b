import { Command, type ErrorOptions } from "commander";
import { nearest } from "../../lib/nearest.ts";

/** Adds a `help` command to the program and to each command with subcommands. It accepts a path of any length. */
export function addHelp(parent: Command): void {
  if (parent.commands.length === 0) return;
  parent.commands.forEach(addHelp);
  parent
    .command("help")
    .description("show the help of a command")
    .argument("[command...]")
    .action((words: readonly string[]) => {
      findCommand(parent, words).outputHelp();
    });
}

/** The command with this path below `parent`. An unknown path is wrong usage. */
function findCommand(parent: Command, words: readonly string[]): Command {
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

/** Codes of usage errors that the help explains. */
const EXPLAINED_BY_HELP: ReadonlySet<string | undefined> = new Set([
  "commander.unknownCommand",
  "commander.unknownOption",
  "commander.missingArgument",
  "commander.missingMandatoryOptionValue",
  "commander.optionMissingArgument",
  "commander.excessArguments",
]);

/** A command whose usage errors name its help, unless they contain a suggestion. Its subcommands are of this class too. */
export class CommandWithHints extends Command {
  override createCommand(name?: string): Command {
    return new CommandWithHints(name);
  }

  override error(message: string, options?: ErrorOptions): never {
    const isExplained = EXPLAINED_BY_HELP.has(options?.code) && !message.includes("(Did you mean");
    const text = `${message.replace(/\.$/, "")}: see ${helpCommand(this)}`;
    super.error(isExplained ? text : message, options);
  }
}

/** The shell command that shows the help, such as `tollgate help accounts create`. */
function helpCommand(command: Command): string {
  const { parent } = command;
  return parent ? `${helpCommand(parent)} ${command.name()}` : `${command.name()} help`;
}
