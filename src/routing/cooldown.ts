import type { Clock } from "../lib/clock.ts";
import type { UpstreamError } from "../providers/upstream.ts";
import type { Candidate } from "./order.ts";

/** Remembers which routes asked to be left alone, or cannot serve for a while. */
export interface Cooldowns {
  /** Milliseconds until the route is worth another try; 0: now. */
  waitMs(candidate: Candidate): number;
  /** Notes a failed attempt. Returns how long the route, or all of its provider, is passed over; 0: not at all. */
  note(candidate: Candidate, error: UpstreamError): number;
}

/** An operator's account that is refused or empty does not mend itself by the next request. */
const ACCOUNT_COOLDOWN_MS = 300_000;

export function createCooldowns(clock: Clock): Cooldowns {
  const until = new Map<string, number>();
  return {
    waitMs(candidate) {
      if (until.size === 0) return 0;
      const now = clock.monotonicMs();
      const route = until.get(routeId(candidate)) ?? 0;
      const provider = until.get(candidate.provider.id) ?? 0;
      return Math.max(0, route - now, provider - now);
    },
    note(candidate, error) {
      const { fault, retryAfterMs } = error;
      // A rate limit that names no time may be about this one request: it puts nothing aside.
      const cooldownMs =
        fault === "account" ? ACCOUNT_COOLDOWN_MS : fault === "limited" ? (retryAfterMs ?? 0) : 0;
      if (cooldownMs === 0) return 0;
      const id = fault === "account" ? candidate.provider.id : routeId(candidate);
      until.set(id, clock.monotonicMs() + cooldownMs);
      return cooldownMs;
    },
  };
}

function routeId({ provider, route }: Candidate): string {
  return `${provider.id} ${route.model}`;
}
