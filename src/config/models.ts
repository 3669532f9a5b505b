import { namesWebSearch } from "../contract/extras.ts";
import { hasUnprintable } from "../lib/printable.ts";
import type { Inspection } from "./inspection.ts";
import { nearest } from "../lib/nearest.ts";
import {
  choice,
  flag,
  names,
  readTable,
  isTable,
  readTables,
  refuseOtherKinds,
  tables,
  text,
  wholeNumber,
  type Table,
  type Values,
} from "./option.ts";
import {
  checkCosts,
  completeList,
  costTableOptions,
  priceTableOptions,
  readGivenList,
  warnAboutLosses,
} from "./priceLists.ts";
import { MODEL_TOKENS_MAX } from "./prices.ts";
import { marginPercent, termsFor, type Pricing, type Terms } from "./pricing.ts";
import { namesOfProviders, providersNamed, type ProviderConfig } from "./providers.ts";
import { readSchedule, type PriceEntry, type WrittenPrices } from "./schedules.ts";

export type ModelKind = "chat" | "embedding";
export type ChatApi = "chat" | "responses";

const CONTEXT_TOKENS_DEFAULT = 200_000;

const routeOptions = {
  /** The id of a provider that exists. */
  provider: text("provider", {
    required: true,
    form: "the id of a provider, in quotes",
    example: '"openai"',
    doc: "The id of a provider: each of its accounts may serve the route. Or one account, such as groq/first.",
  }),
  model: text("model", {
    example: '"gpt-5-mini"',
    doc: "The provider's name for the model. Default: the id of the model.",
  }),
  api: choice("api", ["chat", "responses"], {
    default: "chat",
    only: "chat",
    doc: 'The provider\'s interface that serves /v1/chat/completions: "chat", or "responses" (kind openai), which adds summaries of the reasoning. With "responses" the gateway applies the stop sequences.',
  }),
  responses: flag("responses", {
    default: false,
    example: "true",
    only: "chat",
    doc: "Whether the provider also has /v1/responses, which is then passed through. Without it requests that need no stored response are translated. Default: false.",
  }),
  /** A lower number comes first. */
  priority: wholeNumber("priority", {
    default: 1,
    max: 1_000_000,
    doc: "The route with the lowest priority is tried first.",
  }),
  weight: wholeNumber("weight", {
    default: 1,
    min: 1,
    max: 1_000_000,
    doc: "Routes of equal priority are chosen by weight, 1 or more.",
  }),
  /** Undefined: a default, until finished answers show it. */
  tokensPerSecond: wholeNumber("tokens_per_second", {
    min: 1,
    max: 100_000,
    example: "100",
    only: "chat",
    doc: "How fast it generates, until finished answers show it. What a client that disconnects pays for hidden reasoning is estimated by it. Default: 100.",
  }),
  ...costTableOptions,
} as const;

export const modelOptions = {
  id: text("id", {
    required: true,
    form: "the model name that clients send, in quotes",
    example: '"gpt-5-mini"',
    doc: "The name that clients use.",
  }),
  kind: choice("kind", ["chat", "embedding"], {
    default: "chat",
    doc: '"chat", or "embedding" for a model of /v1/embeddings.',
  }),
  ownedBy: text("owned_by", {
    example: '"openai"',
    doc: "Shown in the list of models. Default: the provider of the first route.",
  }),
  aliases: names("aliases", {
    example: '["gpt-5-mini-latest", "gpt-5-mini-2*"]',
    check: (name) => (/[\s,]/u.test(name) ? "must not contain blanks or commas" : undefined),
    doc: "Further names that clients may use, in which * is any text. Lists show the model under its id, and it is charged and reported as the model. Default: none.",
  }),
  ...priceTableOptions,
  margin: marginPercent,
  free: flag("free", {
    default: false,
    example: false,
    doc: "Required if a price is 0 or omitted, so that no model is free by mistake.",
  }),
  /** Required, but for chat models only, so `readModel` checks that. 0 for an embedding model. */
  maxOutputTokens: wholeNumber("max_output_tokens", {
    min: 1,
    max: MODEL_TOKENS_MAX,
    what: "the true maximum of the provider, a whole number",
    example: "128000",
    only: "chat",
    doc: "Required: the provider's real maximum. It is held if a request gives no bound.",
  }),
  /** The longest prompt. For an embedding model: the longest input. */
  contextTokens: wholeNumber("context_tokens", {
    min: 1,
    max: MODEL_TOKENS_MAX,
    example: "400000",
    doc: "The longest prompt of the model, as its provider documents it. It limits what is held, and a prompt that cannot fit is a 400. Without it prompts of any length are sent and held at their bytes, and /v1/models names 200000.",
  }),
  /** True: the models of the routes take `reasoning_effort`, whatever their names are. */
  reasoningEffort: flag("reasoning_effort", {
    default: false,
    only: "chat",
    doc: "Set true if the models of the routes take `reasoning_effort` and their names do not say so, such as deployments of Azure. Requests of /v1/messages and /v1/responses have it only for models that are known to take it. Chats have what the client sends.",
  }),
  fallbacks: names("fallbacks", {
    example: '["gpt-5-nano"]',
    only: "chat",
    doc: "Models whose routes are tried, in this order, if all routes of this one fail. The caller pays the price of the model that answers, and the highest price is held. Default: none.",
  }),
  order: choice("order", ["weight", "price"], {
    default: "weight",
    doc: 'Which of several routes of equal priority comes first. "weight": one by weight and session. "price": the one that costs you least, by three tokens of input for one of output at the first tier of its costs; those that cost the same by weight and session, and those without known costs last.',
  }),
  routes: tables("routes", routeOptions, {
    required: true,
    form: "at least one route: write [[models.routes]]",
    max: 100,
    doc: "Where requests for the model are sent. At least one route.",
  }),
} as const;

