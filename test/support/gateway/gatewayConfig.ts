import { isGivenBinary } from "../binary/binary.ts";
import { testedProcesses } from "../testedEngines.ts";
/** The keys of a TOML table. Undefined leaves a key out. */
export type Section = Readonly<Record<string, Value>>;
type Value = string | number | boolean | readonly string[] | undefined;
/** A table that may contain tables and lists of tables. */
export interface Table {
  readonly [key: string]: Value | Table | readonly Table[];
}

export interface ConfiguredModel {
  readonly id: string;
  /** In the order of their priority; `model` is the id unless given. */
  readonly routes: readonly Section[];
  readonly settings?: Table;
}

export interface GatewayConfig {
  /** Base URLs, or whole tables, by provider id. */
  readonly providers: Readonly<Record<string, string | Table>>;
  readonly models: readonly ConfiguredModel[];
  /** Tables such as `server`, merged over the defaults of these tests. */
  readonly sections?: Readonly<Record<string, Section>>;
  /** Further tables, as TOML. */
  readonly tables?: string;
}

/** Nano-roubles per token of each test model, unless its settings differ. */
export const prices = { input: 25_000, output: 200_000, cachedInput: 2500, cacheWrite: 30_000 };

const modelDefaults: Section = {
  rub_input_per_1m: prices.input,
  rub_output_per_1m: prices.output,
  rub_cached_input_per_1m: prices.cachedInput,
  rub_cache_write_per_1m: prices.cacheWrite,
  max_output_tokens: 1000,
  context_tokens: 200_000,
};

/** An embedding model has no other keys. */
const embeddingModelDefaults: Section = { rub_input_per_1m: prices.input };

/**
 * So many processes serve in each gateway that is started as a program. With the variable TOLLGATE_TEST_PROCESSES it is
 * another number. An executable of another version may not know the key.
 */
const oneProcess = isGivenBinary() ? {} : { processes: 1 };
const processes = isGivenBinary() ? {} : { processes: testedProcesses };

/**
 * Any free port, a stop without a delay, no limits, and commits that need not survive a power cut. The provider of a client
 * that disconnects is let go soon.
 */
const sectionDefaults: Readonly<Record<string, Section>> = {
  server: { listen: "127.0.0.1:0", drain_delay: "0s", ...processes },
  database: { path: "tollgate.db", durability: "process" },
  limits: { requests_per_minute: 0, concurrent_requests: 0 },
  billing: { disconnect_grace: "500ms" },
};

/** The TOML text of a config. Routes also serve the responses interface unless they say otherwise. */
export function configText({
  providers,
  models,
  sections = {},
  tables = "",
}: GatewayConfig): string {
  const names = new Set([...Object.keys(sectionDefaults), ...Object.keys(sections)]);
  return [
    ...[...names].map((name) => tableText(`[${name}]`, withDefaults(name, sections[name]))),
    ...Object.entries(providers).map(([id, provider]) =>
      tableText("[[providers]]", {
        id,
        ...(typeof provider === "string" ? { base_url: provider } : provider),
      }),
    ),
    ...models.map(modelText),
    tables,
  ].join("");
}

/** A database on a server has no path. */
function withDefaults(name: string, section: Section = {}): Section {
  const isOnServer = name === "database" && ("url" in section || "url_file" in section);
  if (isOnServer) return section;
  const isOnSocket = name === "server" && String(section["listen"]).startsWith("unix:");
  return { ...sectionDefaults[name], ...(isOnSocket && oneProcess), ...section };
}

function modelText({ id, routes, settings }: ConfiguredModel): string {
  const isEmbedding = settings?.["kind"] === "embedding";
  const defaults = isEmbedding ? embeddingModelDefaults : modelDefaults;
  return [
    tableText("[[models]]", { id, ...defaults, ...settings }),
    ...routes.map((route, at) =>
      tableText("[[models.routes]]", {
        priority: at,
        ...(isEmbedding ? {} : { responses: true }),
        ...route,
      }),
    ),
  ].join("");
}

/** One model with one provider. */
export function oneModel(
  baseUrl: string,
  sections: NonNullable<GatewayConfig["sections"]> = {},
  settings: Section = {},
): GatewayConfig {
  return {
    providers: { local: baseUrl },
    models: [{ id: "small", routes: [{ provider: "local" }], settings }],
    sections,
  };
}

/** The same with an embedding model, `vectors`, beside it. */
export function chatAndEmbeddings(
  baseUrl: string,
  sections: NonNullable<GatewayConfig["sections"]> = {},
): GatewayConfig {
  const one = oneModel(baseUrl, sections);
  return { ...one, models: [...one.models, embeddingModel("local")] };
}

/** The embedding model `vectors` on this provider. */
export function embeddingModel(provider: string): ConfiguredModel {
  return { id: "vectors", routes: [{ provider }], settings: { kind: "embedding" } };
}

/** Models on one provider, which the operator pays for; for `openBefore`. */
export function costlyModels(...ids: readonly string[]) {
  const costs = { rub_cost_input_per_1m: 12_000, rub_cost_output_per_1m: 96_000 };
  const routes = [{ provider: "local", ...costs }];
  return (urls: { local: string }): GatewayConfig => ({
    providers: urls,
    models: ids.map((id) => ({ id, routes })),
  });
}

/** The cost of tokens at the prices of these tests, in nano-roubles. */
export function costOf(tokens: {
  prompt: number;
  completion: number;
  cached?: number;
  cacheWrite?: number;
}): bigint {
  const { prompt, completion, cached = 0, cacheWrite = 0 } = tokens;
  return (
    BigInt(prompt - cached - cacheWrite) * BigInt(prices.input) +
    BigInt(cached) * BigInt(prices.cachedInput) +
    BigInt(cacheWrite) * BigInt(prices.cacheWrite) +
    BigInt(completion) * BigInt(prices.output)
  );
}

function tableText(head: string, section: Table): string {
  return `${[head, ...keyTexts(section)].join("\n")}\n\n`;
}

function keyTexts(section: Table): readonly string[] {
  return Object.entries(section)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key} = ${valueText(value)}`);
}

/** Texts and numbers have the same form in JSON. */
function valueText(value: Table[string]): string {
  const isList = (list: unknown): list is readonly (string | Table)[] => Array.isArray(list);
  if (isList(value)) return `[${value.map(valueText).join(", ")}]`;
  if (typeof value === "object") return `{ ${keyTexts(value).join(", ")} }`;
  return JSON.stringify(value);
}
