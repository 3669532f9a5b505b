import type { Command } from "commander";
import { resolve } from "node:path";
import { exampleConfig } from "../config/example.ts";
import { writeNewFile } from "./newFile.ts";
import { printResult, visible } from "./print.ts";
import { commandToPaste } from "./shellWord.ts";
import { globalOptions } from "./session.ts";

/** The owner's alone: keys of providers may be put into it. */
const FILE_MODE = 0o600;

/** Registers `tollgate init`. */
export function addInit(program: Command): void {
  program
    .command("init")
    .description("write a commented config to start from; never overwrites")
    .argument("[file]", "default: what --config names, else ./config.toml")
    .action((given: string | undefined, _: unknown, command: Command) => {
      const { config, json } = globalOptions(command);
      const file = resolve(given ?? config ?? "config.toml");
      writeNewFile(file, exampleConfig(), { mode: FILE_MODE });
      printResult({ document: { file }, text: () => nextSteps(file) }, json);
    });
}

function nextSteps(file: string): string {
  const config = file === resolve("config.toml") ? undefined : file;
  const line = (...words: readonly string[]) => `      ${commandToPaste(config, ...words)}`;
  return [
    `wrote ${file}`,
    "next: put your providers and models into it, then",
    line("check"),
    line("keys", "create", "--account", "NAME"),
    line("balance", "credit", "NAME", "100"),
    line("serve"),
  ]
    .map(visible)
    .join("\n");
}
