import { namesWebSearch } from "../contract/extras.ts";
import { NANO_ROUBLES_PER_SEARCH_UNIT } from "../lib/money.ts";
import { hasUnprintable } from "../lib/printable.ts";
import type { Inspection, ModelFile, DeepPartial } from "./inspection.ts";
import { nearest } from "../lib/nearest.ts";
import { isProviderId } from "./providers.ts";
import {
  MAX_OUTPUT_TOKENS,
  type Config,
  type ConfigFile,
  type ModelConfig,
  type ModelKind,
  type Price,
  type ProviderConfig,
  type RouteConfig,
  type SoldExtras,
} from "./schema.ts";

type RouteFile = NonNullable<NonNullable<ModelFile["routes"]>[number]>;

const CONTEXT_TOKENS_DEFAULT = 200_000n;

/** The keys that an embedding model may have. All others are those of a chat model. */
const EMBEDDING_MODEL_KEYS: ReadonlySet<string> = new Set<keyof ModelFile>([
  "id",
  "kind",
  "owned_by",
  "rub_input_per_1m",
  "free",
  "context_tokens",
  "routes",
]);
const EMBEDDING_ROUTE_KEYS: ReadonlySet<string> = new Set<keyof RouteFile>([
  "provider",
  "model",
  "priority",
  "weight",
  "rub_cost_input_per_1m",
]);

/** Models with their prices and routes, in the order of the file. Problems go to the inspection. */
export function readModels(
  file: DeepPartial<ConfigFile>,
  providers: readonly ProviderConfig[],
  inspection: Inspection,
): readonly ModelConfig[] {
  const seen = new Map<string, string>();
  const models = (file.models ?? []).map((model = {}, index) => {
    const at = `models[${index}]`;
    checkId(model.id, at, seen, inspection);
    return readModel(model, at, providers, inspection);
  });
  for (const [index, model] of models.entries())
    checkFallbacks(model, `models[${index}].fallbacks`, models, inspection);
  return models;
}

/** More models than a client would wait for. */
const FALLBACKS_MAX = 8;

function checkFallbacks(
  { id, fallbacks }: ModelConfig,
  key: string,
  models: readonly ModelConfig[],
  inspection: Inspection,
): void {
  if (fallbacks.length > FALLBACKS_MAX)
    inspection.problem(key, `has more than ${FALLBACKS_MAX} models`);
  for (const [position, name] of fallbacks.entries()) {
    const quoted = inspection.quote(key, name);
    const found = models.find((model) => model.id === name);
    if (name === id) inspection.problem(key, "names the model itself: remove it");
    else if (fallbacks.indexOf(name) < position) {
      inspection.problem(key, `names ${quoted} twice: remove one`);
    } else if (found === undefined) {
      const meant = nearest(
        name,
        models.map((model) => model.id),
      );
      const advice = meant === undefined ? "" : `; did you mean "${meant}"?`;
      inspection.problem(key, `no model has the id ${quoted}${advice}`);
    } else if (found.kind !== "chat") {
      inspection.problem(key, `${quoted} is an embedding model, which cannot answer a chat`);
    }
  }
}

