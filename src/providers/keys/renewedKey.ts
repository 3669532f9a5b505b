import { Deadline, type Deadlines } from "../../lib/clock.ts";
import { KeyError, type IssuedKey } from "./issuedKey.ts";

/** Gets a key. Rejects with KeyError, also when the signal aborts. */
export type IssueKey = (signal: AbortSignal) => Promise<IssuedKey>;

export interface KeyFailure {
  readonly problem: string;
  /** An earlier key is still valid. */
  readonly hasKey: boolean;
  readonly retryMs: number;
}

/** A key is renewed this long before its end, or when a fifth of its life is left. */
const EARLY_MS_MAX = 300_000;
const EARLY_SHARE = 0.2;
/** The shortest time between two keys. */
const RENEW_MS_MIN = 1000;
/** The pause after a failure. Each further one doubles it, up to the maximum. */
const PAUSE_MS = 2000;
const PAUSE_MS_MAX = 60_000;
/** A key that is refused so soon is not renewed: the account is refused, not the key's age. */
const FRESH_MS = 10_000;

/**
 * The key of a provider that expires: it is kept, and renewed before its end. After a failure the earlier one is used while it
 * is valid.
 */
export class RenewedKey {
  readonly #issue: IssueKey;
  readonly #lifetimeMs: number;
  readonly #deadlines: Deadlines;
  readonly #onFailure: (failure: KeyFailure) => void;
  readonly #due: Deadline;
  readonly #closing = new AbortController();
  #key: string | undefined;
  #issuedAtMs = 0;
  #validUntilMs = 0;
  #running: Promise<void> | undefined;
  /** Failures since the last key. */
  #failures = 0;
  /** Why the last try failed. Undefined after a key. */
  problem: string | undefined;

  /** `onFailure` is called after each failure. `lifetimeMs`: for a key whose issuer does not name its end. The first key is got by `ready`. */
  constructor(
    issue: IssueKey,
    lifetimeMs: number,
    deadlines: Deadlines,
    onFailure: (failure: KeyFailure) => void = () => {},
  ) {
    this.#issue = issue;
    this.#lifetimeMs = lifetimeMs;
    this.#deadlines = deadlines;
    this.#onFailure = onFailure;
    this.#due = new Deadline(deadlines, () => void this.#renew());
  }

  /** Undefined if there is none that is valid. */
  get key(): string | undefined {
    return this.#nowMs < this.#validUntilMs ? this.#key : undefined;
  }

  /** There is no valid key, and the last try has failed. */
  get isMissing(): boolean {
    return this.#failures > 0 && this.key === undefined;
  }

  /** Resolves once a key was got, or could not be got. Undefined if there is one, or if the last try has failed. */
  ready(): Promise<void> | undefined {
    return this.key !== undefined || this.#failures > 0 ? undefined : this.#renew();
  }

  /** Milliseconds until a request is worth a try; 0: now, or after `ready`. */
  waitMs(): number {
    if (!this.isMissing) return 0;
    return Math.max(this.#due.dueMs === Infinity ? 0 : this.#due.dueMs - this.#nowMs, RENEW_MS_MIN);
  }

  /** The provider refuses the key. True if another one is there or comes; false if the key is new. */
  refused(key: string | undefined): boolean {
    if (key !== this.#key) return true;
    if (this.#nowMs - this.#issuedAtMs < FRESH_MS) return false;
    this.#key = undefined;
    void this.#renew();
    return true;
  }

  /** Gets no further key. */
  close(): void {
    this.#due.clear();
    this.#closing.abort();
  }

  get #nowMs(): number {
    return this.#deadlines.clock.monotonicMs();
  }

  #renew(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#closing;
    if (signal.aborted) {
      this.#failures += 1;
      return;
    }
    this.#due.suspend();
    try {
      const { key, lifetimeMs = this.#lifetimeMs } = await this.#issue(signal);
      const nowMs = this.#nowMs;
      this.#key = key;
      this.#issuedAtMs = nowMs;
      this.#validUntilMs = nowMs + lifetimeMs;
      this.#failures = 0;
      this.problem = undefined;
      const earlyMs = Math.min(EARLY_MS_MAX, lifetimeMs * EARLY_SHARE);
      if (!signal.aborted) this.#due.set(Math.max(lifetimeMs - earlyMs, RENEW_MS_MIN));
    } catch (error) {
      if (signal.aborted) return;
      const problem = error instanceof KeyError ? error.message : "an error of the gateway";
      this.problem = problem;
      const retryMs = Math.min(PAUSE_MS * 2 ** this.#failures, PAUSE_MS_MAX);
      this.#failures += 1;
      this.#due.set(retryMs);
      this.#onFailure({ problem, hasKey: this.key !== undefined, retryMs });
    }
  }
}
