import type { ChatApi, ProviderConfig, ProviderKind } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { anthropic } from "./anthropic/anthropic.ts";
import { gemini } from "./gemini/gemini.ts";
import { openai } from "./openai/openai.ts";
import { openaiResponses } from "./openai/openaiResponses.ts";
import type { OpenRequests } from "./http/client.ts";
import type { ChatInterface, ProviderAdapter } from "./provider.ts";
import { createUpstream, type Upstream } from "./upstream.ts";

/** A configured provider with its adapter and its connections. */
export interface Provider {
  readonly id: string;
  readonly config: ProviderConfig;
  readonly adapter: ProviderAdapter;
  readonly upstream: Upstream;
}

/**
 * Opens no connection yet. `onUnsolicitedData` is called when the provider sent bytes without a request, with the
 * time in which connections are not reused. `open` is the count of the provider that this one replaces after a
 * reload.
 */
export function createProvider(
  config: ProviderConfig,
  clock: Clock,
  onUnsolicitedData: (distrustMs: number) => void,
  open?: OpenRequests,
): Provider {
  const adapter = adapterOf(config.kind);
  const upstream = createUpstream(config, adapter, clock, onUnsolicitedData, open);
  return { id: config.id, config, adapter, upstream };
}

/** The chat interface of a route. Only providers of the kind openai have two. */
export function chatInterfaceOf(kind: ProviderKind, api: ChatApi): ChatInterface {
  return api === "responses" ? openaiResponses : adapterOf(kind).chat;
}

export function adapterOf(kind: ProviderKind): ProviderAdapter {
  return { openai, anthropic, gemini }[kind];
}