function readModel(
  file: ModelFile,
  at: string,
  providers: readonly ProviderConfig[],
  inspection: Inspection,
): ModelConfig {
  const id = file.id ?? "";
  const kind = file.kind ?? "chat";
  if (kind === "embedding") refuseOtherKeys(file, EMBEDDING_MODEL_KEYS, at, inspection);
  else if (file.max_output_tokens === undefined) {
    inspection.problem(`${at}.max_output_tokens`, `is required: ${MAX_OUTPUT_TOKENS.description}`);
  }
  const routes = (file.routes ?? []).map((route = {}, index) =>
    readRoute(route, `${at}.routes[${index}]`, { id, kind }, providers, inspection),
  );
  warnAboutDuplicateRoutes(routes, at, inspection);
  const price = readPrice(file, at, inspection);
  const sells = readSoldExtras(file, price);
  warnAboutLosses(file, price, at, inspection);
  const ownedBy = file.owned_by ?? routes[0]?.provider ?? "";
  if (file.owned_by !== undefined) checkName(file.owned_by, `${at}.owned_by`, inspection);
  return {
    id,
    kind,
    ownedBy,
    price,
    sells,
    maxOutputTokens: Number(file.max_output_tokens ?? 0n),
    contextTokens: Number(file.context_tokens ?? CONTEXT_TOKENS_DEFAULT),
    reasoningEffort: file.reasoning_effort ?? false,
    isContextKnown: file.context_tokens !== undefined,
    fallbacks: (file.fallbacks ?? []).map((fallback = "") => fallback),
    routes,
  };
}

function checkId(
  id: string | undefined,
  at: string,
  seen: Map<string, string>,
  inspection: Inspection,
): void {
  if (id === undefined) return;
  const key = `${at}.id`;
  checkName(id, key, inspection);
  // In the list of a key's models a comma separates and * is a wildcard.
  if (/[\s,*]/u.test(id)) inspection.problem(key, "must not contain blanks, commas or *");
  inspection.claimId(id, at, seen);
}

function checkName(name: string, key: string, inspection: Inspection): void {
  if (name === "" || name.length > 256 || hasUnprintable(name)) {
    inspection.problem(key, "must have 1 to 256 visible characters");
  }
}

/** An embedding model has no answer tokens and no cache, and only one interface. */
function refuseOtherKeys(
  file: object,
  known: ReadonlySet<string>,
  at: string,
  inspection: Inspection,
): void {
  for (const key of Object.keys(file)) {
    if (known.has(key)) continue;
    inspection.problem(`${at}.${key}`, "is not a key of an embedding model: remove it");
  }
}

type PriceKey = keyof ModelFile & `rub_${string}`;

/** The cost to the operator that each price must cover. */
const COST_KEYS = {
  rub_input_per_1m: "rub_cost_input_per_1m",
  rub_output_per_1m: "rub_cost_output_per_1m",
  rub_cached_input_per_1m: "rub_cost_cached_input_per_1m",
  rub_cache_write_per_1m: "rub_cost_cache_write_per_1m",
  rub_cache_write_1h_per_1m: "rub_cost_cache_write_1h_per_1m",
  rub_web_search_per_1k: "rub_cost_web_search_per_1k",
} as const satisfies Record<PriceKey, keyof RouteFile>;

function readPrice(file: ModelFile, at: string, inspection: Inspection): Price {
  const read = (name: PriceKey, fallback?: bigint): bigint => {
    const price = file[name];
    const key = `${at}.${name}`;
    if (price === 0n && file.free !== true) {
      inspection.problem(key, "is 0: add free = true if the model costs nothing");
    }
    if (price === undefined && fallback === undefined && file.free !== true) {
      inspection.problem(
        key,
        "is required: a whole number of thousandths of a rouble per 1,000,000 tokens (25 roubles are 25000), or write free = true",
      );
    }
    return price ?? fallback ?? 0n;
  };
  const isEmbedding = file.kind === "embedding";
  const input = read("rub_input_per_1m");
  const cacheWrite = read("rub_cache_write_per_1m", input);
  const perToken = {
    input,
    output: isEmbedding ? 0n : read("rub_output_per_1m"),
    cachedInput: read("rub_cached_input_per_1m", input),
    cacheWrite,
    cacheWrite1h: read("rub_cache_write_1h_per_1m", cacheWrite),
  };
  const search = read("rub_web_search_per_1k", 0n);
  const ofModel = isEmbedding ? [input] : Object.values(perToken);
  const set = [...ofModel, ...(file.rub_web_search_per_1k === 0n ? [0n] : [])];
  if (file.free === true && set.every((amount) => amount > 0n)) {
    inspection.problem(`${at}.free`, "is true, but no price is 0: remove it, or set a price to 0");
  }
  return { ...perToken, webSearch: search * NANO_ROUBLES_PER_SEARCH_UNIT };
}

