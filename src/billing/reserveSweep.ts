import type { Clock } from "../lib/clock.ts";

/** An account with a reserve. */
interface SweptAccount {
  readonly hasReserve: boolean;
  /** More is reserved than is held. */
  readonly hasFree: boolean;
  /** When a hold was taken last, in monotonic time. */
  readonly takenAtMs: number;
  /** The reserve may be lowered to what is held. */
  isIdle: boolean;
  /** What is held counts as the most that was held lately. */
  forgetPeak(): void;
}

/** How often the reserves are looked at, and after which idle time a reserve is lowered to what is held. */
const SWEEP_EVERY_MS = 500;
const RESERVE_IDLE_MS = 1000;

/** Lowers the reserves of accounts without new holds, so that others can use the money. */
export class ReserveSweep<Account extends SweptAccount> {
  /** Accounts with a reserve. */
  readonly #accounts = new Set<Account>();
  readonly #clock: Clock;
  readonly #lower: (account: Account) => void;
  #timer: Timer | undefined;

  /** `lower` is called for each account that has become idle. */
  constructor(clock: Clock, lower: (account: Account) => void) {
    this.#clock = clock;
    this.#lower = lower;
  }

  add(account: Account): void {
    this.#accounts.add(account);
    this.#timer ??= setTimeout(() => this.#sweep(), SWEEP_EVERY_MS).unref();
  }

  /** Sets all accounts idle, and returns them. It sweeps no more. */
  stop(): ReadonlySet<Account> {
    clearTimeout(this.#timer);
    for (const account of this.#accounts) account.isIdle = true;
    return this.#accounts;
  }

  /** Forgets all accounts. */
  clear(): void {
    this.#accounts.clear();
  }

  #sweep(): void {
    this.#timer = undefined;
    const idleSinceMs = this.#clock.monotonicMs() - RESERVE_IDLE_MS;
    for (const account of this.#accounts) {
      account.forgetPeak();
      if (account.takenAtMs > idleSinceMs) continue;
      if (account.hasFree) {
        account.isIdle = true;
        this.#lower(account);
      } else if (!account.hasReserve) this.#accounts.delete(account);
    }
    if (this.#accounts.size > 0)
      this.#timer = setTimeout(() => this.#sweep(), SWEEP_EVERY_MS).unref();
  }
}
