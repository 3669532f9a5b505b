import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openCliFolder, type CliFolder, type CommandRun } from "../../support/binary/cli.ts";

/** Entries of LiteLLM's list, and of the list of genai-prices, with all their prices. */
const lists = { first: "list.json", second: "second.json" } as const;

type Json = Record<string, Record<string, unknown>>;

/** The first list with other fields. Null removes a model or a field. */
export async function listWith(
  changes: Readonly<Record<string, Readonly<Record<string, unknown>> | null>> = {},
): Promise<string> {
  const list = JSON.parse(await readFile(join(import.meta.dir, lists.first), "utf8")) as Json;
  for (const [name, fields] of Object.entries(changes)) {
    if (fields === null) delete list[name];
    else list[name] = { ...list[name], ...fields };
  }
  return JSON.stringify(list);
}

export const secondFile = join(import.meta.dir, lists.second);

const providers = `
[[providers]]
id = "openai"
base_url = "https://api.openai.com/v1"
api_key = "sk-test"

[[providers]]
id = "claude"
kind = "anthropic"
base_url = "https://api.anthropic.com/v1"
api_key = "sk-test"

[[providers]]
id = "proxy"
base_url = "http://127.0.0.1:9/v1"
`;

/** The table of a chat model without prices. `route`: further lines of its route. */
export function model(id: string, provider: string, route = "", keys = ""): string {
  return `
[[models]]
id = "${id}"
max_output_tokens = 1000
${keys}
[[models.routes]]
provider = "${provider}"
${route}
`;
}

export const gpt = model("gpt-5.4", "openai", "responses = true");
export const sonnet = model("sonnet", "claude", 'model = "claude-sonnet-4-5"');

export const pricing = '[pricing]\nfile = "prices.toml"\nmargin_percent = 20\n';

export interface SyncFolder extends CliFolder {
  /** Writes the list, and runs `tollgate prices sync list.json ARGS`. */
  sync(list: string, ...args: readonly string[]): Promise<CommandRun>;
  /** The same with --yes and --json. The document must have been printed. */
  document(list: string, ...args: readonly string[]): Promise<SyncDocument>;
  /** The text of the file with prices without its comment. Undefined: there is none. */
  prices(): Promise<string | undefined>;
}

/** A row of the document. */
export interface SyncedRow {
  readonly id: string;
  readonly change: string;
  readonly refused: boolean;
  readonly reason: string | null;
  readonly changes: readonly Readonly<Record<string, unknown>>[];
  readonly disagreements: readonly Readonly<Record<string, unknown>>[];
  readonly margin_before: number | null;
  readonly margin_after: number | null;
  readonly notes: readonly string[];
}

export interface SyncDocument {
  readonly written: boolean;
  readonly status: number;
  readonly unchanged: number;
  readonly models: readonly SyncedRow[];
}

/** A folder with a config of these models. */
export async function openSyncFolder(models: string, settings = pricing): Promise<SyncFolder> {
  const cli = await openCliFolder(`[currency]\nusd = 100\n${settings}${providers}${models}`);
  const sync: SyncFolder["sync"] = async (list, ...args) => {
    await writeFile(join(cli.folder, "list.json"), list);
    return cli.run("prices", "sync", "list.json", ...args);
  };
  return {
    ...cli,
    sync,
    async document(list, ...args) {
      const { stdout, stderr, status } = await sync(list, "--yes", "--json", ...args);
      if (stdout === "") throw new Error(stderr);
      return { ...(JSON.parse(stdout) as SyncDocument), status };
    },
    async prices() {
      const file = Bun.file(join(cli.folder, "prices.toml"));
      if (!(await file.exists())) return undefined;
      return (await file.text()).replace(/^(?:#.*\n)+\n/, "");
    },
  };
}
