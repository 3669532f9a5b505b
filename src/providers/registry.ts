import type { ProviderConfig, ProviderKind } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { openai } from "./openai.ts";
import type { ProviderAdapter } from "./provider.ts";
import { createUpstream, type Upstream } from "./upstream.ts";

/** A configured provider: how to speak to it, and the way out to it. */
export interface Provider {
  readonly id: string;
  readonly config: ProviderConfig;
  readonly adapter: ProviderAdapter;
  readonly upstream: Upstream;
}

/** Makes what one configured provider needs. Nothing is dialled yet. */
export function createProvider(config: ProviderConfig, clock: Clock): Provider {
  const adapter = adapterOf(config.kind);
  return { id: config.id, config, adapter, upstream: createUpstream(config, adapter, clock) };
}

function adapterOf(kind: ProviderKind): ProviderAdapter {
  if (kind === "openai") return openai;
  throw new Error(`the config let through a provider of the kind ${kind}`);
}
