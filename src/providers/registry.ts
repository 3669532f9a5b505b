import type { ChatApi, ProviderConfig, ProviderKind } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { anthropic } from "./anthropic/anthropic.ts";
import { gemini } from "./gemini/gemini.ts";
import { openai } from "./openai/openai.ts";
import { openaiResponses } from "./openai/openaiResponses.ts";
import type { OpenRequests } from "./http/client.ts";
import type { ChatInterface, ProviderAdapter } from "./provider.ts";
import { createUpstream, type Upstream } from "./upstream.ts";

/** A configured provider, or one account of it, with its adapter and its connections. */
export interface Provider {
  readonly id: string;
  readonly config: ProviderConfig;
  readonly adapter: ProviderAdapter;
  readonly upstream: Upstream;
  /** Undefined without `requests_per_minute`. */
  readonly rate: RequestRate | undefined;
}

/** Counts requests against the `requests_per_minute` of a provider. */
export interface RequestRate {
  /** Milliseconds until one more may be sent; 0: now. */
  waitMs(): number;
  /** Returns false if none is left. */
  take(): boolean;
  /** Returns one that was not sent. */
  giveBack(): void;
}

/** Counts that the gateway keeps for a provider over reloads. */
export interface ProviderCounters {
  openOf(providerId: string): OpenRequests;
  rateOf(providerId: string, perMinute: number): RequestRate;
}

/**
 * Opens no connection yet. `onUnsolicitedData` is called when the provider sent bytes without a request, with the
 * time in which connections are not reused. Without `counts` requests are counted anew, and their rate has no limit.
 */
export function createProvider(
  config: ProviderConfig,
  clock: Clock,
  onUnsolicitedData: (distrustMs: number) => void,
  counts?: ProviderCounters,
): Provider {
  const { id, requestsPerMinute } = config;
  const adapter = adapterOf(config.kind);
  const upstream = createUpstream(config, adapter, clock, onUnsolicitedData, counts?.openOf(id));
  const rate = requestsPerMinute > 0 ? counts?.rateOf(id, requestsPerMinute) : undefined;
  return { id, config, adapter, upstream, rate };
}

/** The chat interface of a route. Only providers of the kind openai have two. */
export function chatInterfaceOf(kind: ProviderKind, api: ChatApi): ChatInterface {
  return api === "responses" ? openaiResponses : adapterOf(kind).chat;
}

export function adapterOf(kind: ProviderKind): ProviderAdapter {
  return { openai, anthropic, gemini }[kind];
}
