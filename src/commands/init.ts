import type { Command } from "commander";
import { resolve } from "node:path";
import { rmSync, writeFileSync } from "node:fs";
import { exampleConfig } from "../config/load.ts";
import { printResult, CommandFailure } from "./cli/print.ts";
import { globalOptions } from "./cli/session.ts";
import { errorCode, fileErrorReason } from "../lib/systemError.ts";
import { commandToPaste, visible } from "../lib/terminal.ts";

/** Only the owner may read it, because it may contain provider keys. */
const FILE_MODE = 0o600;

/** Registers `tollgate init`. */
export function addInit(program: Command): void {
  program
    .command("init")
    .description("write a commented config; never overwrites a file")
    .argument("[file]", "default: the file of --config, else ./config.toml")
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
    "next: add your providers and models to it, then run",
    line("check"),
    line("keys", "create", "--account", "NAME"),
    line("balance", "credit", "NAME", "100"),
    line("serve"),
  ]
    .map(visible)
    .join("\n");
}

/**
 * Creates a file. Never changes an existing one, and does not follow a link. A file that cannot be written completely is
 * removed. Throws CommandFailure; `whenDenied` is its advice for missing permission.
 */
export function writeNewFile(
  file: string,
  text: string,
  { mode, whenDenied }: { readonly mode: number; readonly whenDenied?: string },
): void {
  try {
    writeFileSync(file, text, { flag: "wx", mode });
  } catch (cause) {
    // After these errors the file exists and is incomplete.
    if (writeErrors.has(errorCode(cause) ?? "")) rmSync(file, { force: true });
    throw new CommandFailure(`${file}: ${failureReason(cause, whenDenied)}`, { cause });
  }
}

const writeErrors: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EFBIG", "EIO"]);

function failureReason(cause: unknown, whenDenied: string | undefined): string {
  switch (errorCode(cause) ?? "") {
    case "EEXIST":
      return "exists already and was not changed: use another file name";
    case "ENOENT":
    case "ENOTDIR":
      return "its folder does not exist: create it first";
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return ["cannot be written", fileErrorReason(cause), whenDenied].filter(Boolean).join(": ");
    default:
      return `cannot be written: ${fileErrorReason(cause)}`;
  }
}
