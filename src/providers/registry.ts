import type { ChatApi, ProviderConfig, ProviderKind } from "../config/schema.ts";
import { type Clock, Deadlines } from "../lib/clock.ts";
import { anthropic } from "./anthropic/anthropic.ts";
import { gemini } from "./gemini/gemini.ts";
import { openai } from "./openai/openai.ts";
import { openaiResponses } from "./openai/openaiResponses.ts";
import type { OpenRequests } from "./http/client.ts";
import { GIGACHAT_LIFETIME_MS, gigachatToken } from "./keys/gigachat.ts";
import { runKeyCommand } from "./keys/keyCommand.ts";
import { type KeyFailure, RenewedKey } from "./keys/renewedKey.ts";
import type { ChatInterface, ProviderAdapter } from "./provider.ts";
import { createUpstream, type Upstream } from "./upstream.ts";

export type { KeyFailure } from "./keys/renewedKey.ts";

/** A configured provider, or one account of it, with its adapter and its connections. */
export interface Provider {
  readonly id: string;
  readonly config: ProviderConfig;
  readonly adapter: ProviderAdapter;
  readonly upstream: Upstream;
  /** Undefined without `requests_per_minute`. */
  readonly rate: RequestRate | undefined;
  /** Undefined for a key that does not expire. */
  readonly key: RenewedKey | undefined;
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

/** What the gateway has for all providers. Tests and commands need less. */
export interface ProviderServices {
  readonly clock: Clock;
  /** Called when the provider sent bytes without a request, with the time in which connections are not reused. */
  readonly onUnsolicitedData?: (distrustMs: number) => void;
  /** Without it requests are counted anew, and their rate has no limit. */
  readonly counts?: ProviderCounters | undefined;
  readonly onKeyFailure?: (failure: KeyFailure) => void;
}

/** Opens no connection yet. */
export function createProvider(config: ProviderConfig, services: ProviderServices): Provider {
  const { clock, onUnsolicitedData = () => {}, counts } = services;
  const { id, requestsPerMinute } = config;
  const adapter = adapterOf(config.kind);
  const deadlines = new Deadlines(clock);
  const key = renewedKeyOf(config, deadlines, services.onKeyFailure);
  const open = counts?.openOf(id);
  const upstream = createUpstream(config, adapter, deadlines, { onUnsolicitedData, open, key });
  const rate = requestsPerMinute > 0 ? counts?.rateOf(id, requestsPerMinute) : undefined;
  return { id, config, adapter, upstream, rate, key };
}

/** The key of a provider that expires; undefined for one that does not. */
function renewedKeyOf(
  { issuer, apiKey = "", ...connection }: ProviderConfig,
  deadlines: Deadlines,
  onFailure: ((failure: KeyFailure) => void) | undefined,
): RenewedKey | undefined {
  switch (issuer?.kind) {
    case undefined:
      return undefined;
    case "command":
      return new RenewedKey(
        (signal) => runKeyCommand(issuer.command, deadlines, signal),
        issuer.lifetimeMs,
        deadlines,
        onFailure,
      );
    case "gigachat":
      return new RenewedKey(
        (signal) =>
          gigachatToken({ ...issuer, apiKey }, connection, () => deadlines.clock.epochMs(), signal),
        GIGACHAT_LIFETIME_MS,
        deadlines,
        onFailure,
      );
  }
}

/** The chat interface of a route. Only providers of the kind openai have two. */
export function chatInterfaceOf(kind: ProviderKind, api: ChatApi): ChatInterface {
  return api === "responses" ? openaiResponses : adapterOf(kind).chat;
}

export function adapterOf(kind: ProviderKind): ProviderAdapter {
  return { openai, anthropic, gemini }[kind];
}
