/** While many operations come, a transaction starts each PACE_MS, with all that wait. */
export const PACE_MS = 25;
/** What counts as many: this many operations in WINDOW_MS. */
export const MANY = 40;
export const WINDOW_MS = 100;

/**
 * Says when the next transaction of a writer starts. While few operations come, each starts one at once, because the end of
 * an answer waits for it. While many come, they share transactions: a transaction costs the server as much as many rows.
 */
export class Pace {
  readonly #recent: { readonly atMs: number; readonly operations: number }[] = [];
  #startedMs = -Infinity;

  /** `nowMs`: monotonic time. `waiting`: the operations that wait now. */
  delayMs(nowMs: number, waiting: number): number {
    while (this.#recent[0] && this.#recent[0].atMs <= nowMs - WINDOW_MS) this.#recent.shift();
    const came = this.#recent.reduce((sum, { operations }) => sum + operations, waiting);
    return came < MANY ? 0 : Math.max(0, this.#startedMs + PACE_MS - nowMs);
  }

  /** A transaction with this many operations starts. */
  started(nowMs: number, operations: number): void {
    this.#startedMs = nowMs;
    this.#recent.push({ atMs: nowMs, operations });
  }
}
