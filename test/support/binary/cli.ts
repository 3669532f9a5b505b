import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openStore } from "../../../src/store/open.ts";
import { binaryPath, outputOf, type ChildOutput } from "./binary.ts";

/** Runs the program from source, which takes three times as long to start as the executable. */
export const fromSource: readonly string[] = [
  process.execPath,
  resolve(import.meta.dir, "../../../src/main.ts"),
];

/** The minimal config with models; its database is `tollgate.db` beside it. */
const minimalConfig = `
[[providers]]
id = "local"
base_url = "http://127.0.0.1:9/v1"

[[models]]
id = "small"
rub_input_per_1m = 25000
rub_output_per_1m = 200000
rub_cached_input_per_1m = 2500
rub_web_search_per_1k = 900000
max_output_tokens = 1000
context_tokens = 200000

[[models.routes]]
provider = "local"
model = "small-2"
responses = true

[[models]]
id = "gift"
free = true
max_output_tokens = 1000
context_tokens = 200000

[[models.routes]]
provider = "local"
priority = 2

[[models.routes]]
provider = "local"
model = "gift-first"
priority = 1
weight = 3
`;

/** The result of a command; both outputs without their last line end. */
export type CommandRun = ChildOutput;

/** A new folder with a config in which commands run. */
export interface CliFolder {
  readonly folder: string;
  readonly config: string;
  readonly database: string;
  /** Runs `tollgate ARGS` in the folder to its end. */
  run(...args: readonly string[]): Promise<CommandRun>;
  /** The same with --json; returns the document. Throws when the command fails or prints anything else. */
  json(...args: readonly string[]): Promise<unknown>;
  /** Makes an empty database. */
  makeDatabase(): void;
  remove(): Promise<void>;
}

/**
 * Makes a folder. `config` replaces the minimal one; null: there is none. `program` is the command to run,
 * with its first arguments; unless given it is the executable.
 */
export async function openCliFolder(
  config: string | null = minimalConfig,
  program?: readonly string[],
): Promise<CliFolder> {
  const command = program ?? [await binaryPath()];
  const folder = await mkdtemp(join(tmpdir(), "tollgate-cli-"));
  const file = join(folder, "config.toml");
  if (config !== null) await Bun.write(file, config);
  const database = join(folder, "tollgate.db");
  const run = (...args: readonly string[]) => runCommand(folder, [...command, ...args]);
  return {
    folder,
    config: file,
    database,
    run,
    async json(...args) {
      const { status, stdout, stderr } = await run(...args, "--json");
      if (status !== 0) throw new Error(`${args.join(" ")} ended with ${status}: ${stderr}`);
      return JSON.parse(stdout);
    },
    makeDatabase() {
      openStore({ path: database, durability: "process", serving: false }).closeNow();
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

async function runCommand(cwd: string, command: readonly string[]): Promise<CommandRun> {
  const child = Bun.spawn([...command], {
    cwd,
    env: { PATH: process.env["PATH"] ?? "" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { stdout, stderr, status } = await outputOf(child);
  return { status, stdout: stdout.replace(/\n$/, ""), stderr: stderr.replace(/\n$/, "") };
}
