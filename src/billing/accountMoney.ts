import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { greaterOf, lesserOf } from "../lib/money.ts";
import type { SqliteStore } from "../store/open.ts";
import { WriteError, type AccountEffect, type ChainEffect } from "../store/store.ts";
import { roundedReserve } from "./block.ts";
import { mostOf, type AmountRange } from "./cost.ts";
import type { Hold, HoldOwner, HoldRefusal, HoldResult, HoldWait } from "./hold.ts";

/** How often waiting requests are decided again, in milliseconds. Commands may change balance or budget meanwhile. */
const POLL_MS = 100;

/** A refusal as `busy`, with what decides whether others must go on waiting too. */
interface Busy extends HoldRefusal {
  readonly reason: "busy";
  /** A request that requires more than this is `insufficient`. */
  readonly requiredMax: bigint;
  readonly hasBudget: boolean;
}

type Insufficient = HoldRefusal & { readonly reason: "insufficient" };

type Decision = { ok: true; amount: bigint } | Busy | Insufficient;

/** What a key can use of its account now, in nano-roubles. */
interface Payable {
  /** The account's money that no request holds. */
  readonly free: bigint;
  /** Undefined if the key has no budget. */
  readonly left: bigint | undefined;
  readonly payable: bigint;
}

/** A request that waits. */
interface Waiter {
  readonly owner: HoldOwner;
  readonly range: AmountRange;
  readonly signal: HoldWait["signal"];
  readonly timer: Timer;
  /** Its latest refusal. */
  busy: Busy;
  resolve(taken: HoldResult): void;
  reject(error: unknown): void;
}

/** The money of a rotation chain, in nano-roubles. */
interface Chain {
  readonly firstKeyId: number;
  budget: bigint | null;
  spent: bigint;
  held: bigint;
  /** The change counter when the chain was read; -1: it must be read again. */
  readAt: number;
}

interface AccountMoneyOptions {
  readonly store: Pick<SqliteStore, "funds" | "changes">;
  readonly clock: Clock;
  /** Throws if no request may be admitted now. */
  refuse(): void;
  /** A hold waits for a larger reserve. */
  onUnsecured(): void;
  /** The holds of this account in the batch that the writer has. */
  endingHolds(): readonly HeldMoney[];
}

/** The money of one account in memory: what it has, what is reserved, what open requests hold, and who waits. */
export class AccountMoney {
  readonly id: number;
  /** The sum of all holds, in nano-roubles. */
  held = 0n;
  /** The largest `held` since the last sweep. */
  peak = 0n;
  /** What the database has reserved for this account. */
  reserved = 0n;
  /** In the batch that the writer has: the holds of ending requests, and their charges. */
  ending = 0n;
  charging = 0n;
  /** The reserve may be lowered to what is held. */
  isIdle = false;
  /** When a hold was taken last, in monotonic time. */
  takenAtMs = 0;
  readonly #options: AccountMoneyOptions;
  #balance = 0n;
  #overdraft = 0n;
  #seq = -1;
  /** The change counter when the account was read. */
  #readAt = -1;
  /** The part of the reserve that secured holds may use. It is less than `reserved` while a batch lowers it. */
  #usable = 0n;
  /** The reserve after the batch that the writer has. */
  #target: bigint | undefined;
  /** The sum of the secured holds. */
  #secured = 0n;
  /** In the order of arrival. */
  readonly #unsecured = new Set<HeldMoney>();
  readonly #chains = new Map<number, Chain>();
  /** In the order of arrival. */
  readonly #waiting = new Set<Waiter>();
  #poll: Timer | undefined;

  constructor(id: number, options: AccountMoneyOptions) {
    this.id = id;
    this.#options = options;
  }

  get hasReserve(): boolean {
    return this.reserved > 0n;
  }

  get hasFree(): boolean {
    return this.reserved > this.held;
  }

