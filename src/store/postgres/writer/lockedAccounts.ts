import type { Clock } from "../../../lib/clock.ts";

/** `rows`: another transaction has the account or one of its keys. `others`: it has another row that a charge changes. */
export type Lock = "rows" | "others";

interface LockedAccount {
  lock: Lock;
  /** When it was found locked first and last, in monotonic time. */
  readonly sinceMs: number;
  lastMs: number;
  isTold: boolean;
  /** When its next try waits for the lock. */
  waitsAtMs: number;
  waitStepMs: number;
}

/** Operations of a locked account are tried again each 200 ms. One that was not found locked for this long is free. */
const FORGOTTEN_MS = 1000;
const TELL_MS = 2000;
const WAIT_STEP_MS_MIN = 500;
const WAIT_STEP_MS_MAX = 10_000;

/** The accounts that another transaction had locked at their last try. */
export class LockedAccounts {
  readonly #clock: Clock;
  readonly #onLocked: (accountId: number) => void;
  readonly #accounts = new Map<number, LockedAccount>();

  /** `onLocked` is called once when an account has been locked for two seconds. It must not throw. */
  constructor(clock: Clock, onLocked: (accountId: number) => void) {
    this.#clock = clock;
    this.#onLocked = onLocked;
  }

  get size(): number {
    return this.#accounts.size;
  }

  /** The locks on these accounts that are known now. */
  locksOf(accountIds: Iterable<number>): ReadonlyMap<number, Lock> {
    const locks = new Map<number, Lock>();
    for (const accountId of accountIds) {
      const account = this.#find(accountId);
      if (account !== undefined) locks.set(accountId, account.lock);
    }
    return locks;
  }

  found(accountId: number, lock: Lock): void {
    const nowMs = this.#clock.monotonicMs();
    const account = this.#find(accountId) ?? {
      lock,
      sinceMs: nowMs,
      lastMs: nowMs,
      isTold: false,
      waitsAtMs: nowMs + WAIT_STEP_MS_MIN,
      waitStepMs: WAIT_STEP_MS_MIN,
    };
    account.lock = lock;
    account.lastMs = nowMs;
    this.#accounts.set(accountId, account);
    if (account.isTold || nowMs - account.sinceMs < TELL_MS) return;
    account.isTold = true;
    this.#onLocked(accountId);
  }

  /** The account was written. `hasCharged`: with the end of a request, which needs all rows. */
  written(accountId: number, hasCharged: boolean): void {
    if (hasCharged || this.#accounts.get(accountId)?.lock === "rows")
      this.#accounts.delete(accountId);
  }

  /**
   * One of these accounts whose next try should wait for the lock. Other replicas wait in a queue, so one that only skips what
   * is locked might never find a busy account free. Undefined: none.
   */
  inTurn(accountIds: Iterable<number>): number | undefined {
    const nowMs = this.#clock.monotonicMs();
    for (const accountId of accountIds) {
      const account = this.#find(accountId);
      if (account?.lock !== "rows" || account.waitsAtMs > nowMs) continue;
      account.waitStepMs = Math.min(2 * account.waitStepMs, WAIT_STEP_MS_MAX);
      account.waitsAtMs = nowMs + account.waitStepMs;
      return accountId;
    }
    return undefined;
  }

  #find(accountId: number): LockedAccount | undefined {
    const account = this.#accounts.get(accountId);
    if (account === undefined) return undefined;
    if (this.#clock.monotonicMs() - account.lastMs <= FORGOTTEN_MS) return account;
    this.#accounts.delete(accountId);
    return undefined;
  }
}
