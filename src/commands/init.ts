import type { Command } from "commander";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { exampleConfig } from "../config/example.ts";
import { CommandFailure } from "./failure.ts";
import { printResult, visible } from "./print.ts";
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
      writeNew(file);
      printResult({ document: { file }, text: () => nextSteps(file) }, json === true);
    });
}

function writeNew(file: string): void {
  try {
    writeFileSync(file, exampleConfig(), { flag: "wx", mode: FILE_MODE });
  } catch (cause) {
    throw new CommandFailure(`${file}: ${reason(cause)}`, { cause });
  }
}

function reason(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
  switch (code) {
    case "EEXIST":
      return "exists already and was not changed: name another file";
    case "ENOENT":
    case "ENOTDIR":
      return "its folder does not exist: make it first";
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return "cannot be written: permission denied";
    default:
      return `cannot be written: error ${code}`;
  }
}

function nextSteps(file: string): string {
  const option = file === resolve("config.toml") ? "" : ` --config ${file}`;
  return [
    `wrote ${file}`,
    "next: put your providers and models into it, then",
    `      tollgate check${option}`,
    `      tollgate keys create --account NAME${option}`,
    `      tollgate balance credit NAME 100${option}`,
    `      tollgate serve${option}`,
  ]
    .map(visible)
    .join("\n");
}