  take(owner: HoldOwner, range: AmountRange): HoldResult {
    const decision = this.#decide(owner.keyId, range);
    return decision.ok ? { ok: true, hold: this.#open(owner, decision.amount) } : decision;
  }

  takeOrWait(
    holdWait: HoldWait,
    owner: HoldOwner,
    range: AmountRange,
  ): HoldResult | Promise<HoldResult> {
    const decision = this.#decide(owner.keyId, range);
    if (decision.ok) return { ok: true, hold: this.#open(owner, decision.amount) };
    return decision.reason === "busy" ? this.#wait(holdWait, owner, range, decision) : decision;
  }

  /** Holds up to `extra` for a request that holds money already. Undefined if no money is free. */
  takeMore(owner: HoldOwner, extra: bigint): Hold | undefined {
    this.#refresh();
    const free = this.#balance + this.#overdraft - this.held;
    const amount = lesserOf(extra, free);
    return amount > 0n ? this.#open(owner, amount) : undefined;
  }

  /**
   * Decides the reserve after the next batch: enough for all holds that stay, and for as much as was held lately. Returns
   * undefined if nothing but the charges changes it.
   */
  planReserve(): bigint | undefined {
    for (const hold of this.#unsecured) hold.isPlanned = true;
    const after = this.reserved - this.charging;
    const stays = this.held - this.ending;
    const payable = lesserOf(this.#wantedReserve(after, stays), this.#spendable() - this.charging);
    const secured = this.#secured - this.ending;
    // A command may have added money that is not read yet. The reserve never becomes less than the secured holds.
    const target = greaterOf(payable, secured);
    this.#target = target;
    this.#usable = lesserOf(this.reserved, target + this.ending);
    return target === after ? undefined : target;
  }

  #wantedReserve(after: bigint, stays: bigint): bigint {
    if (this.isIdle) return stays;
    return roundedReserve(greaterOf(stays, this.peak), after);
  }

  /** Takes the money of the account over from the writer. A lower number is older than what was read. */
  apply({ seq, balance, overdraft, reserved }: AccountEffect): void {
    this.reserved = BigInt(reserved);
    if (seq <= this.#seq) return;
    this.#seq = seq;
    this.#balance = BigInt(balance);
    this.#overdraft = BigInt(overdraft);
  }

  /** Takes the spending of a chain over from the writer. */
  applyChain({ firstKeyId, spent }: ChainEffect, accounts: readonly AccountEffect[]): void {
    const seq = accounts.find(({ accountId }) => accountId === this.id)?.seq ?? -1;
    const chain = this.#chains.get(firstKeyId);
    if (chain !== undefined && seq > this.#seq) chain.spent = BigInt(spent);
  }

  /** The batch has ended, and its holds are released. Secures what the reserve covers now. */
  batchEnded(failure: WriteError | undefined): void {
    // A request whose end was refused keeps its hold. The reserve was planned without it.
    const isPlanKept = this.ending === 0n;
    this.ending = 0n;
    this.charging = 0n;
    this.#target = undefined;
    this.#usable = this.reserved;
    for (const hold of this.#unsecured) {
      if (this.#secured + hold.amount <= this.#usable) this.#secure(hold);
      else if (hold.isPlanned && (isPlanKept || failure !== undefined)) {
        this.#unsecured.delete(hold);
        hold.fail(failure ?? new WriteError("insufficient", "a command took the money first"));
      }
    }
    assert(this.#secured <= this.reserved, "more is held than reserved");
  }

  /**
   * Decides again for the waiting requests, in the order of arrival. With `eachBudget` it decides once for each key with a
   * budget too, because a budget may be spent while the account has money.
   */
  decideAgain({ eachBudget } = { eachBudget: false }): void {
    let account: Busy | undefined;
    const keys = new Map<number, Busy>();
    for (const waiter of this.#waiting) {
      const { range, owner, signal } = waiter;
      const seen = eachBudget && waiter.busy.hasBudget ? keys.get(owner.keyId) : account;
      if (seen && mustWait(range, seen) && !signal.aborted) continue;
      const busy = this.#decideFor(waiter);
      if (!busy) continue;
      account = busy;
      keys.set(owner.keyId, busy);
    }
  }

  /** Removes a hold. Called by the hold, once. */
  remove(hold: HeldMoney, chain: Chain): void {
    this.held -= hold.amount;
    chain.held -= hold.amount;
    assert(this.held >= 0n && chain.held >= 0n, "a negative sum of holds");
    if (hold.isSecured) this.#secured -= hold.amount;
    else this.#unsecured.delete(hold);
  }

  /** Some holds wait for a larger reserve. */
  get hasUnsecured(): boolean {
    return this.#unsecured.size > 0;
  }

  forgetPeak(): void {
    this.peak = this.held;
  }

  #spendable(): bigint {
    return this.#balance + this.#overdraft;
  }

  #wait(
    { waitMs, signal }: HoldWait,
    owner: HoldOwner,
    range: AmountRange,
    busy: Busy,
  ): Promise<HoldResult> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#decideFor(waiter) && this.#giveUp(waiter), waitMs);
      const waiter: Waiter = { owner, range, signal, timer, busy, resolve, reject };
      this.#waiting.add(waiter);
      this.#poll ??= setInterval(() => this.decideAgain({ eachBudget: true }), POLL_MS);
    });
  }

  /** Decides for one waiting request. Returns the refusal if it must go on waiting. */
  #decideFor(waiter: Waiter): Busy | undefined {
    const { owner, range, signal } = waiter;
    if (signal.aborted) return this.#giveUp(waiter);
    try {
      const decision = this.#decide(owner.keyId, range);
      if (!decision.ok && decision.reason === "busy") return (waiter.busy = decision);
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
  }

  #open(owner: HoldOwner, amount: bigint): HeldMoney {
    const chain = this.#chain(owner.keyId);
    const hold = new HeldMoney(this, chain, owner, amount);
    this.held += amount;
    chain.held += amount;
    if (this.held > this.peak) this.peak = this.held;
    this.isIdle = false;
    this.takenAtMs = this.#options.clock.monotonicMs();
    if (this.#unsecured.size === 0 && this.#secured + amount <= this.#usable) this.#secure(hold);
    else {
      this.#unsecured.add(hold);
      this.#options.onUnsecured();
    }
    return hold;
  }

  #secure(hold: HeldMoney): void {
    this.#unsecured.delete(hold);
    this.#secured += hold.amount;
    hold.secure();
  }

  #decide(keyId: number, range: AmountRange): Decision {
    assert(0n <= range.least && range.least <= range.most, "a negative hold");
    this.#options.refuse();
    const money = this.#payable(keyId);
    const { least: required } = range;
    const refusal = this.#insufficient(money, required);
    if (refusal) return refusal;
    const { free, left, payable } = money;
    if (required <= free) return { ok: true, amount: mostOf(range, payable) };
    const requiredMax = this.#requiredMax(left);
    const available = greaterOf(payable, 0n);
    const hasBudget = left !== undefined;
    return { ok: false, reason: "busy", required, available, requiredMax, hasBudget };
  }