function readSoldExtras(file: ModelFile, price: Price): SoldExtras {
  const isFree = file.free === true && Object.values(price).every((amount) => amount === 0n);
  return {
    longCacheWrites: isFree || file.rub_cache_write_1h_per_1m !== undefined,
    webSearches: isFree || file.rub_web_search_per_1k !== undefined,
  };
}

/** Ids in one warning. */
const SHOWN_MODELS_MAX = 3;

/**
 * Over the responses interface web searches pass without a price, because the specification of the service names them.
 * One warning for all models whose searches the operator pays for.
 */
export function warnAboutUnpricedSearches(
  models: readonly ModelConfig[],
  { refusedTools, allowedTools }: Pick<Config["api"], "refusedTools" | "allowedTools">,
  inspection: Inspection,
): void {
  if (namesWebSearch([...refusedTools, ...allowedTools])) return;
  const unpriced = models.filter(
    ({ sells, routes }) =>
      !sells.webSearches && routes.some(({ api, responses }) => responses || api === "responses"),
  );
  if (unpriced.length === 0) return;
  inspection.warning(
    "models",
    `web searches over the responses interface are not charged for ${shownIds(unpriced)}: set rub_web_search_per_1k, or name "web_search" in [api] refused_tools, or in allowed_tools to give them away`,
  );
}

/** One warning for all chat models without `context_tokens`. */
export function warnAboutUnknownContexts(
  models: readonly ModelConfig[],
  inspection: Inspection,
): void {
  const unknown = models.filter(({ kind, isContextKnown }) => kind === "chat" && !isContextKnown);
  if (unknown.length === 0) return;
  inspection.warning(
    "models",
    `context_tokens is missing for ${shownIds(unknown)}: prompts that are too long are sent, and each prompt is held at its bytes`,
  );
}

function shownIds(models: readonly ModelConfig[]): string {
  const shown = models.slice(0, SHOWN_MODELS_MAX).map(({ id }) => id);
  const others = models.length - shown.length;
  return others > 0 ? `${shown.join(", ")} and ${others} more` : shown.join(", ");
}

function readRoute(
  file: RouteFile,
  at: string,
  model: Pick<ModelConfig, "id" | "kind">,
  providers: readonly ProviderConfig[],
  inspection: Inspection,
): RouteConfig {
  if (model.kind === "embedding") refuseOtherKeys(file, EMBEDDING_ROUTE_KEYS, at, inspection);
  checkProvider(file, at, model.kind, providers, inspection);
  if (file.model !== undefined) checkName(file.model, `${at}.model`, inspection);
  return {
    provider: file.provider ?? "",
    model: file.model ?? model.id,
    api: file.api ?? "chat",
    responses: file.responses ?? false,
    priority: Number(file.priority ?? 1n),
    weight: Number(file.weight ?? 1n),
    tokensPerSecond:
      file.tokens_per_second === undefined ? undefined : Number(file.tokens_per_second),
    operatorPrice: readOperatorPrice(file, at, model.kind, inspection),
  };
}

function checkProvider(
  file: RouteFile,
  at: string,
  modelKind: ModelKind,
  providers: readonly ProviderConfig[],
  inspection: Inspection,
): void {
  if (file.provider === undefined) return;
  const key = `${at}.provider`;
  const provider = providers.find(({ id }) => id === file.provider);
  if (provider === undefined) {
    const ids = providers.map(({ id }) => id).filter(isProviderId);
    const meant = nearest(file.provider, ids);
    const advice = meant === undefined ? "add one under [[providers]]" : `did you mean "${meant}"?`;
    inspection.problem(
      key,
      `no provider has the id ${inspection.quote(key, file.provider)}; ${advice}`,
    );
    return;
  }
  if (modelKind === "embedding" && provider.kind === "anthropic") {
    inspection.problem(
      key,
      "must have the kind openai or gemini: the kind anthropic has no embeddings",
    );
  }
  if (provider.kind === "openai" || modelKind === "embedding") return;
  const fault = `requires a provider of kind openai, and the kind of this one is ${provider.kind}`;
  if (file.api === "responses") inspection.problem(`${at}.api`, fault);
  if (file.responses === true) inspection.problem(`${at}.responses`, fault);
}

