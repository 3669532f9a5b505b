import { assert } from "../lib/assert.ts";
import type { Funds, SettledFunds } from "../store/store.ts";
import type { AmountRange } from "./cost.ts";

/**
 * Why money could not be held. `insufficient`: it does not fit even when all other open requests of the account
 * turn out to be free. `busy`: it fits once enough of them have ended.
 */
export interface HoldRefusal {
  readonly ok: false;
  readonly reason: "insufficient" | "busy";
  /** The least that the request needs, in nano-roubles. */
  readonly required: bigint;
  /** What it could have had at the moment of the decision, in nano-roubles; 0 or more. */
  readonly available: bigint;
}

export type HoldResult = { ok: true; hold: Hold } | HoldRefusal;

/** Money that is set aside for one open request, in nano-roubles. */
export interface Hold {
  readonly amount: bigint;
  /** The sum of the account's holds when this one was taken, itself included. */
  readonly heldTotal: bigint;
  /** The settlement is queued. From now on the database may contain the charge before the hold is released. */
  startSettling(): void;
  /** Releases the hold. A second call is a bug and throws. */
  release(): void;
}

/** The request that money is held for. */
export interface HoldOwner {
  readonly accountId: number;
  /** The key with the budget: the first key of the rotation chain. */
  readonly keyId: number;
  readonly requestId: string;
}

/** Reads the owner's money from the database at each call. */
export interface FundsReader {
  funds(): Funds;
  /** The money, and which of these requests are settled, in one snapshot. */
  fundsWithSettled(requestIds: readonly string[]): SettledFunds;
}

/** How long a request waits for money that other requests hold. */
export interface HoldWait {
  readonly waitMs: number;
  /** Aborted when the client disconnects. Nothing is held then. */
  readonly signal: Pick<AbortSignal, "aborted">;
}

export interface Holds {
  /**
   * Holds as much of the range as the account and the key's budget can pay now. Reading the funds and adding the hold
   * happen in one turn of the event loop, so no two requests share money.
   */
  take(owner: HoldOwner, range: AmountRange, fundsReader: FundsReader): HoldResult;
  /**
   * Like `take`, but waits for money that other requests hold. Requests are served in the order of arrival. A request that
   * needs less may pass one that needs more, and a new request may pass those that wait if money has become free since they
   * were last checked. Rejects with what `fundsReader` throws.
   */
  takeOrWait(
    holdWait: HoldWait,
    owner: HoldOwner,
    range: AmountRange,
    fundsReader: FundsReader,
  ): Promise<HoldResult>;
  /** The sum of all open holds; 0 at rest. */
  total(): bigint;
}

/** At most this many settling requests are looked up in the database, the oldest first. */
const SETTLING_READ_MAX = 256;

/** How often the funds are read for waiting requests, in milliseconds. Commands may change balance or budget meanwhile. */
const POLL_MS = 100;

/** A refusal as `busy`, with what decides whether others must go on waiting too. */
interface Busy extends HoldRefusal {
  readonly reason: "busy";
  /** A request that requires more than this is `insufficient`. */
  readonly requiredMax: bigint;
  readonly hasBudget: boolean;
}

type Decision =
  | { ok: true; amount: bigint }
  | Busy
  | (HoldRefusal & { readonly reason: "insufficient" });

/** A request that waits. */
interface Waiter {
  readonly owner: HoldOwner;
  readonly range: AmountRange;
  readonly fundsReader: FundsReader;
  readonly signal: HoldWait["signal"];
  readonly timer: Timer;
  /** Its latest refusal. */
  busy: Busy;
  resolve(taken: HoldResult): void;
  reject(error: unknown): void;
}

type AccountHoldResult = Exclude<Decision, { ok: true }> | { ok: true; hold: Hold };

interface HeldAmounts {
  ofAccount: bigint;
  ofKey: bigint;
}