export type ModelConfig = ReturnType<typeof readModel>["model"];
export type RouteConfig = ReturnType<typeof readRoute>;

/** A model, and its prices as they are written: plans change those. */
export interface WrittenModel {
  readonly model: ModelConfig;
  readonly written: readonly WrittenPrices[];
}

/** An embedding model has no answer tokens and no cache, and only one interface. */
const notOfEmbeddings = () => "is not a key of an embedding model: remove it";

/** Models with their prices and routes, in the order of the file. Problems go to the inspection. */
export function readModels(
  items: readonly unknown[],
  context: ModelContext,
  inspection: Inspection,
): readonly WrittenModel[] {
  const seen = new Map<string, string>();
  const written = readTables(items, "models", inspection, (table, at) =>
    readModel(table, at, context, seen, inspection),
  );
  const models = written.map(({ model }) => model);
  for (const [index, model] of models.entries()) {
    checkFallbacks(model, `models[${index}].fallbacks`, models, inspection);
    for (const [position, name] of model.aliases.entries()) {
      const key = `models[${index}].aliases[${position}]`;
      const first = seen.get(name);
      if (first === undefined) seen.set(name, `models[${index}]`);
      else inspection.problem(key, `${inspection.quote(key, name)} is already a name of ${first}`);
    }
  }
  return written;
}

/** What the models of a config refer to. */
export interface ModelContext {
  readonly providers: readonly ProviderConfig[];
  readonly pricing: Pricing;
  /** The [[prices]] by the id of their model. */
  readonly entries: ReadonlyMap<string, readonly PriceEntry[]>;
  /** False: models may have no prices. */
  readonly needsPrices: boolean;
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
      const ids = models.map((model) => model.id);
      const named = models.find(({ aliases }) => aliases.includes(name));
      const meant = named?.id ?? nearest(name, ids);
      const advice = meant === undefined ? "" : `; did you mean "${meant}"?`;
      inspection.problem(key, `no model has the id ${quoted}${advice}`);
    } else if (found.kind !== "chat") {
      inspection.problem(key, `${quoted} is an embedding model, which cannot answer a chat`);
    }
  }
}

