import { shellWord } from "../shellWord.ts";
import type { CompletedCommand, CompletedOption, Expected } from "./tree.ts";

/** What the scripts for Bash and zsh share: a `case` over commands and one over their options' values. */

/** The branch of the command; `settings` are assignments. */
export function commandCase(path: string, settings: readonly string[]): string {
  return `    ${path === "" ? "''" : shellWord(path)}) ${settings.join(" ")} ;;`;
}

/** The branches `path:option` of the options whose value is known; `assigned` writes what it can be. */
export function valueCases(
  { path, options }: CompletedCommand,
  assigned: (value: Expected) => string,
): readonly string[] {
  return options.flatMap(({ flags, value }) =>
    value === undefined || (value.words.length === 0 && !value.isFile)
      ? []
      : flags.map((flag) => `    ${shellWord(`${path}:${flag}`)}) ${assigned(value)} ;;`),
  );
}

/** The options that take a value. */
export function valued(options: readonly CompletedOption[]): readonly CompletedOption[] {
  return options.filter(({ value }) => value !== undefined);
}

/** The flags of the options, as the words of an array. */
export function flagList(options: readonly CompletedOption[]): string {
  return wordList(options.flatMap(({ flags }) => flags));
}

/** The words of an array. */
export function wordList(words: readonly string[]): string {
  return words.map(shellWord).join(" ");
}
