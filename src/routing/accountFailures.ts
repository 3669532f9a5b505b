import type { Clock } from "../lib/clock.ts";

/** Stands for the gateway itself, which asks a route on its own. Accounts have positive ids. */
export const GATEWAY_ACCOUNT = 0;

/** An account that meets nothing for this long is forgotten. */
const WINDOW_MS = 300_000;

/**
 * The failures of a route since its last success, by account. One account's requests may cause its failures. What
 * several accounts meet while nobody succeeds is the provider's fault.
 */
export class AccountFailures {
  readonly #clock: Clock;
  readonly #byAccount = new Map<number, { count: number; lastMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(account: number): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [other, { lastMs }] of this.#byAccount)
      if (nowMs - lastMs > WINDOW_MS) this.#byAccount.delete(other);
    const own = this.#byAccount.get(account);
    if (own) {
      own.count += 1;
      own.lastMs = nowMs;
    } else this.#byAccount.set(account, { count: 1, lastMs: nowMs });
  }

  clear(): void {
    if (this.#byAccount.size > 0) this.#byAccount.clear();
  }

  /** Failures of all accounts together. */
  get count(): number {
    return this.#byAccount.values().reduce((sum, { count }) => sum + count, 0);
  }

  get accounts(): ReadonlySet<number> {
    return new Set(this.#byAccount.keys());
  }

  get accountCount(): number {
    return this.#byAccount.size;
  }
}
