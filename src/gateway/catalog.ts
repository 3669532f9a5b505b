import { amountRangeOf, inputTokensMax, noExtras, promptLimits } from "../billing/cost.ts";
import { providersNamed } from "../config/providers.ts";
import type { Config, ModelConfig, ModelKind, RouteConfig } from "../config/schema.ts";
import { invalidRequest, modelNotFound, type ApiError } from "../contract/errors.ts";
import type { Endpoint } from "../contract/account/requestStatus.ts";
import { lowerPrice } from "../contract/figures.ts";
import { pricesAt, type PlannedPrices } from "../contract/priceList.ts";
import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { lesserOf } from "../lib/money.ts";
import {
  chatInterfaceOf,
  createProvider,
  type KeyFailure,
  type Provider,
  type ProviderCounters,
} from "../providers/registry.ts";
import { matchesPattern } from "../lib/pattern.ts";
import { serviceOf } from "./interfaces.ts";
import { ATTEMPTS_MAX, REFUSALS_MS_MAX } from "../routing/attempts.ts";
import { streamTimeoutMs, type Candidate } from "../routing/candidates.ts";

/** A model with its candidates for each endpoint. */
export interface CatalogModel {
  readonly config: ModelConfig;
  /** Empty for an embedding model. */
  readonly chatCandidates: readonly Candidate[];
  /** Empty if no route serves the responses interface. */
  readonly responsesCandidates: readonly Candidate[];
  /** Empty for a chat model. */
  readonly embeddingsCandidates: readonly Candidate[];
  /** The longest time of all attempts at its routes together, in milliseconds, without the pauses between them. */
  readonly attemptsMsMax: number;
}

/** The providers and models of a config. Models are keyed by their public id. */
export interface Catalog {
  readonly models: ReadonlyMap<string, CatalogModel>;
  readonly providers: ReadonlyMap<string, Provider>;
  /** By the id of a plan and of a model. */
  readonly plans: ReadonlyMap<string, ReadonlyMap<string, readonly PlannedPrices[]>>;
  /** Models by their further names without a `*`, and the names with one. */
  readonly aliases: Aliases;
  /**
   * The least that a request costs a key limited to `allowed` whose account has this plan, in nano-roubles: the cheapest
   * request to any of its models. Undefined if it may use no model.
   */
  leastCost(allowed: readonly string[] | null, plan: string | null): bigint | undefined;
  /** Closes idle connections of its providers, except of those that `successor` has too. Requests in flight go on. */
  close(successor?: Catalog): void;
}

interface CatalogOptions {
  /** The catalog to replace. A provider whose config did not change is reused. */
  readonly previous?: Catalog | undefined;
  /** Called when a provider sent data without a request, with the time for which its connections are not reused. */
  readonly onUnsolicitedData?: (providerId: string, distrustMs: number) => void;
  /** The counts of the gateway. */
  readonly counts?: ProviderCounters | undefined;
  readonly onKeyFailure?: (providerId: string, failure: KeyFailure) => void;
}

export function createCatalog(config: Config, clock: Clock, options: CatalogOptions = {}): Catalog {
  const providers = providersOf(config, clock, options);
  const nowMs = clock.epochMs();
  const models = config.models.map((model): [string, CatalogModel] => {
    const candidates = model.routes.flatMap((route) =>
      candidatesOfRoute(model, route, { config, providers, nowMs }),
    );
    const longestMs = Math.max(...candidates.map(streamTimeoutMs));
    const offered: CatalogModel = {
      config: model,
      chatCandidates: model.kind === "chat" ? candidates : [],
      responsesCandidates: candidates.filter(
        (candidate) => serviceOf("responses", candidate) === "native",
      ),
      embeddingsCandidates: model.kind === "embedding" ? candidates : [],
      attemptsMsMax: ATTEMPTS_MAX * longestMs + REFUSALS_MS_MAX,
    };
    return [model.id, offered];
  });
  const plans = new Map(config.plans.map(({ id, models }) => [id, new Map(models)] as const));
  return {
    models: new Map(models),
    providers,
    plans,
    aliases: aliasesOf(models.map(([, model]) => model)),
    leastCost: leastCosts(config.models, plans),
    close(successor) {
      for (const [id, provider] of providers)
        if (successor?.providers.get(id) !== provider) {
          provider.upstream.close();
          provider.key?.close();
        }
    },
  };
}