  /** The refusal of what the account cannot pay even when all its open requests turn out to be free. */
  refusalOf(keyId: number, required: bigint): Insufficient | undefined {
    return this.#insufficient(this.#payable(keyId), required);
  }

  #payable(keyId: number): Payable {
    this.#refresh();
    const free = this.#spendable() - this.held;
    const left = leftOfBudget(this.#chain(keyId));
    return { free, left, payable: left === undefined ? free : lesserOf(free, left) };
  }

  #insufficient({ left, payable }: Payable, required: bigint): Insufficient | undefined {
    if (required <= this.#requiredMax(left)) return undefined;
    return { ok: false, reason: "insufficient", required, available: greaterOf(payable, 0n) };
  }

  /** A request that requires more than this cannot be paid, whatever becomes of the others. */
  #requiredMax(left: bigint | undefined): bigint {
    const spendable = this.#spendable();
    return left === undefined ? spendable : lesserOf(spendable, left);
  }

  /** Reads the account again if another process has changed something. */
  #refresh(): void {
    const now = this.#options.store.changes.current();
    if (now === this.#readAt) return;
    const { funds } = this.#options.store;
    const ending = this.#options.endingHolds();
    funds.inSnapshot(() => {
      const { balance, overdraft, seq } = funds.account(this.id);
      this.#balance = balance;
      this.#overdraft = overdraft;
      this.#seq = seq;
      this.#readAt = now;
      for (const chain of this.#chains.values()) {
        if (chain.held > 0n) this.#readChain(chain);
        else chain.readAt = -1;
      }
      // The writer may have committed the charge of a hold before its reply is here. It must not count twice.
      const ended = new Set(
        ending.length === 0 ? [] : funds.ended(ending.map(({ requestId }) => requestId)),
      );
      for (const hold of ending) {
        if (!ended.has(hold.requestId) || !hold.end()) continue;
        // The charge is not known here. It is at most the hold.
        const usable = this.#usable - hold.amount;
        this.#usable = lesserOf(usable, (this.#target ?? 0n) + this.ending);
      }
    });
  }

  #chain(firstKeyId: number): Chain {
    const known = this.#chains.get(firstKeyId);
    if (known?.readAt === this.#readAt) return known;
    const chain = known ?? { firstKeyId, budget: null, spent: 0n, held: 0n, readAt: -1 };
    this.#chains.set(firstKeyId, chain);
    this.#readChain(chain);
    return chain;
  }

  #readChain(chain: Chain): void {
    const { budget, spent } = this.#options.store.funds.chain(chain.firstKeyId);
    chain.budget = budget;
    chain.spent = spent;
    chain.readAt = this.#readAt;
  }
}

