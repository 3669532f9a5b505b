import { hasUnprintable } from "../lib/printable.ts";
import type { Inspection, ModelFile, DeepPartial } from "./inspection.ts";
import { nearest } from "../lib/nearest.ts";
import { isProviderId } from "./providers.ts";
import type {
  ConfigFile,
  ModelConfig,
  OperatorPrice,
  Price,
  ProviderConfig,
  RouteConfig,
} from "./schema.ts";

type RouteFile = NonNullable<NonNullable<ModelFile["routes"]>[number]>;

const CONTEXT_TOKENS_DEFAULT = 200_000n;

/** Models with their prices and routes, in the order of the file. Problems go to the inspection. */
export function readModels(
  file: DeepPartial<ConfigFile>,
  providers: readonly ProviderConfig[],
  inspection: Inspection,
): readonly ModelConfig[] {
  const seen = new Map<string, string>();
  return (file.models ?? []).map((model = {}, index) => {
    const at = `models[${index}]`;
    checkId(model.id, at, seen, inspection);
    return readModel(model, at, providers, inspection);
  });
}

function readModel(
  file: ModelFile,
  at: string,
  providers: readonly ProviderConfig[],
  inspection: Inspection,
): ModelConfig {
  const id = file.id ?? "";
  const routes = (file.routes ?? []).map((route = {}, index) =>
    readRoute(route, `${at}.routes[${index}]`, id, providers, inspection),
  );
  warnAboutDuplicateRoutes(routes, at, inspection);
  const price = readPrice(file, at, inspection);
  warnAboutLosses(price, routes, at, inspection);
  const ownedBy = file.owned_by ?? routes[0]?.provider ?? "";
  if (file.owned_by !== undefined) checkName(file.owned_by, `${at}.owned_by`, inspection);
  return {
    id,
    ownedBy,
    price,
    maxOutputTokens: Number(file.max_output_tokens ?? 0n),
    contextTokens: Number(file.context_tokens ?? CONTEXT_TOKENS_DEFAULT),
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

type PriceKey = keyof ModelFile & `rub_${string}`;

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
  const input = read("rub_input_per_1m");
  const price = {
    input,
    output: read("rub_output_per_1m"),
    cachedInput: read("rub_cached_input_per_1m", input),
    cacheWrite: read("rub_cache_write_per_1m", input),
  };
  if (file.free === true && Object.values(price).every((amount) => amount > 0n)) {
    inspection.problem(`${at}.free`, "is true, but no price is 0: remove it, or set a price to 0");
  }
  return price;
}

function readRoute(
  file: RouteFile,
  at: string,
  modelId: string,
  providers: readonly ProviderConfig[],
  inspection: Inspection,
): RouteConfig {
  checkProvider(file, at, providers, inspection);
  if (file.model !== undefined) checkName(file.model, `${at}.model`, inspection);
  return {
    provider: file.provider ?? "",
    model: file.model ?? modelId,
    api: file.api ?? "chat",
    responses: file.responses ?? false,
    priority: Number(file.priority ?? 1n),
    weight: Number(file.weight ?? 1n),
    operatorPrice: readOperatorPrice(file, at, inspection),
  };
}

function checkProvider(
  file: RouteFile,
  at: string,
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
  if (provider.kind === "openai") return;
  const fault = `requires a provider of kind openai, and the kind of this one is ${provider.kind}`;
  if (file.api === "responses") inspection.problem(`${at}.api`, fault);
  if (file.responses === true) inspection.problem(`${at}.responses`, fault);
}

function readOperatorPrice(
  file: RouteFile,
  at: string,
  inspection: Inspection,
): OperatorPrice | undefined {
  const { rub_cost_input_per_1m: input, rub_cost_output_per_1m: output } = file;
  if (input === undefined && output === undefined) return undefined;
  if (input === undefined || output === undefined) {
    const [missing, given] = input === undefined ? ["input", "output"] : ["output", "input"];
    inspection.problem(
      `${at}.rub_cost_${missing}_per_1m`,
      `is required with rub_cost_${given}_per_1m: set both or neither`,
    );
    return undefined;
  }
  return { input, output };
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
function warnAboutLosses(
  price: Price,
  routes: readonly RouteConfig[],
  at: string,
  inspection: Inspection,
): void {
  for (const [index, { operatorPrice }] of routes.entries()) {
    for (const side of ["input", "output"] as const) {
      const cost = operatorPrice?.[side] ?? 0n;
      if (price[side] === 0n || price[side] >= cost) continue;
      inspection.warning(
        `${at}.rub_${side}_per_1m`,
        `is below the cost of routes[${index}], ${price[side]} for ${cost}: prices are thousandths of a rouble per 1,000,000 tokens`,
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
