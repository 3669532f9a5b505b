/** Whether the amount was taken; if not, after how many milliseconds it can be. */
export type RateLimitResult = { ok: true } | { ok: false; retryAfterMs: number };

/**
 * The state of a bucket: when it is full, in monotonic milliseconds. One number, so that processes can share it and change
 * it in one step.
 */
export interface BucketCell {
  read(): number;
  /** Replaces the number that was read. Returns false if it has changed since. */
  replace(read: number, fullAtMs: number): boolean;
}

/** A cell of this process alone. */
export class OwnCell implements BucketCell {
  #fullAtMs = 0;

  read(): number {
    return this.#fullAtMs;
  }

  replace(_read: number, fullAtMs: number): boolean {
    this.#fullAtMs = fullAtMs;
    return true;
  }
}

const MINUTE_MS = 60_000;
/** Times are rounded, so a level may be this much too low. It is far below one request or token. */
const ROUNDING = 1e-3;

/**
 * A token bucket: it holds one minute's worth and refills evenly. A correction, or an amount of more than one minute's
 * worth, can make its level negative. The script of the limits server counts the same.
 */
export class TokenBucket {
  #perMinute: number;
  readonly #cell: BucketCell;

  /** It begins with what the cell has. The number 0 is a full bucket. */
  constructor(perMinute: number, cell: BucketCell) {
    this.#perMinute = perMinute;
    this.#cell = cell;
  }

  /** The limit. A share of a limit is not always a whole number. */
  get perMinute(): number {
    return this.#perMinute;
  }

  /** Changes the limit. The level stays the same part of it, so that a change gives nobody a full bucket. */
  resize(perMinute: number): void {
    this.#perMinute = perMinute;
  }

  /** Sets the level to what another counter has. */
  setLevel(level: number, nowMs: number): void {
    this.#change((_, perMs) => nowMs + (this.#perMinute - level) / perMs, nowMs);
  }

  take(amount: number, nowMs: number): RateLimitResult {
    // More than one minute's worth would never fit, so it needs a full bucket only.
    const wanted = Math.min(amount, this.#perMinute);
    let missing = 0;
    this.#change((fullAtMs, perMs) => {
      missing = wanted - this.#levelOf(fullAtMs, nowMs) - ROUNDING;
      return missing > 0 ? undefined : fullAtMs + amount / perMs;
    }, nowMs);
    return missing > 0 ? { ok: false, retryAfterMs: this.#msUntil(wanted, nowMs) } : { ok: true };
  }

  /** Takes the amount, or returns it if negative, whatever the level is. */
  correct(amount: number, nowMs: number): void {
    this.#change((fullAtMs, perMs) => Math.max(fullAtMs + amount / perMs, nowMs), nowMs);
  }

  /** What can be taken now. */
  remaining(nowMs: number): number {
    return Math.max(0, Math.floor(this.#level(nowMs) + ROUNDING));
  }

  /** Milliseconds until one more can be taken. */
  nextMs(nowMs: number): number {
    return this.#msUntil(1, nowMs);
  }

  /** Milliseconds until the bucket is full. */
  resetMs(nowMs: number): number {
    return this.#msUntil(this.#perMinute, nowMs);
  }

  /** Changes the state. `next` gets when the bucket is full, now at the earliest. It returns undefined for no change. */
  #change(next: (fullAtMs: number, perMs: number) => number | undefined, nowMs: number): void {
    const perMs = this.#perMinute / MINUTE_MS;
    for (;;) {
      const read = this.#cell.read();
      const fullAtMs = next(Math.max(read, nowMs), perMs);
      if (fullAtMs === undefined || this.#cell.replace(read, fullAtMs)) return;
    }
  }

  #level(nowMs: number): number {
    return this.#levelOf(Math.max(this.#cell.read(), nowMs), nowMs);
  }

  #levelOf(fullAtMs: number, nowMs: number): number {
    return this.#perMinute - ((fullAtMs - nowMs) * this.#perMinute) / MINUTE_MS;
  }

  #msUntil(amount: number, nowMs: number): number {
    const ms = ((amount - this.#level(nowMs)) * MINUTE_MS) / this.#perMinute;
    return Math.max(0, Math.round(ms));
  }
}
