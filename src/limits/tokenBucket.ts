/** Whether the amount was taken; if not, after how many milliseconds it can be. */
export type RateLimitResult = { ok: true } | { ok: false; retryAfterMs: number };

const MINUTE_MS = 60_000;

/**
 * A token bucket: it holds one minute's worth and refills evenly. A correction, or an amount of more than one minute's
 * worth, can make its level negative. The script of the limits server has the same arithmetic.
 */
export class TokenBucket {
  #perMinute: number;
  #level: number;
  #levelAtMs: number;

  constructor(perMinute: number, nowMs: number) {
    this.#perMinute = perMinute;
    this.#level = perMinute;
    this.#levelAtMs = nowMs;
  }

  /** The limit. A share of a limit is not always a whole number. */
  get perMinute(): number {
    return this.#perMinute;
  }

  /** Changes the limit. The level stays the same part of it, so that a change gives nobody a full bucket. */
  resize(perMinute: number, nowMs: number): void {
    this.#refill(nowMs);
    this.#level *= perMinute / this.#perMinute;
    this.#perMinute = perMinute;
  }

  /** Sets the level to what another counter has. */
  setLevel(level: number, nowMs: number): void {
    this.#level = level;
    this.#levelAtMs = nowMs;
  }

  take(amount: number, nowMs: number): RateLimitResult {
    this.#refill(nowMs);
    // More than one minute's worth would never fit, so it needs a full bucket only.
    const wanted = Math.min(amount, this.#perMinute);
    if (this.#level < wanted) return { ok: false, retryAfterMs: this.#msUntil(wanted) };
    this.#level -= amount;
    return { ok: true };
  }

  /** Takes the amount, or returns it if negative, whatever the level is. */
  correct(amount: number, nowMs: number): void {
    this.#refill(nowMs);
    this.#level = Math.min(this.#perMinute, this.#level - amount);
  }

  /** What can be taken now. */
  remaining(nowMs: number): number {
    this.#refill(nowMs);
    return Math.max(0, Math.floor(this.#level));
  }

  /** Milliseconds until one more can be taken. */
  nextMs(nowMs: number): number {
    this.#refill(nowMs);
    return this.#msUntil(1);
  }

  /** Milliseconds until the bucket is full. */
  resetMs(nowMs: number): number {
    this.#refill(nowMs);
    return this.#msUntil(this.#perMinute);
  }

  #refill(nowMs: number): void {
    const refilled = ((nowMs - this.#levelAtMs) * this.#perMinute) / MINUTE_MS;
    this.#level = Math.min(this.#perMinute, this.#level + refilled);
    this.#levelAtMs = nowMs;
  }

  #msUntil(amount: number): number {
    return Math.max(0, ((amount - this.#level) * MINUTE_MS) / this.#perMinute);
  }
}
