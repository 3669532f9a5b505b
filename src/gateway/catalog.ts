import { amountRangeOf, inputTokensMax, noExtras, promptLimits } from "../billing/cost.ts";
import { providersNamed } from "../config/providers.ts";
import type { Config, ModelConfig, ModelKind, RouteConfig } from "../config/schema.ts";
import { invalidRequest, modelNotFound, type ApiError } from "../contract/errors.ts";
import type { Endpoint } from "../contract/account/requestStatus.ts";
import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { lesserOf } from "../lib/money.ts";
import {
  chatInterfaceOf,
  createProvider,
  type Provider,
  type ProviderCounters,
} from "../providers/registry.ts";
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
  /**
   * The least that a request costs a key limited to `allowed`, in nano-roubles: the cheapest request to any of its
   * models. Undefined if it may use no model.
   */
  leastCost(allowed: readonly string[] | null): bigint | undefined;
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
}

export function createCatalog(config: Config, clock: Clock, options: CatalogOptions = {}): Catalog {
  const providers = providersOf(config, clock, options);
  const models = config.models.map((model): [string, CatalogModel] => {
    const candidates = model.routes.flatMap((route) =>
      candidatesOfRoute(model, route, config, providers),
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
  return {
    models: new Map(models),
    providers,
    leastCost: leastCosts(config.models),
    close(successor) {
      for (const [id, provider] of providers)
        if (successor?.providers.get(id) !== provider) provider.upstream.close();
    },
  };
}

/** One for each account of the provider. They divide the weight of the route. */
function candidatesOfRoute(
  model: ModelConfig,
  route: RouteConfig,
  config: Config,
  providers: ReadonlyMap<string, Provider>,
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
      weight: (route.weight * weight) / sum,
      identity: `${id} ${route.model}`,
      chat: chatInterfaceOf(kind, route.api),
    };
  });
}

/**
 * The least cost by the models that a key may use. Each list of models is computed once, because every request asks.
 */
function leastCosts(models: readonly ModelConfig[]): Catalog["leastCost"] {
  const costs = models.map((model) => ({ id: model.id, cost: leastCostOf(model) }));
  const leastOf = (allowed: readonly string[] | null): bigint | undefined =>
    costs
      .filter(({ id }) => mayUse(allowed, id))
      .map(({ cost }) => cost)
      .reduce<bigint | undefined>(
        (least, cost) => (least === undefined ? cost : lesserOf(least, cost)),
        undefined,
      );
  const ofAll = leastOf(null);
  const byList = new WeakMap<readonly string[], { readonly cost: bigint | undefined }>();
  return (allowed) => {
    if (allowed === null) return ofAll;
    let known = byList.get(allowed);
    if (known === undefined) byList.set(allowed, (known = { cost: leastOf(allowed) }));
    return known.cost;
  };
}

/** The hold of the smallest request: one message or input without text, and one token of an answer. */
function leastCostOf({ kind, contextTokens, isContextKnown, price }: ModelConfig): bigint {
  const context = { contextTokens, isContextKnown, estimate: 0 };
  const isChat = kind === "chat";
  const prompt = isChat
    ? { bodyBytes: 0, messageCount: 1, unbounded: false, ...noExtras }
    : { tokensMax: inputTokensMax([0], context) };
  const tokens = isChat ? 1 : 0;
  const bound = { most: tokens, least: tokens };
  return amountRangeOf(promptLimits(prompt, context), bound, 1, price).least;
}

/**
 * A loop instead of a callback: a closure that shares a scope with `previous` would retain it, and so each reload would
 * retain every earlier catalog (memory rules: docs/contribute/architecture.md).
 */
function providersOf(
  config: Config,
  clock: Clock,
  { previous, onUnsolicitedData, counts }: CatalogOptions,
): ReadonlyMap<string, Provider> {
  const providers = new Map<string, Provider>();
  for (const provider of config.providers) {
    const known = previous?.providers.get(provider.id);
    const isSame = known && Bun.deepEquals(known.config, provider);
    const notify = (distrustMs: number): void => onUnsolicitedData?.(provider.id, distrustMs);
    providers.set(provider.id, isSame ? known : createProvider(provider, clock, notify, counts));
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
  { models }: Catalog,
  allowed: readonly string[] | null,
  modelId: string,
  kind?: ModelKind,
): CatalogModel {
  const model = models.get(modelId);
  if (!model || !mayUse(allowed, modelId)) throw modelNotFound();
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

/** Whether the text is the pattern, in which a `*` matches any text. */
export function matchesPattern(pattern: string, text: string): boolean {
  const [head = "", ...rest] = pattern.split("*");
  const tail = rest.pop();
  if (tail === undefined) return pattern === text;
  if (!text.startsWith(head) || text.length < head.length + tail.length || !text.endsWith(tail))
    return false;
  let at = head.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= text.length - tail.length;
}