/** One for each account of the provider. They divide the weight of the route. */
function candidatesOfRoute(
  model: ModelConfig,
  route: RouteConfig,
  {
    config,
    providers,
    nowMs,
  }: { config: Config; providers: ReadonlyMap<string, Provider>; nowMs: number },
): readonly Candidate[] {
  const accounts = providersNamed(config.providers, route.provider);
  const sum = accounts.reduce((weights, { weight }) => weights + weight, 0);
  return accounts.map(({ id, kind, weight }): Candidate => {
    const provider = providers.get(id);
    assert(provider !== undefined, "a route without its provider");
    return {
      model,
      provider,
      route,
      rank: rankOf(model, route, nowMs),
      weight: (route.weight * weight) / sum,
      identity: `${id} ${route.model}`,
      chat: chatInterfaceOf(kind, route.api),
    };
  });
}

/** Tokens of input for one of output, for the comparison of routes by their costs. */
const INPUT_OF_MIX = 3n;

/** What a usual request costs the operator on the route, if the model orders its routes by it. Infinity: it is not known. */
function rankOf({ order, schedule }: ModelConfig, { costs }: RouteConfig, nowMs: number): number {
  if (order === "weight") return 0;
  const { input, output } = (costs ?? pricesAt(schedule, nowMs).vendor)?.standard[0].price ?? {};
  if (input === undefined || output === undefined) return Infinity;
  return Number(INPUT_OF_MIX * input + output);
}

interface Aliases {
  readonly exact: ReadonlyMap<string, CatalogModel>;
  /** In the order of the config. */
  readonly patterns: readonly (readonly [pattern: string, model: CatalogModel])[];
}

function aliasesOf(models: readonly CatalogModel[]): Aliases {
  const all = models.flatMap((model) =>
    model.config.aliases.map((alias) => [alias, model] as const),
  );
  return {
    exact: new Map(all.filter(([alias]) => !alias.includes("*"))),
    patterns: all.filter(([alias]) => alias.includes("*")),
  };
}

/** The model with this id, or the one that has it as a further name. */
function modelNamed({ models, aliases }: Catalog, name: string): CatalogModel | undefined {
  return (
    models.get(name) ??
    aliases.exact.get(name) ??
    aliases.patterns.find(([pattern]) => matchesPattern(pattern, name))?.[1]
  );
}

/**
 * The least cost by the models that a key may use and by its plan. Each plan and each list of models is computed once,
 * because every request asks. Prices of any time count, so the result is a lower bound.
 */
function leastCosts(models: readonly ModelConfig[], plans: Catalog["plans"]): Catalog["leastCost"] {
  type Costs = readonly { readonly id: string; readonly cost: bigint }[];
  const byPlan = new Map<string, Costs>();
  const costsOf = (plan: string): Costs => {
    const planned = plans.get(plan);
    const costOf = (model: ModelConfig): bigint => leastCostOf(model, planned?.get(model.id));
    const costs =
      byPlan.get(plan) ?? models.map((model) => ({ id: model.id, cost: costOf(model) }));
    byPlan.set(plan, costs);
    return costs;
  };
  const leastOf = (allowed: readonly string[] | null, plan: string): bigint | undefined =>
    costsOf(plan)
      .filter(({ id }) => mayUse(allowed, id))
      .map(({ cost }) => cost)
      .reduce<bigint | undefined>(
        (least, cost) => (least === undefined ? cost : lesserOf(least, cost)),
        undefined,
      );
  type Known = { readonly cost: bigint | undefined };
  const ofAll = new Map<string, Known>();
  const byList = new WeakMap<readonly string[], Map<string, Known>>();
  return (allowed, plan) => {
    // An account may have a plan that the config has no longer.
    const name = plan !== null && plans.has(plan) ? plan : NO_PLAN;
    let known = allowed === null ? ofAll : byList.get(allowed);
    if (known === undefined) byList.set(allowed ?? [], (known = new Map<string, Known>()));
    let found = known.get(name);
    if (found === undefined) known.set(name, (found = { cost: leastOf(allowed, name) }));
    return found.cost;
  };
}

/** No plan has this id. */
const NO_PLAN = "";

/** The hold of the smallest request: one message or input without text, and one token of an answer. */
function leastCostOf(
  { kind, contextTokens, isContextKnown, schedule }: ModelConfig,
  planned: readonly PlannedPrices[] = [],
): bigint {
  const context = { contextTokens, isContextKnown, estimate: 0 };
  const isChat = kind === "chat";
  const prompt = isChat
    ? { bodyBytes: 0, messageCount: 1, unbounded: false, ...noExtras }
    : { tokensMax: inputTokensMax([0], context) };
  const tokens = isChat ? 1 : 0;
  const bound = { most: tokens, least: tokens };
  const price = [schedule, ...planned.map((one) => one.schedule)]
    .flat()
    .map(({ prices }) => prices.standard[0].price)
    .reduce(lowerPrice);
  return amountRangeOf(promptLimits(prompt, context), bound, 1, price).least;
}

