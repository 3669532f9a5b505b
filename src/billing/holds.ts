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

/** Money promised to one open request, in nano-roubles. */
export interface Hold {
  readonly amount: bigint;
  /** All that the account's open requests were promised when it was taken, itself included. */
  readonly promised: bigint;
  /** The request's end was asked of the writer: from now on the books may have it before we hear of it. */
  ending(): void;
  /** Gives the promise back; the second call of the same hold is a bug. */
  release(): void;
}

/** For whom money is held. */
export interface HoldOwner {
  readonly accountId: number;
  /** The key whose budget it is: the first one of a line of rotated keys. */
  readonly keyId: number;
  readonly requestId: string;
}

/** What the books say of the owner's money, read afresh each time. */
export interface FundsReader {
  funds(): Funds;
  /** The money, and which of these requests have ended, all of one moment. */
  fundsWithSettled(requestIds: readonly string[]): SettledFunds;
}

/** How long a request waits for its money. */
export interface HoldWait {
  readonly waitMs: number;
  /** Aborted when nobody waits any more: then nothing is held. */
  readonly signal: Pick<AbortSignal, "aborted">;
}

export interface Holds {
  /**
   * Holds as much of the range as the account and the key's budget can pay now. The books are read in the
   * same turn of the event loop: that makes reading and holding one step.
   */
  take(owner: HoldOwner, range: AmountRange, fundsReader: FundsReader): HoldResult;
  /**
   * The same, but what others hold is waited for, in the order of coming, where a small amount may pass a large one, and
   * one that just comes those that wait, by money that the books have and nobody has looked for yet.
   * Until then `fundsReader` may be asked at any time; rejects with what it throws.
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

/** Of an account's requests that are ending the books are asked about so many, the oldest. */
const ENDING_ASKED_MAX = 256;

/** How often the funds are read for requests that wait: other processes make credits and debits, and change budgets. */
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

/** A request that waits for its money. */
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

interface Promised {
  ofAccount: bigint;
  ofKey: bigint;
}

/** The open holds of a serving gateway, in memory: one thread decides, so no two promises share a rouble. */
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

/** What is promised to the open requests of one account, and who waits for it. */
class AccountHolds {
  held = 0n;
  readonly #heldByKey = new Map<number, bigint>();
  #openCount = 0;
  /** The holds whose end was asked for, oldest first. */
  readonly #ending = new Map<string, { keyId: number; amount: bigint }>();
  /** Longest first. */
  readonly #waiting = new Set<Waiter>();
  #poll: Timer | undefined;
  readonly #idle: () => void;

  /** `idle` is told whenever there is nothing left to remember. */
  constructor(idle: () => void) {
    this.#idle = idle;
  }

  take(owner: HoldOwner, range: AmountRange, fundsReader: FundsReader): AccountHoldResult {
    assert(0n <= range.least && range.least <= range.most, "a negative hold");
    try {
      const decision = decideBy(this, owner.keyId, range, fundsReader);
      return decision.ok ? { ok: true, hold: this.#open(owner, decision.amount) } : decision;
    } finally {
      this.#forgetIfIdle();
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
      const timer = setTimeout(() => this.#look(waiter) && this.#giveUp(waiter), waitMs);
      const waiter: Waiter = { owner, range, fundsReader, signal, timer, busy, resolve, reject };
      this.#waiting.add(waiter);
      this.#poll ??= setInterval(() => this.#serve({ readBudgets: true }), POLL_MS);
    });
  }

  /**
   * Decides again for those that wait, in the order of coming. The funds are read once for each request that leaves,
   * and once more to see that the others must wait. With `readBudgets` they are also read once for each waiting key
   * with a budget, because a key's budget may be spent while the account has money.
   */
  #serve({ readBudgets } = { readBudgets: false }): void {
    let account: Busy | undefined;
    const keys = new Map<number, Busy>();
    for (const waiter of this.#waiting) {
      const { range, owner, signal } = waiter;
      const seen = readBudgets && waiter.busy.hasBudget ? keys.get(owner.keyId) : account;
      if (seen && mustWait(range, seen) && !signal.aborted) continue;
      const busy = this.#look(waiter);
      if (!busy) continue;
      account = busy;
      keys.set(owner.keyId, busy);
    }
  }

