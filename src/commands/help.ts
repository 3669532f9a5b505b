import type { Command } from "commander";
import { nearest } from "../config/nearest.ts";

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
