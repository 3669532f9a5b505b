import { expect, test } from "bun:test";
import { CommanderError, type Command } from "commander";
import { commandLine } from "../../../src/main.ts";

const paths = pathsOf(await commandLine(["help"]), []);

function pathsOf(command: Command, path: readonly string[]): readonly (readonly string[])[] {
  const shown = command.createHelp().visibleCommands(command);
  const below = shown.filter((one) => one.name() !== "help");
  return [path, ...below.flatMap((one) => pathsOf(one, [...path, one.name()]))];
}

/** The help that this command line prints. It runs in this process and must succeed. */
async function printed(...args: readonly string[]): Promise<string> {
  const program = await commandLine(args);
  let text = "";
  const listen = (command: Command): void => {
    command.configureOutput({ writeOut: (more) => (text += more), writeErr: refuse });
    command.commands.forEach(listen);
  };
  listen(program);
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError) || error.exitCode !== 0) throw error;
  }
  return text;
}

function refuse(text: string): never {
  throw new Error(text);
}

test("there are commands and subcommands", () => {
  expect(paths).toContainEqual([]);
  expect(paths).toContainEqual(["accounts", "create"]);
  expect(paths.length).toBeGreaterThan(30);
});

test("the help of the program lists all commands, also if a command follows --help", async () => {
  const help = await printed("--help");
  for (const line of [
    ["-h", "keys"],
    ["--help", "keys"],
    ["--json", "-h", "keys", "list"],
  ])
    expect({ line, help: await printed(...line) }).toEqual({ line, help });
});

test.each(paths.map((words) => [words.join(" "), words] as const))(
  "all ways to request the help of `tollgate %s` print the same",
  async (_, words) => {
    const help = await printed(...words, "--help");
    const usage = ["Usage: tollgate", ...words].join(" ");
    expect(help).toStartWith(`${usage} `);
    expect(help).toContain("Global Options:".slice(words.length === 0 ? "Global ".length : 0));
    const askers = words.map((_one, at) => [...words.slice(0, at), "help", ...words.slice(at)]);
    for (const line of [
      [...words, "-h"],
      ["help", ...words],
      ["--json", ...words, "-h"],
      ...askers,
    ])
      expect({ line, help: await printed(...line) }).toEqual({ line, help });
  },
);