  /** Decides for one that waits. Returns the refusal if it must go on waiting. */
  #look(waiter: Waiter): Busy | undefined {
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
    this.#leave(waiter);
    return undefined;
  }

  #giveUp(waiter: Waiter): undefined {
    waiter.resolve(waiter.busy);
    this.#leave(waiter);
  }

  #leave(waiter: Waiter): void {
    clearTimeout(waiter.timer);
    this.#waiting.delete(waiter);
    if (this.#waiting.size > 0) return;
    clearInterval(this.#poll);
    this.#poll = undefined;
    this.#forgetIfIdle();
  }

  /** The requests that are ending, as many as the books are asked about. */
  get endingIds(): readonly string[] {
    return this.#ending.keys().take(ENDING_ASKED_MAX).toArray();
  }

  /**
   * What is promised to all but the requests that have ended in the books: their charges are already in the balance
   * that was read.
   */
  promised(keyId: number, settledIds: readonly string[]): Promised {
    const promised = { ofAccount: this.held, ofKey: this.#heldByKey.get(keyId) ?? 0n };
    for (const requestId of settledIds) {
      const hold = this.#ending.get(requestId);
      assert(hold !== undefined, "an end that nobody asked for");
      promised.ofAccount -= hold.amount;
      if (hold.keyId === keyId) promised.ofKey -= hold.amount;
    }
    return promised;
  }

  #open({ keyId, requestId }: HoldOwner, amount: bigint): Hold {
    this.#openCount += 1;
    this.#add(keyId, amount);
    let isOpen = true;
    return {
      amount,
      promised: this.held,
      ending: () => void this.#ending.set(requestId, { keyId, amount }),
      release: () => {
        assert(isOpen, "a hold is released twice");
        isOpen = false;
        this.#openCount -= 1;
        this.#ending.delete(requestId);
        this.#add(keyId, -amount);
        this.#serve();
        this.#forgetIfIdle();
      },
    };
  }

  #forgetIfIdle(): void {
    if (this.#openCount === 0 && this.#waiting.size === 0) this.#idle();
  }

  #add(keyId: number, amount: bigint): void {
    const ofKey = (this.#heldByKey.get(keyId) ?? 0n) + amount;
    assert(ofKey >= 0n, "less than nothing is held");
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
  const quick = decide(range, fundsReader.funds(), account.promised(keyId, []));
  if (quick.ok && quick.amount === range.most) return quick;
  const { endingIds } = account;
  if (endingIds.length === 0) return quick;
  // A charge may be committed while its hold still stands here: it must not count twice.
  const funds = fundsReader.fundsWithSettled(endingIds);
  return decide(range, funds, account.promised(keyId, funds.settledIds));
}

function decide(range: AmountRange, funds: Funds, promised: Promised): Decision {
  const { least: required } = range;
  const spendable = funds.balance + funds.overdraft;
  const free = spendable - promised.ofAccount;
  const left = leftOfBudget(funds, promised);
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

/** A provider's figure beyond its hold may have passed the budget: nothing is left then, which still pays for what is free. */
function leftOfBudget({ budget, spent }: Funds, { ofKey }: Promised): bigint | undefined {
  if (budget === null) return undefined;
  const left = budget - spent - ofKey;
  return left > 0n ? left : 0n;
}

/** The largest amount of the range that so much money pays; its least is known to fit. */
function mostOf({ most, least, step }: AmountRange, money: bigint): bigint {
  return most <= money ? most : least + ((money - least) / step) * step;
}