function readModel(
  table: Table,
  at: string,
  { providers, pricing, entries, needsPrices }: ModelContext,
  seen: Map<string, string>,
  inspection: Inspection,
) {
  const given = readTable(modelOptions, table, at, inspection);
  const { id = "", kind, reasoningEffort, fallbacks } = given;
  checkId(given.id, at, seen, inspection);
  refuseOtherKinds(modelOptions, { table, at, kind }, inspection, notOfEmbeddings);
  if (kind === "chat" && !Object.hasOwn(table, "max_output_tokens"))
    inspection.problem(
      `${at}.max_output_tokens`,
      `is required: ${modelOptions.maxOutputTokens.form}`,
    );
  const ofProvider = marginOf(given.routes, providers);
  const terms = (own = given.margin): Terms => termsFor(pricing, { id, own }, ofProvider);
  const routes = readTables(given.routes, `${at}.routes`, inspection, (route, place) =>
    readRoute(route, place, { id, kind }, { providers, terms: terms() }, inspection),
  );
  warnAboutDuplicateRoutes(routes, at, inspection);
  const { schedule, written } = readSchedule(
    { id, kind, free: given.free, needsPrices },
    { table: given, at, entries: entries.get(id) ?? [], terms },
    inspection,
  );
  for (const { prices } of schedule) {
    const costs = routes.map((route) => route.costs ?? prices.vendor);
    warnAboutLosses(prices, costs, at, inspection);
    if (given.order === "price" && costs.every((cost) => cost === undefined))
      inspection.warning(`${at}.order`, "has no effect: no route has costs (rub_cost_...)");
  }
  if (given.ownedBy !== undefined) checkName(given.ownedBy, `${at}.owned_by`, inspection);
  const model = {
    id,
    kind,
    // Clients need not know the accounts of a provider.
    ownedBy: given.ownedBy ?? routes[0]?.provider.split("/")[0] ?? "",
    aliases: given.aliases,
    /** What accounts without a plan pay. */
    schedule,
    maxOutputTokens: given.maxOutputTokens ?? 0,
    contextTokens: given.contextTokens ?? CONTEXT_TOKENS_DEFAULT,
    /** The operator has set `context_tokens`. Otherwise it is a default, which bounds no hold and refuses no prompt. */
    isContextKnown: given.contextTokens !== undefined,
    reasoningEffort,
    fallbacks,
    /** What decides among routes of equal priority. */
    order: given.order,
    /** At least one, in the order of the file. */
    routes,
  } as const;
  return { model, written };
}

/** The margin of the provider of the first route. */
function marginOf(
  [route]: readonly unknown[],
  providers: readonly ProviderConfig[],
): Pricing["margin"] | undefined {
  const named = isTable(route) ? route["provider"] : undefined;
  return typeof named === "string" ? providersNamed(providers, named)[0]?.margin : undefined;
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

/** Ids in one warning. */
const SHOWN_MODELS_MAX = 3;

/**
 * One warning for all models whose searches the operator pays for. Over the responses interface web searches pass
 * without a price, because the specification of the service names them.
 */
export function warnAboutUnpricedSearches(
  models: readonly ModelConfig[],
  {
    refusedTools,
    allowedTools,
  }: {
    readonly refusedTools: readonly string[];
    readonly allowedTools: readonly string[];
  },
  inspection: Inspection,
): void {
  if (namesWebSearch([...refusedTools, ...allowedTools])) return;
  const unpriced = models.filter(
    ({ schedule, routes }) =>
      !schedule[0].prices.sells.webSearches &&
      routes.some(({ api, responses }) => responses || api === "responses"),
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
  table: Table,
  at: string,
  model: { readonly id: string; readonly kind: ModelKind },
  { providers, terms }: { readonly providers: readonly ProviderConfig[]; readonly terms: Terms },
  inspection: Inspection,
) {
  const given = readTable(routeOptions, table, at, inspection);
  const { kind } = model;
  refuseOtherKinds(routeOptions, { table, at, kind }, inspection, notOfEmbeddings);
  checkProvider(given, at, kind, providers, inspection);
  if (given.model !== undefined) checkName(given.model, `${at}.model`, inspection);
  const { provider = "", api, responses, priority, weight, tokensPerSecond } = given;
  const costs = readGivenList("cost", given, at, terms, inspection);
  return {
    provider,
    model: given.model ?? model.id,
    api,
    responses,
    priority,
    weight,
    tokensPerSecond,
    /** What the provider charges the operator. Undefined: what the vendor asks, if the model has prices in dollars. */
    costs: checkCosts(costs, at, kind, inspection) ? completeList(costs) : undefined,
  } as const;
}

function checkProvider(
  route: Pick<Values<typeof routeOptions>, "provider" | "api" | "responses">,
  at: string,
  modelKind: ModelKind,
  providers: readonly ProviderConfig[],
  inspection: Inspection,
): void {
  if (route.provider === undefined) return;
  const key = `${at}.provider`;
  // Accounts of one provider differ in nothing that is checked here.
  const [provider] = providersNamed(providers, route.provider);
  if (provider === undefined) {
    const meant = nearest(route.provider, namesOfProviders(providers));
    const advice = meant === undefined ? "add one under [[providers]]" : `did you mean "${meant}"?`;
    inspection.problem(
      key,
      `no provider has the id ${inspection.quote(key, route.provider)}; ${advice}`,
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
  if (route.api === "responses") inspection.problem(`${at}.api`, fault);
  if (route.responses) inspection.problem(`${at}.responses`, fault);
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
