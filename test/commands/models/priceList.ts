import { expect } from "bun:test";
import { join } from "node:path";
import { binaryPath, outputOf, type ChildOutput } from "../../support/binary/binary.ts";
import type { CliFolder } from "../../support/binary/cli.ts";

/** A price list in the form of LiteLLM's, with public prices. */
export const listFile = join(import.meta.dir, "prices.json");

/** The fields of one model of a list, as texts of JSON values. */
export type Fields = Readonly<Record<string, string>>;

/** A usable chat model. */
export const chatModel: Fields = {
  mode: '"chat"',
  litellm_provider: '"openai"',
  input_cost_per_token: "1e-06",
  output_cost_per_token: "2e-06",
  max_output_tokens: "1000",
};

/** The text of a list. The values are written as they are, so that the digits of a number survive. */
export function listText(models: Readonly<Record<string, Fields>>): string {
  return objectText(
    Object.entries(models).map(([name, fields]) => [name, objectText(Object.entries(fields))]),
  );
}

function objectText(members: readonly (readonly [key: string, value: string])[]): string {
  return `{${members.map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(",\n")}}`;
}

/** A config with a provider of each kind: `my-openai`, `my-anthropic` and `my-gemini`. */
export const providers = ["openai", "anthropic", "gemini"]
  .map(
    (kind) =>
      `[[providers]]\nid = "my-${kind}"\nkind = "${kind}"\nbase_url = "http://127.0.0.1:9/v1"\n`,
  )
  .join("\n");

/** A model in the document of `tollgate models import --json`. */
export type ImportedModel = Readonly<Record<string, unknown>> & {
  readonly notes: readonly string[];
  readonly routes: readonly Readonly<Record<string, unknown>>[];
};

/** The whole document. */
export interface Imported {
  readonly models: readonly ImportedModel[];
  readonly skipped: readonly Readonly<Record<string, string>>[];
}

/** Imports models of the sample list at 92.5 roubles for the provider of this kind. */
export function importSample(
  cli: CliFolder,
  kind: string,
  models: string,
  ...more: readonly string[]
): Promise<ChildOutput> {
  const options = ["--rate", "92.5", "--provider", `my-${kind}`, "--models", models];
  return cli.run("models", "import", listFile, ...options, ...more);
}

/** The same as a document. */
export async function sampleDocument(
  cli: CliFolder,
  kind: string,
  models: string,
  ...more: readonly string[]
): Promise<Imported> {
  const { stdout } = await importSample(cli, kind, models, ...more, "--json");
  return JSON.parse(stdout) as Imported;
}

/** Imports all models of a list with these fields, at a rate of 1 unless given. */
export async function importAll(
  cli: CliFolder,
  models: Readonly<Record<string, Fields>>,
  ...args: readonly string[]
): Promise<Imported> {
  const given = ["--provider", "my-openai", "--models", "*", "--json", ...args];
  const rate = args.includes("--rate") ? [] : ["--rate", "1"];
  const { stdout, stderr, status } = await importText(cli, listText(models), ...given, ...rate);
  expect({ stderr, status }).toEqual({ stderr: "", status: 0 });
  return JSON.parse(stdout) as Imported;
}

/** Runs `tollgate models import ARGS` with this text, or these bytes, on the standard input. */
export async function importText(
  cli: CliFolder,
  text: string | Uint8Array,
  ...args: readonly string[]
): Promise<ChildOutput> {
  const child = Bun.spawn([await binaryPath(), "models", "import", ...args], {
    cwd: cli.folder,
    env: { PATH: process.env["PATH"] ?? "" },
    stdio: [Buffer.from(text), "pipe", "pipe"],
  });
  return outputOf(child);
}