/**
 * A loop instead of a callback: a closure that shares a scope with `previous` would retain it, and so each reload would
 * retain every earlier catalog (memory rules: docs/contribute/architecture.md).
 */
function providersOf(
  config: Config,
  clock: Clock,
  { previous, onUnsolicitedData, counts, onKeyFailure }: CatalogOptions,
): ReadonlyMap<string, Provider> {
  const providers = new Map<string, Provider>();
  for (const provider of config.providers) {
    const known = previous?.providers.get(provider.id);
    const isSame = known && Bun.deepEquals(known.config, provider);
    const services = {
      clock,
      counts,
      onUnsolicitedData: (distrustMs: number) => onUnsolicitedData?.(provider.id, distrustMs),
      onKeyFailure: (failure: KeyFailure) => onKeyFailure?.(provider.id, failure),
    };
    providers.set(provider.id, isSame ? known : createProvider(provider, services));
  }
  return providers;
}

/** Every route of every model. */
export function candidatesOf({ models }: Catalog): readonly Candidate[] {
  return [...models.values()].flatMap(({ chatCandidates, embeddingsCandidates }) =>
    chatCandidates.concat(embeddingsCandidates),
  );
}

/** The call to use for a model of another kind. */
const WRONG_KIND: Readonly<Record<ModelKind, string>> = {
  chat: "model is an embedding model: use /v1/embeddings",
  embedding: "model is not an embedding model: use /v1/chat/completions",
};

/**
 * Returns the model, if it exists and a key limited to `allowed` may use it. Throws ApiError: 404, and 400 for a model
 * of another kind than `kind`.
 */
export function findModel(
  catalog: Catalog,
  allowed: readonly string[] | null,
  modelId: string,
  kind?: ModelKind,
): CatalogModel {
  const model = modelNamed(catalog, modelId);
  if (!model || !mayUse(allowed, model.config.id)) throw modelNotFound();
  if (kind !== undefined && model.config.kind !== kind) throw invalidRequest(WRONG_KIND[kind]);
  return model;
}

/** The models that may answer a request: the one that it asks for, and its fallbacks in their order. */
export type ModelChain = readonly [CatalogModel, ...CatalogModel[]];

/** Returns the model like `findModel`, and its fallbacks that the key may use too. Throws ApiError. */
export function findModels(
  catalog: Catalog,
  allowed: readonly string[] | null,
  modelId: string,
): ModelChain {
  const model = findModel(catalog, allowed, modelId, "chat");
  const { fallbacks } = model.config;
  if (fallbacks.length === 0) return [model];
  const usable = fallbacks.flatMap((id) =>
    mayUse(allowed, id) ? (catalog.models.get(id) ?? []) : [],
  );
  return [model, ...usable];
}

/**
 * The models without the fallbacks that may not serve the request. `refusals`: for each model the reason, undefined if
 * it may serve. Throws the refusal of the requested model.
 */
export function withoutRefused(
  [asked, ...fallbacks]: ModelChain,
  [refusal, ...others]: readonly (ApiError | undefined)[],
): ModelChain {
  if (refusal) throw refusal;
  return [asked, ...fallbacks.filter((_, at) => others[at] === undefined)];
}

export function chatCandidatesOf(models: ModelChain): readonly Candidate[] {
  const [first, ...others] = models;
  if (others.length === 0) return first.chatCandidates;
  return models.flatMap(({ chatCandidates }) => chatCandidates);
}

/** The endpoints that accept the model. Each is served by the provider's own interface, or translated. */
export function endpointsOf({ kind }: ModelConfig): readonly Endpoint[] {
  return ENDPOINTS[kind];
}

const ENDPOINTS: Readonly<Record<ModelKind, readonly Endpoint[]>> = {
  chat: ["chat", "responses", "messages"],
  embedding: ["embeddings"],
};

/** Whether a key limited to `allowed` may use the model. A `*` in an entry matches any text. */
export function mayUse(allowed: readonly string[] | null, modelId: string): boolean {
  return allowed === null || allowed.some((pattern) => matchesPattern(pattern, modelId));
}