/** One hold. */
export class HeldMoney implements Hold {
  readonly account: AccountMoney;
  readonly amount: bigint;
  isSecured = false;
  /** A batch that raises the reserve for it was sent. */
  isPlanned = false;
  readonly #chain: Chain;
  readonly #owner: HoldOwner;
  #isOpen = true;
  /** Set once `secured` was read, or the hold failed. */
  #waiting: PromiseWithResolvers<void> | undefined;

  constructor(account: AccountMoney, chain: Chain, owner: HoldOwner, amount: bigint) {
    this.account = account;
    this.amount = amount;
    this.#chain = chain;
    this.#owner = owner;
  }

  get requestId(): string {
    return this.#owner.requestId;
  }

  get secured(): Promise<void> | undefined {
    if (this.isSecured) return undefined;
    this.#waiting ??= Promise.withResolvers();
    return this.#waiting.promise;
  }

  extend(extra: bigint): Hold | undefined {
    return this.account.takeMore(this.#owner, extra);
  }

  release(): void {
    assert(this.#isOpen, "a hold is released twice");
    this.drop();
    this.account.decideAgain();
  }

  /** Releases the hold without a decision for others. Returns false if it was released before. */
  drop(): boolean {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    this.account.remove(this, this.#chain);
    return true;
  }

  /** Drops the hold of a request whose end is committed, in the batch that the writer has. */
  end(): boolean {
    if (!this.drop()) return false;
    this.account.ending -= this.amount;
    return true;
  }

  secure(): void {
    this.isSecured = true;
    this.#waiting?.resolve();
  }

  fail(failure: WriteError): void {
    this.#waiting ??= Promise.withResolvers();
    // Somebody may ask later, or only look whether there is a promise.
    this.#waiting.promise.catch(() => undefined);
    this.#waiting.reject(failure);
  }
}

/** Whether a request of this range would be refused as `busy`, too. */
function mustWait({ least }: AmountRange, { available, requiredMax }: Busy): boolean {
  return available < least && least <= requiredMax;
}

/** A charge above its hold may have exceeded the budget. Then 0 is left, which still allows free requests. */
function leftOfBudget({ budget, spent, held }: Chain): bigint | undefined {
  if (budget === null) return undefined;
  const left = budget - spent - held;
  return left > 0n ? left : 0n;
}