/** The holds of a serving gateway, in memory. One thread decides, so no two holds share money. */
export function createHolds(): Holds {
  const accounts = new Map<number, AccountHolds>();
  const holdsOf = (accountId: number): AccountHolds => {
    const known = accounts.get(accountId);
    if (known) return known;
    const made = new AccountHolds(() => accounts.delete(accountId));
    accounts.set(accountId, made);
    return made;
  };
  return {
    take: (owner, range, fundsReader) => holdsOf(owner.accountId).take(owner, range, fundsReader),
    async takeOrWait(holdWait, owner, range, fundsReader) {
      const now = holdsOf(owner.accountId).take(owner, range, fundsReader);
      if (!isBusy(now)) return now;
      return holdsOf(owner.accountId).wait(holdWait, owner, range, fundsReader, now);
    },
    total: () => accounts.values().reduce((sum, { held }) => sum + held, 0n),
  };
}

/** The holds and the waiting requests of one account. */
class AccountHolds {
  held = 0n;
  readonly #heldByKey = new Map<number, bigint>();
  #openCount = 0;
  /** Holds whose settlement is queued, oldest first. */
  readonly #settling = new Map<string, { keyId: number; amount: bigint }>();
  /** In the order of arrival. */
  readonly #waiting = new Set<Waiter>();
  #poll: Timer | undefined;
  readonly #onIdle: () => void;

  /** `onIdle` is called when the account has no holds and no waiting requests. */
  constructor(onIdle: () => void) {
    this.#onIdle = onIdle;
  }

  take(owner: HoldOwner, range: AmountRange, fundsReader: FundsReader): AccountHoldResult {
    assert(0n <= range.least && range.least <= range.most, "a negative hold");
    try {
      const decision = decideBy(this, owner.keyId, range, fundsReader);
      return decision.ok ? { ok: true, hold: this.#open(owner, decision.amount) } : decision;
    } finally {
      this.#notifyIfIdle();
    }
  }

  wait(
    { waitMs, signal }: HoldWait,
    owner: HoldOwner,
    range: AmountRange,
    fundsReader: FundsReader,
    busy: Busy,
  ): Promise<HoldResult> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#decideFor(waiter) && this.#giveUp(waiter), waitMs);
      const waiter: Waiter = { owner, range, fundsReader, signal, timer, busy, resolve, reject };
      this.#waiting.add(waiter);
      this.#poll ??= setInterval(() => this.#decideAgain({ readBudgets: true }), POLL_MS);
    });
  }

  /**
   * Decides again for the waiting requests, in the order of arrival. It reads the funds once for each request that stops
   * waiting, and once more for the rest. With `readBudgets` it also reads them once for each key with a budget, because a
   * budget may be spent while the account has money.
   */
  #decideAgain({ readBudgets } = { readBudgets: false }): void {
    let account: Busy | undefined;
    const keys = new Map<number, Busy>();
    for (const waiter of this.#waiting) {
      const { range, owner, signal } = waiter;
      const seen = readBudgets && waiter.busy.hasBudget ? keys.get(owner.keyId) : account;
      if (seen && mustWait(range, seen) && !signal.aborted) continue;
      const busy = this.#decideFor(waiter);
      if (!busy) continue;
      account = busy;
      keys.set(owner.keyId, busy);
    }
  }

  /** Decides for one waiting request. Returns the refusal if it must go on waiting. */
  #decideFor(waiter: Waiter): Busy | undefined {
    const { owner, range, fundsReader, signal } = waiter;
    if (signal.aborted) return this.#giveUp(waiter);
    try {
      const decision = decideBy(this, owner.keyId, range, fundsReader);
      if (isBusy(decision)) return (waiter.busy = decision);
      waiter.resolve(
        decision.ok ? { ok: true, hold: this.#open(owner, decision.amount) } : decision,
      );
    } catch (error) {
      waiter.reject(error);
    }
    this.#remove(waiter);
    return undefined;
  }

  #giveUp(waiter: Waiter): undefined {
    waiter.resolve(waiter.busy);
    this.#remove(waiter);
  }

  #remove(waiter: Waiter): void {
    clearTimeout(waiter.timer);
    this.#waiting.delete(waiter);
    if (this.#waiting.size > 0) return;
    clearInterval(this.#poll);
    this.#poll = undefined;
    this.#notifyIfIdle();
  }

  /** The oldest requests whose settlement is queued. */
  get settlingIds(): readonly string[] {
    return this.#settling.keys().take(SETTLING_READ_MAX).toArray();
  }

  /**
   * The money held, without the requests that are settled in the database: the balance that was read contains their
   * charges.
   */
  heldExcept(keyId: number, settledIds: readonly string[]): HeldAmounts {
    const amounts = { ofAccount: this.held, ofKey: this.#heldByKey.get(keyId) ?? 0n };
    for (const requestId of settledIds) {
      const hold = this.#settling.get(requestId);
      assert(hold !== undefined, "a settled request whose settlement was not queued");
      amounts.ofAccount -= hold.amount;
      if (hold.keyId === keyId) amounts.ofKey -= hold.amount;
    }
    return amounts;
  }

  #open({ keyId, requestId }: HoldOwner, amount: bigint): Hold {
    this.#openCount += 1;
    this.#add(keyId, amount);
    let isOpen = true;
    return {
      amount,
      heldTotal: this.held,
      startSettling: () => void this.#settling.set(requestId, { keyId, amount }),
      release: () => {
        assert(isOpen, "a hold is released twice");
        isOpen = false;
        this.#openCount -= 1;
        this.#settling.delete(requestId);
        this.#add(keyId, -amount);
        this.#decideAgain();
        this.#notifyIfIdle();
      },
    };
  }

  #notifyIfIdle(): void {
    if (this.#openCount === 0 && this.#waiting.size === 0) this.#onIdle();
  }

  #add(keyId: number, amount: bigint): void {
    const ofKey = (this.#heldByKey.get(keyId) ?? 0n) + amount;
    assert(ofKey >= 0n, "a negative sum of holds");
    this.held += amount;
    if (ofKey === 0n) this.#heldByKey.delete(keyId);
    else this.#heldByKey.set(keyId, ofKey);
  }
}

