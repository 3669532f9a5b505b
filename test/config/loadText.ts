import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigError, loadConfig } from "../../src/config/load.ts";
import type { Config, ProviderConfig } from "../../src/config/schema.ts";

/** The shortest file that serves something. Sections may be put before it, routes and keys of the model after it. */
export const minimal = `
[[providers]]
id = "one"
base_url = "https://one.example/v1"
api_key = "\${ONE_KEY}"

[[models]]
id = "small"
rub_input_per_1m = 1
rub_output_per_1m = 2
max_output_tokens = 100
context_tokens = 1000

[[models.routes]]
provider = "one"
`;

export interface Outcome {
  readonly config: Config | undefined;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** Loads a text as a config file, beside the given other files, in a folder of its own that is gone afterwards. */
export function loadText(
  text: string | Uint8Array,
  given: {
    environment?: Readonly<Record<string, string>>;
    files?: Readonly<Record<string, string>>;
    mode?: number;
  } = {},
): Outcome {
  return inScratchFolder((folder) => {
    for (const [name, content] of Object.entries(given.files ?? {})) {
      writeFileSync(join(folder, name), content);
    }
    const file = join(folder, "config.toml");
    writeFileSync(file, text);
    chmodSync(file, given.mode ?? 0o600);
    const environment = { ONE_KEY: "sk-one", ...given.environment };
    return withEnvironment(environment, () => withoutFolder(outcomeOf(file), folder));
  });
}

/** The config of a text that must load. */
export function configOf(text: string, given: Parameters<typeof loadText>[1] = {}): Config {
  const { config, problems } = loadText(text, given);
  if (config === undefined) throw new Error(`the config did not load:\n${problems.join("\n")}`);
  return config;
}

/** One provider with these lines besides its id and address. */
export function provider(lines: string, baseUrl = "https://one.example/v1"): string {
  return `[[providers]]\nid = "one"\nbase_url = ${JSON.stringify(baseUrl)}\n${lines}\n`;
}

export function providerOf(lines: string, baseUrl?: string): ProviderConfig | undefined {
  return configOf(provider(lines, baseUrl)).providers[0];
}

export function problemsOf(lines: string, baseUrl?: string): readonly string[] {
  return loadText(provider(lines, baseUrl)).problems;
}

const noModels = "FOLDER/config.toml: has no [[models]]: no request can be served";

/** A line that sets a key. */
export const key = 'api_key = "sk-secret"';

export function warningsOf(lines: string, baseUrl?: string): readonly string[] {
  return loadText(provider(lines, baseUrl)).warnings.filter((line) => line !== noModels);
}

export function outcomeOf(path: string | undefined): Outcome {
  try {
    return { ...loadConfig({ path }), problems: [] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { config: undefined, problems: error.problems, warnings: [] };
  }
}

export function inScratchFolder<Result>(use: (folder: string) => Result): Result {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-config-"));
  try {
    return use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Runs `use` with these variables set, undefined ones unset, and puts the environment back. */
export function withEnvironment<Result>(
  variables: Readonly<Record<string, string | undefined>>,
  use: () => Result,
): Result {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  for (const [name, value] of Object.entries(variables)) setVariable(name, value);
  try {
    return use();
  } finally {
    for (const [name, value] of before) setVariable(name, value);
  }
}

function setVariable(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}

/** The folder's name differs in each run: `FOLDER` stands for it in what is compared. */
function withoutFolder(outcome: Outcome, folder: string): Outcome {
  const shorten = (lines: readonly string[]) =>
    lines.map((line) => line.replaceAll(folder, "FOLDER"));
  return {
    ...outcome,
    problems: shorten(outcome.problems),
    warnings: shorten(outcome.warnings),
  };
}

/** Rows of a text and its problem, from what is refused with the words of each problem. */
export function byProblem(
  refused: Readonly<Record<string, string | readonly string[]>>,
): (readonly [text: string, problem: string])[] {
  return Object.entries(refused).flatMap(([problem, texts]) =>
    [texts].flat().map((text) => [text, problem] as const),
  );
}
