import type { ChatApi, ProviderConfig, ProviderKind } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { anthropic } from "./anthropic/anthropic.ts";
import { gemini } from "./gemini/gemini.ts";
import { openai } from "./openai/openai.ts";
import { openaiResponses } from "./openai/openaiResponses.ts";
import type { OpenRequests } from "./http/client.ts";
import type { ChatInterface, ProviderAdapter } from "./provider.ts";
import { createUpstream, type Upstream } from "./upstream.ts";

/** A configured provider: how to speak to it, and the way out to it. */
export interface Provider {
  readonly id: string;
  readonly config: ProviderConfig;
  readonly adapter: ProviderAdapter;
  readonly upstream: Upstream;
}

/**
 * Makes what one configured provider needs. Nothing is dialled yet. `onUnsolicitedData` is told each time that it sent bytes
 * which nobody asked for, and for how long no connection to it is kept after them. `open`: of the provider in whose
 * place it comes.
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

/** The interface of a provider over which a route serves chat. Only those of the kind openai have two. */
export function chatInterfaceOf(provider: Provider, api: ChatApi): ChatInterface {
  return api === "responses" ? openaiResponses : provider.adapter.chat;
}

function adapterOf(kind: ProviderKind): ProviderAdapter {
  return { openai, anthropic, gemini }[kind];
}