/** What the provider charges. The caches cost what input costs, unless given. */
function readOperatorPrice(
  file: RouteFile,
  at: string,
  modelKind: ModelKind,
  inspection: Inspection,
): Price | undefined {
  const isEmbedding = modelKind === "embedding";
  const known = isEmbedding ? [COST_KEYS.rub_input_per_1m] : Object.values(COST_KEYS);
  const given = known.find((key) => file[key] !== undefined);
  if (given === undefined) return undefined;
  const read = (key: (typeof COST_KEYS)[PriceKey]): bigint => {
    const cost = file[key];
    if (cost === undefined) inspection.problem(`${at}.${key}`, `is required with ${given}`);
    return cost ?? 0n;
  };
  const input = read("rub_cost_input_per_1m");
  const cacheWrite = file.rub_cost_cache_write_per_1m ?? input;
  return {
    input,
    output: isEmbedding ? 0n : read("rub_cost_output_per_1m"),
    cachedInput: file.rub_cost_cached_input_per_1m ?? input,
    cacheWrite,
    cacheWrite1h: file.rub_cost_cache_write_1h_per_1m ?? cacheWrite,
    webSearch: (file.rub_cost_web_search_per_1k ?? 0n) * NANO_ROUBLES_PER_SEARCH_UNIT,
  };
}

/** Two routes with one provider and one model are no failover. */
function warnAboutDuplicateRoutes(
  routes: readonly RouteConfig[],
  at: string,
  inspection: Inspection,
): void {
  const seen = new Map<string, number>();
  for (const [index, { provider, model }] of routes.entries()) {
    const target = JSON.stringify([provider, model]);
    const first = seen.get(target);
    if (first === undefined) seen.set(target, index);
    else inspection.warning(`${at}.routes[${index}]`, `is the same route as routes[${first}]`);
  }
}

/** A price below the operator's cost is probably in a wrong unit. A price of 0 is intended. */
function warnAboutLosses(file: ModelFile, price: Price, at: string, inspection: Inspection): void {
  const sold: Partial<Record<PriceKey, bigint | undefined>> = {
    rub_input_per_1m: price.input,
    rub_output_per_1m: price.output,
    rub_cached_input_per_1m: price.cachedInput,
    rub_cache_write_per_1m: price.cacheWrite,
    // Without their prices these are not sold.
    rub_cache_write_1h_per_1m: file.rub_cache_write_1h_per_1m,
    rub_web_search_per_1k: file.rub_web_search_per_1k,
  };
  for (const [index, route = {}] of (file.routes ?? []).entries()) {
    for (const key of Object.keys(COST_KEYS) as PriceKey[]) {
      const price = sold[key] ?? 0n;
      const cost = route[COST_KEYS[key]] ?? 0n;
      if (price === 0n || price >= cost) continue;
      inspection.warning(
        `${at}.${key}`,
        `is below the cost of routes[${index}], ${price} for ${cost}: prices are thousandths of a rouble per ${key === "rub_web_search_per_1k" ? "1,000 searches" : "1,000,000 tokens"}`,
      );
    }
  }
  if (price.cachedInput > price.input) {
    inspection.warning(
      `${at}.rub_cached_input_per_1m`,
      `is higher than the input price, ${price.cachedInput} to ${price.input}: prices are thousandths of a rouble per 1,000,000 tokens`,
    );
  }
}
