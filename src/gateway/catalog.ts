import type { Config, ModelConfig } from "../config/schema.ts";
import { modelNotFound } from "../contract/errors.ts";
import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { chatInterfaceOf, createProvider, type Provider } from "../providers/registry.ts";
import { ATTEMPTS_MAX } from "../routing/dispatch.ts";
import type { Candidate } from "../routing/candidates.ts";

/** A model that can be asked for, and the ways to serve each endpoint. */
export interface CatalogModel {
  readonly config: ModelConfig;
  readonly chatCandidates: readonly Candidate[];
  /** Empty where no route serves the responses interface. */
  readonly responsesCandidates: readonly Candidate[];
  /** What all attempts at its routes can take together, but for short pauses between them. */
  readonly attemptsMsMax: number;
}

/** Everything that the config's providers and models offer, by public model id. */
export interface Catalog {
  readonly models: ReadonlyMap<string, CatalogModel>;
  readonly providers: ReadonlyMap<string, Provider>;
  /** Lets go of the idle connections of its providers, but for those that `heir` has too; requests under way go on. */
  close(heir?: Catalog): void;
}

/** What a catalog has besides its config. */
interface CatalogOptions {
  /** The catalog in whose place it comes: whose config did not change, that provider stays the same. */
  readonly before?: Catalog | undefined;
  /** Told of a provider that sent what nobody asked for, and how long none of its connections is kept. */
  readonly onUnsolicitedData?: (providerId: string, distrustMs: number) => void;
}

/** Makes the providers of a config, and what its models offer of them. */
export function createCatalog(config: Config, clock: Clock, options: CatalogOptions = {}): Catalog {
  const providers = providersOf(config, clock, options);
  const models = config.models.map((model): [string, CatalogModel] => {
    const candidates = model.routes.map((route): Candidate => {
      const provider = providers.get(route.provider);
      assert(provider !== undefined, "a route without its provider");
      return { provider, route, chat: chatInterfaceOf(provider, route.api) };
    });
    const longestMs = Math.max(...candidates.map(({ provider }) => provider.config.totalTimeoutMs));
    const offered: CatalogModel = {
      config: model,
      chatCandidates: candidates,
      responsesCandidates: candidates.filter(({ route }) => route.responses),
      attemptsMsMax: ATTEMPTS_MAX * longestMs,
    };
    return [model.id, offered];
  });
  return {
    models: new Map(models),
    providers,
    close(heir) {
      for (const [id, provider] of providers)
        if (heir?.providers.get(id) !== provider) provider.upstream.close();
    },
  };
}

/**
 * A loop, and no callback that captures `before`, for `tell` would keep it too (of closures: gateway.ts), and each reload
 * every catalog before it.
 */
function providersOf(
  config: Config,
  clock: Clock,
  { before, onUnsolicitedData }: CatalogOptions,
): ReadonlyMap<string, Provider> {
  const providers = new Map<string, Provider>();
  for (const provider of config.providers) {
    const known = before?.providers.get(provider.id);
    const isSame = known && Bun.deepEquals(known.config, provider);
    // What is under way at the one before counts to the limit of the one that comes: its operator means one provider.
    const open = known?.upstream.open;
    const tell = (distrustMs: number): void => onUnsolicitedData?.(provider.id, distrustMs);
    providers.set(provider.id, isSame ? known : createProvider(provider, clock, tell, open));
  }
  return providers;
}

/** Every route of every model. */
export function candidatesOf({ models }: Catalog): readonly Candidate[] {
  return [...models.values()].flatMap(({ chatCandidates }) => chatCandidates);
}

/** The model of this id, if there is one that a key limited to `allowed` may use. Throws ApiError 404. */
export function findModel(
  { models }: Catalog,
  allowed: readonly string[] | null,
  modelId: string,
): CatalogModel {
  const model = models.get(modelId);
  if (!model || !mayUse(allowed, modelId)) throw modelNotFound();
  return model;
}

/** Whether a key limited to `allowed` may use the model; a `*` in an entry stands for any text. */
export function mayUse(allowed: readonly string[] | null, modelId: string): boolean {
  return allowed === null || allowed.some((pattern) => matches(pattern, modelId));
}

function matches(pattern: string, text: string): boolean {
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