function decideBy(
  account: AccountHolds,
  keyId: number,
  range: AmountRange,
  fundsReader: FundsReader,
): Decision {
  const quick = decide(range, fundsReader.funds(), account.heldExcept(keyId, []));
  if (quick.ok && quick.amount === range.most) return quick;
  const { settlingIds } = account;
  if (settlingIds.length === 0) return quick;
  // A charge may be committed while its hold is not released yet. It must not count twice.
  const funds = fundsReader.fundsWithSettled(settlingIds);
  return decide(range, funds, account.heldExcept(keyId, funds.settledIds));
}

function decide(range: AmountRange, funds: Funds, held: HeldAmounts): Decision {
  const { least: required } = range;
  const spendable = funds.balance + funds.overdraft;
  const free = spendable - held.ofAccount;
  const left = leftOfBudget(funds, held);
  const payable = left === undefined ? free : lesserOf(free, left);
  const available = payable > 0n ? payable : 0n;
  const requiredMax = left === undefined ? spendable : lesserOf(spendable, left);
  if (required > requiredMax) return { ok: false, reason: "insufficient", required, available };
  if (required > free) {
    const hasBudget = left !== undefined;
    return { ok: false, reason: "busy", required, available, requiredMax, hasBudget };
  }
  return { ok: true, amount: mostOf(range, payable) };
}

/** Whether a request of this range would be refused as `busy`, too. */
function mustWait({ least }: AmountRange, { available, requiredMax }: Busy): boolean {
  return available < least && least <= requiredMax;
}

function isBusy(decision: AccountHoldResult | Decision): decision is Busy {
  return !decision.ok && decision.reason === "busy";
}

function lesserOf(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}

/** A charge above its hold may have exceeded the budget. Then 0 is left, which still allows free requests. */
function leftOfBudget({ budget, spent }: Funds, { ofKey }: HeldAmounts): bigint | undefined {
  if (budget === null) return undefined;
  const left = budget - spent - ofKey;
  return left > 0n ? left : 0n;
}

/** The largest amount of the range that `money` pays. The caller has checked that the least fits. */
function mostOf({ most, least, step }: AmountRange, money: bigint): bigint {
  return most <= money ? most : least + ((money - least) / step) * step;
}
