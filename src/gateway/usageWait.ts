import type { Clock } from "../lib/clock.ts";
import { UpstreamError } from "../providers/upstream.ts";

/** How long the usage and the terminator may take behind a finished answer. */
const USAGE_TIMEOUT_MS = 2000;

/** The time for what follows a finished answer, which begins when it is first asked for. */
export interface UsageWait {
  /** What is left of it, however much else still comes. Throws UpstreamError when it is over. */
  leftMs(): number;
}

export function createUsageWait(clock: Clock): UsageWait {
  let endsAtMs: number | undefined;
  return {
    leftMs() {
      const now = clock.monotonicMs();
      endsAtMs ??= now + USAGE_TIMEOUT_MS;
      // A read that need not wait never times out: a provider that goes on and on would be read for ever.
      if (endsAtMs <= now) throw new UpstreamError("provider", "timeout");
      return endsAtMs - now;
    },
  };
}
