import { Command, type ErrorOptions } from "commander";

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
export class GuidedCommand extends Command {
  override createCommand(name?: string): Command {
    return new GuidedCommand(name);
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
