/** What a caller is told of a limit, in the convention's `x-ratelimit-*` terms. */
export interface LimitState {
  limit: number;
  remaining: number;
  /** Until one can be taken. */
  nextMs: number;
  /** Until the bucket is full again. */
  resetMs: number;
}

/** Whether something was taken; where not, after how long it could be. */
export type Taken = { ok: true } | { ok: false; retryAfterMs: number };

/**
 * A token bucket that holds one minute's worth and refills evenly. It may come to be in debt: by a
 * correction, and by one that took more than a minute's worth.
 */
export interface Bucket {
  /** Takes the amount if it is there. */
  take(amount: number, nowMs: number): Taken;
  /** Takes (or gives back, when negative) whatever is there. */
  correct(amount: number, nowMs: number): void;
  state(nowMs: number): LimitState;
}

const MINUTE_MS = 60_000;

export function createBucket(perMinute: number, nowMs: number): Bucket {
  let level = perMinute;
  let levelAtMs = nowMs;
  const refill = (now: number): void => {
    level = Math.min(perMinute, level + ((now - levelAtMs) * perMinute) / MINUTE_MS);
    levelAtMs = now;
  };
  const msUntil = (amount: number): number =>
    Math.max(0, ((amount - level) * MINUTE_MS) / perMinute);
  return {
    take(amount, now) {
      refill(now);
      // What exceeds a whole minute's worth could never be taken: it waits for a full bucket instead.
      const wanted = Math.min(amount, perMinute);
      if (level < wanted) return { ok: false, retryAfterMs: msUntil(wanted) };
      level -= amount;
      return { ok: true };
    },
    correct(amount, now) {
      refill(now);
      level -= amount;
    },
    state(now) {
      refill(now);
      return {
        limit: perMinute,
        remaining: Math.max(0, Math.floor(level)),
        nextMs: msUntil(1),
        resetMs: msUntil(perMinute),
      };
    },
  };
}
