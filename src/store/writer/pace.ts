/** What counts as many comes within this time. */
export const WINDOW_MS = 100;

/** When the transactions of a writer start. */
export interface PaceOptions {
  /** What counts as many: so many operations in WINDOW_MS. */
  readonly many: number;
  /** While many come, a transaction starts this often, with all that wait. */
  readonly everyMs: number;
}

/**
 * Says when the next transaction of a writer starts. While few operations come, each starts one at once, because the end of
 * an answer waits for it. While many come, they share transactions: a transaction costs as much as many rows.
 */
export class Pace {
  readonly #options: PaceOptions;
  readonly #recent: { readonly atMs: number; readonly operations: number }[] = [];
  #startedMs = -Infinity;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  /** `nowMs`: monotonic time. `waiting`: the operations that wait now. */
  delayMs(nowMs: number, waiting: number): number {
    const { many, everyMs } = this.#options;
    while (this.#recent[0] && this.#recent[0].atMs <= nowMs - WINDOW_MS) this.#recent.shift();
    const came = this.#recent.reduce((sum, { operations }) => sum + operations, waiting);
    return came < many ? 0 : Math.max(0, this.#startedMs + everyMs - nowMs);
  }

  /** A transaction with this many operations starts. */
  started(nowMs: number, operations: number): void {
    this.#startedMs = nowMs;
    this.#recent.push({ atMs: nowMs, operations });
  }
}
