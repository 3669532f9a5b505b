import type { Command, Option } from "commander";

/** A command, as the completion scripts describe it. */
export interface CompletedCommand {
  /** Its words after the program's own name, such as `balance show`; "" for the program. */
  readonly path: string;
  readonly subcommands: readonly Candidate[];
  readonly options: readonly CompletedOption[];
  /** Values of the first argument, in addition to the subcommands. */
  readonly argument: Expected;
}

/** A word that completion offers. */
export interface Candidate {
  readonly word: string;
  /** One line. */
  readonly description: string;
}

export interface CompletedOption {
  /** One or both of `-h` and `--help`. */
  readonly flags: readonly string[];
  readonly description: string;
  /** Undefined for one that takes no value. */
  readonly value: Expected | undefined;
}

/** A value: one of these words, a file, or, if both are empty, any text. */
export interface Expected {
  readonly words: readonly string[];
  readonly isFile: boolean;
}

const nothing: Expected = { words: [], isFile: false };

/** The program and all its commands, in the order of the help. */
export function commandTree(program: Command): readonly CompletedCommand[] {
  return commandAndBelow(program, "", nothing);
}

function commandAndBelow(
  command: Command,
  path: string,
  argument: Expected,
): readonly CompletedCommand[] {
  const help = command.createHelp();
  const shown = help.visibleCommands(command);
  const subcommands = shown.map((one) => candidate(one.name(), one.description()));
  const options = [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
  const below = shown.flatMap((one) => {
    // The argument of `help` is one of the other commands.
    const words = command.commands.map((other) => other.name()).filter((name) => name !== "help");
    const expected = one.name() === "help" ? { words, isFile: false } : firstArgument(one);
    return commandAndBelow(one, `${path} ${one.name()}`.trimStart(), expected);
  });
  return [{ path, subcommands, options: options.map(completedOption), argument }, ...below];
}

function firstArgument(command: Command): Expected {
  const [first] = command.registeredArguments;
  return first ? expected(first.name(), first.argChoices) : nothing;
}

function completedOption(option: Option): CompletedOption {
  const takesValue = option.required || option.optional;
  const valueName = /[<[]([^\]>]*)/.exec(option.flags)?.[1] ?? "";
  return {
    flags: [option.short, option.long].filter((flag) => flag !== undefined),
    description: oneLine(option.description),
    value: takesValue ? expected(valueName, option.argChoices) : undefined,
  };
}

/** The name of the argument in the help tells whether it is a file. */
function expected(name: string, words: readonly string[] | undefined): Expected {
  return { words: words ?? [], isFile: /^(?:file|path|folder)$/.test(name) };
}

function candidate(word: string, description: string): Candidate {
  return { word, description: oneLine(description) };
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
