import type { Command } from "commander";
import { commandLine } from "../../src/main.ts";
import { code, plainText } from "./markdown.ts";

const introduction = `\`tollgate help COMMAND\` prints the same. The exit status is 0 if all is well, 1 if the command failed, and 2 for wrong usage.
A few commands have more, as their section says.`;

/** A section for each command, in the order of the help. */
export async function commandsPage(): Promise<string> {
  const program = await commandLine(["help"]);
  const everywhere = optionsOf(program).join("\n");
  const beginning = ["# Commands", introduction, "## Options of every command", everywhere];
  return [...beginning, ...sectionsBelow(program)].join("\n\n");
}

function sectionsBelow(parent: Command): string[] {
  const shown = parent.createHelp().visibleCommands(parent);
  return shown.filter((command) => command.name() !== "help").flatMap(sectionsOf);
}

function sectionsOf(command: Command): string[] {
  if (command.commands.length > 0) return sectionsBelow(command);
  const help = command.createHelp();
  const usage = help.commandUsage(command);
  const words = help
    .visibleArguments(command)
    .map((one) => item(`<${help.argumentTerm(one)}>`, help.argumentDescription(one)));
  const description = plainText(help.commandDescription(command));
  const parts = [
    `## ${usage.replace(/ [[<].*$/, "")}`,
    `${description.charAt(0).toUpperCase()}${description.slice(1)}.`,
    `\`\`\`sh\n${usage}\n\`\`\``,
    [...words, ...optionsOf(command)].join("\n"),
  ];
  return parts.filter((part) => part !== "");
}

function optionsOf(command: Command): string[] {
  const help = command.createHelp();
  const options = help.visibleOptions(command).filter(({ long }) => long !== "--help");
  return options.map((option) => item(help.optionTerm(option), help.optionDescription(option)));
}

const item = (term: string, description: string) => `- ${code(term)}: ${plainText(description)}`;
