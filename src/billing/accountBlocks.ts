import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { greaterOf, lesserOf } from "../lib/money.ts";
import type { Random } from "../lib/random.ts";
import {
  amountToWire,
  isTemporary,
  WriteError,
  type AccountEffect,
  type ChainEffect,
  type ReserveTarget,
} from "../store/store.ts";
import { Block } from "./block.ts";
import { BlockHold, type ChainBlock } from "./blockHold.ts";
import { mostOf, type AmountRange } from "./cost.ts";
import type { Hold, HoldOwner, HoldRefusal, HoldResult, HoldWait } from "./hold.ts";

/**
 * How often waiting requests ask again, in milliseconds. Other replicas may have given money back meanwhile. It varies by
 * half, so that two replicas do not always ask at the same moment and each find what the other has not given back yet.
 */
const ASK_EVERY_MS = 100;
/**
 * How long nothing more than is needed is reserved after another replica needed money, and nothing more than is needed is
 * asked for after others left less.
 */
const SCARCE_MS = 1000;
/**
 * How long a request waits, at most, for what other replicas have reserved of its key's budget. They lower their blocks to
 * what is held as soon as they are told. What they have then is held by requests, and that counts like spent money.
 */
const BUDGET_WAIT_MS = 1000;
/** How long a request waits, at most, while the writer gets no answer: another transaction has the account, for example. */
const UNANSWERED_MS = 10_000;
/** The same once another transaction has had the account for UNANSWERED_MS. */
const STILL_LOCKED_MS = 1000;
/** A lock that was not found for this long is gone: ends are tried again each 200 ms. */
const LOCK_GONE_MS = 1000;
/** After this time of a lock no request starts without an answer: its end could not be written. */
const LOCKED_MS = 2000;
/**
 * How long an answer refuses requests whose bodies were not read, where replicas share the account. A change counts within a
 * second all the same.
 */
const BELIEVED_MS = 1000;

const LOCKED = new WriteError("locked", "another transaction has rows of the account");

/** A request that waits for an answer, or for money. */
interface Waiter {
  readonly owner: HoldOwner;
  readonly range: AmountRange;
  readonly chain: ChainBlock;
  readonly signal: HoldWait["signal"];
  /** More for a request that holds money already. It is never refused for a budget, or because the gateway stops. */
  readonly isExtension: boolean;
  readonly startedMs: number;
  readonly waitMs: number;
  readonly timer: Timer | undefined;
  /** The batch that the writer has asks for its money. */
  isPlanned: boolean;
  busy: HoldRefusal | undefined;
  hold(amount: bigint): void;
  refuse(refusal: HoldRefusal): void;
  reject(error: unknown): void;
}

interface AccountBlocksOptions {
  /** Set where nobody tells of changes by commands: see `Holds`. */
  readonly changes?: () => number;
  /** No other replica shares the account. */
  readonly isAlone: boolean;
  readonly clock: Clock;
  readonly random: Pick<Random, "fraction">;
  /** Throws if no request may be admitted now. */
  refuse(): void;
  /** The account must be planned with the next batch. */
  onDue(): void;
}

/** What this replica has reserved of one account and of the budgets of its keys, what requests hold, and who waits. */
export class AccountBlocks {
  readonly id: number;
  readonly money = new Block();
  /** The blocks may be lowered to what is held. */
  isIdle = false;
  /** When a hold was taken last, in monotonic time. */
  takenAtMs = 0;
  /** Set when the lease is lost: all holds are void. */
  lost: WriteError | undefined;
  readonly #options: AccountBlocksOptions;
  /** By the newest answer, with what other replicas have reserved. */
  #balance = 0n;
  #overdraft = 0n;
  #others = 0n;
  /** When that answer came, in monotonic time. */
  #answeredMs = -Infinity;
  /** When another transaction was found to have rows of the account, first and last, in monotonic time. */
  #lockedSinceMs = -Infinity;
  #lockedLastMs = -Infinity;
  /** Counts what commands have changed, as far as this replica was told; and the same when the batch was planned. */
  #changes = 0;
  #plannedChanges = 0;
  readonly #chains = new Map<number, ChainBlock>();
  /** The chains with a block, a hold or a request that waits. */
  readonly #active = new Set<ChainBlock>();
  /** In the order of arrival. */
  readonly #waiting = new Set<Waiter>();
  #poll: Timer | undefined;
  /** The next batch lowers the blocks to what is held, and asks for nothing. */
  #givesBack = false;
  #exactUntilMs = -Infinity;
  #shortUntilMs = -Infinity;

  constructor(id: number, options: AccountBlocksOptions) {
    this.id = id;
    this.#options = options;
  }

  get held(): bigint {
    return this.money.held;
  }

  get reserved(): bigint {
    return this.money.reserved;
  }

  get hasReserve(): boolean {
    return this.#isAnyBlock(({ reserved }) => reserved > 0n);
  }

  get hasFree(): boolean {
    return this.#isAnyBlock(({ reserved, held }) => reserved > held);
  }

  takeOrWait(
    holdWait: HoldWait,
    owner: HoldOwner,
    range: AmountRange,
  ): HoldResult | Promise<HoldResult> {
    assert(0n <= range.least && range.least <= range.most, "a negative hold");
    const chain = this.#chain(owner.keyId);
    if (this.#isCovered(chain, range))
      return { ok: true, hold: this.#open(owner, chain, range.most) };
    // A request that can never be paid reserves nothing, and needs no transaction.
    const refusal = this.#options.isAlone && this.refusalOf(owner.keyId, range.least);
    if (refusal) return refusal;
    return new Promise((resolve, reject) => {
      this.#wait({
        owner,
        range,
        chain,
        ...holdWait,
        isExtension: false,
        hold: (amount) => resolve({ ok: true, hold: this.#open(owner, chain, amount) }),
        refuse: resolve,
        reject,
      });
    });
  }

  /**
   * Holds up to `extra` for a request that holds money already: what the block has, else what a larger one has. Undefined
   * if the lease is lost.
   */
  takeMore(owner: HoldOwner, extra: bigint): Hold | undefined {
    if (this.lost) return undefined;
    const chain = this.#chain(owner.keyId);
    if (this.money.free >= extra) return this.#open(owner, chain, extra);
    const hold = new BlockHold(this, chain, owner, 0n);
    hold.wait();
    this.#wait({
      owner,
      range: { least: 1n, most: extra, step: 1n },
      chain,
      signal: { aborted: false },
      waitMs: 0,
      isExtension: true,
      hold: (amount) => hold.grow(amount),
      refuse: () => hold.fail(new WriteError("insufficient", "no money is free")),
      reject: (error) =>
        hold.fail(error instanceof WriteError ? error : new WriteError("refused", String(error))),
    });
    return hold;
  }

  /**
   * The refusal of what the account cannot pay even when all open requests turn out to be free, by the newest answer. An
   * older one, or one from before a change, says nothing: then the request itself asks.
   */
  refusalOf(keyId: number, required: bigint): HoldRefusal | undefined {
    const chain = this.#chains.get(keyId);
    if (chain?.knownChanges !== this.#changes || this.lost) return undefined;
    if (!this.#isAnswerBelieved()) return undefined;
    const spendable = this.#balance + this.#overdraft;
    const left = leftOfBudget(chain);
    const requiredMax = left === undefined ? spendable : lesserOf(spendable, left);
    if (required <= requiredMax) return undefined;
    const free = greaterOf(spendable - this.#others - this.money.held, 0n);
    const available = left === undefined ? free : lesserOf(free, besideOthers(left, chain));
    return { ok: false, reason: "insufficient", required, available };
  }

  /** An answer stays true where this process counts all changes, and no other replica charges the account. */
  #isAnswerBelieved(): boolean {
    if (this.#options.isAlone) return true;
    return this.#options.clock.monotonicMs() - this.#answeredMs <= BELIEVED_MS;
  }

  /** This replica has credited the account, outside of its blocks. */
  forgetAnswer(): void {
    this.#answeredMs = -Infinity;
  }

  /** Adds a hold that the block covers. */
  add(chain: ChainBlock, amount: bigint): void {
    this.money.add(amount);
    chain.money.add(amount);
    this.isIdle = false;
    this.takenAtMs = this.#options.clock.monotonicMs();
  }

  /**
   * A hold was released without a charge. Waiting requests are decided again: on SQLite by the next answer, because nobody has
   * told of changes yet.
   */
  released(): void {
    if (this.#options.changes === undefined)
      for (const waiter of this.#waiting) this.#serve(waiter);
    if (this.#waiting.size > 0) this.#options.onDue();
  }

  /** A command has changed the account or one of its keys. Later decisions about its budgets wait for a new answer. */
  changed(): void {
    this.#changes += 1;
    // The next batch asks for the budgets of open requests, too: there may be new ones.
    if (this.#active.size > 0) this.#options.onDue();
  }

  /** Another replica needs money that this one has reserved. */
  wanted(): void {
    this.#exactUntilMs = this.#options.clock.monotonicMs() + SCARCE_MS;
    this.#giveBack();
  }

  forgetPeak(): void {
    this.money.forgetPeak();
    for (const { money } of this.#active) money.forgetPeak();
  }

  /** Decides the blocks after the next batch. Returns undefined if nothing but the charges changes them. */
  plan(): ReserveTarget | undefined {
    const asking = this.#givesBack ? [] : [...this.#waiting];
    this.#givesBack = false;
    this.#plannedChanges = this.#changes;
    const nowMs = this.#options.clock.monotonicMs();
    const how = {
      isExact: this.isIdle || nowMs < this.#exactUntilMs,
      isShort: nowMs < this.#shortUntilMs,
    };
    let waiting = 0n;
    const waitingOf = new Map<ChainBlock, bigint>();
    for (const waiter of asking) {
      const { chain, range } = waiter;
      waiter.isPlanned = true;
      waiting += range.most;
      waitingOf.set(chain, (waitingOf.get(chain) ?? 0n) + range.most);
    }
    const reserved = this.money.plan({ waiting, ...how });
    const chains = [];
    for (const chain of this.#active) {
      const asked = waitingOf.get(chain);
      const mustAsk = asked !== undefined || chain.knownChanges !== this.#changes;
      // The block of a budget that was removed is given back.
      if (!mustAsk && chain.budget === null && chain.money.reserved === 0n) continue;
      const target = chain.money.plan({ waiting: asked ?? 0n, ...how });
      if (!mustAsk && target === undefined) continue;
      const after = target ?? greaterOf(chain.money.reserved - chain.money.charging, 0n);
      chains.push({ firstKeyId: chain.firstKeyId, reserved: amountToWire(after) });
    }
    if (reserved === undefined && chains.length === 0 && asking.length === 0) return undefined;
    const after = reserved ?? this.money.reserved - this.money.charging;
    return { accountId: this.id, reserved: amountToWire(after), chains };
  }

  /** Takes the money of the account over from the writer. Answers come in the order of the batches. */
  apply({ balance, overdraft, reserved, others }: AccountEffect): void {
    this.#balance = BigInt(balance);
    this.#overdraft = BigInt(overdraft);
    this.#others = BigInt(others);
    this.money.reserved = BigInt(reserved);
    this.#answeredMs = this.#options.clock.monotonicMs();
  }

  applyChain({ firstKeyId, spent, budget, reserved, others }: ChainEffect): void {
    const chain = this.#chain(firstKeyId);
    chain.spent = BigInt(spent);
    chain.budget = budget === null ? null : BigInt(budget);
    chain.others = BigInt(others);
    chain.money.reserved = BigInt(reserved);
    chain.knownChanges = this.#plannedChanges;
  }

  /** The end of a request was committed: no transaction has rows of the account. */
  charged(): void {
    this.#lockedLastMs = -Infinity;
  }

  /**
   * The batch has ended, and its holds are released. Decides for the requests that asked with it. After a temporary failure
   * they ask again.
   */
  batchEnded(failure: WriteError | undefined): void {
    let isShort = this.money.batchEnded() && this.#others > 0n;
    const waitingOf = new Set([...this.#waiting].map(({ chain }) => chain));
    for (const chain of this.#active) {
      const { money } = chain;
      const isChainShort = money.batchEnded() && chain.others > 0n;
      isShort ||= isChainShort;
      if (money.reserved === 0n && money.held === 0n && !waitingOf.has(chain))
        this.#active.delete(chain);
    }
    assert(this.money.held <= this.money.reserved, "more is held than reserved");
    const nowMs = this.#options.clock.monotonicMs();
    if (isShort && failure === undefined) this.#shortUntilMs = nowMs + SCARCE_MS;
    if (failure?.failure === "locked") {
      if (this.#lockedMs() === 0) this.#lockedSinceMs = nowMs;
      this.#lockedLastMs = nowMs;
    }
    // A reserve may be answered while the end of a request cannot be written.
    const unanswered =
      isTemporary(failure) || this.#lockedMs() > LOCKED_MS ? (failure ?? LOCKED) : undefined;
    const patienceMs = this.#lockedMs() > UNANSWERED_MS ? STILL_LOCKED_MS : UNANSWERED_MS;
    for (const waiter of this.#waiting) {
      const { isPlanned } = waiter;
      waiter.isPlanned = false;
      if (!isPlanned) this.#serve(waiter);
      else if (unanswered !== undefined) {
        if (nowMs - waiter.startedMs >= patienceMs) this.#remove(waiter).reject(unanswered);
      } else if (failure === undefined) this.#decide(waiter);
      else this.#remove(waiter).reject(failure);
    }
    // Two replicas that both keep what is too little for their requests would serve none of them.
    if (nowMs < this.#exactUntilMs && this.#isAnyBusy()) this.#giveBack();
  }

  /** The next batch cannot be sent. */
  failed(error: unknown): void {
    for (const waiter of this.#waiting) this.#remove(waiter).reject(error);
  }

  /** The lease is lost. Waiting requests are rejected, and holds are void. */
  lose(error: unknown): void {
    this.lost =
      error instanceof WriteError ? error : new WriteError("refused", "the lease is lost");
    this.failed(error ?? this.lost);
  }

  #isAnyBusy(): boolean {
    for (const { busy } of this.#waiting) if (busy) return true;
    return false;
  }

  #giveBack(): void {
    if (!this.hasFree) return;
    this.#givesBack = true;
    this.#options.onDue();
  }

  #isAnyBlock(is: (block: Block) => boolean): boolean {
    if (is(this.money)) return true;
    for (const { money } of this.#active) if (is(money)) return true;
    return false;
  }

  /**
   * The newest answer lets the blocks decide: they cover the most of the range, no command changed the budget, and charges
   * can be written.
   */
  #isCovered(chain: ChainBlock, { most }: AmountRange): boolean {
    if (chain.knownChanges !== this.#changes || this.#lockedMs() > LOCKED_MS) return false;
    return most <= this.#freeInBlocks(chain);
  }

  /** A block that was taken before its budget was lowered may be larger than what is left. */
  #freeInBlocks(chain: ChainBlock): bigint {
    const { free } = this.money;
    const left = leftOfBudget(chain);
    if (left === undefined) return free;
    return lesserOf(free, lesserOf(chain.money.free, besideOthers(left, chain)));
  }

  /** How long another transaction has had rows of the account, as far as known. */
  #lockedMs(): number {
    const nowMs = this.#options.clock.monotonicMs();
    return nowMs - this.#lockedLastMs > LOCK_GONE_MS ? 0 : nowMs - this.#lockedSinceMs;
  }

  #open(owner: HoldOwner, chain: ChainBlock, amount: bigint): BlockHold {
    this.add(chain, amount);
    return new BlockHold(this, chain, owner, amount);
  }

  #wait(request: Omit<Waiter, "startedMs" | "timer" | "isPlanned" | "busy">): void {
    // When the wait ends, one more answer decides.
    const timer =
      request.waitMs > 0 ? setTimeout(() => this.#options.onDue(), request.waitMs) : undefined;
    const startedMs = this.#options.clock.monotonicMs();
    this.#waiting.add({ ...request, startedMs, timer, isPlanned: false, busy: undefined });
    if (this.#poll === undefined) this.#askLater();
    this.#options.onDue();
  }

  #askLater(): void {
    const afterMs = ASK_EVERY_MS * (0.5 + this.#options.random.fraction());
    this.#poll = setTimeout(() => {
      this.#askLater();
      // A batch whose outcome is unknown may keep the next one waiting for as long as the server is away.
      for (const waiter of this.#waiting) this.#isRefused(waiter);
      this.#options.onDue();
    }, afterMs);
  }

  /** Serves one that waits if the blocks cover it. Else it waits for its first answer, or for the next time to ask. */
  #serve(waiter: Waiter): void {
    const { chain, range, isExtension } = waiter;
    const isCovered = isExtension ? range.most <= this.money.free : this.#isCovered(chain, range);
    if (isCovered) this.#settle(waiter, range.most);
    else if (!waiter.isPlanned && !waiter.busy) this.#options.onDue();
  }

  /** Decides by the numbers of an answer that was asked for after the request arrived. */
  #decide(waiter: Waiter): void {
    if (this.#isRefused(waiter)) return;
    const { chain, range, isExtension } = waiter;
    const { least: required, most } = range;
    const spendable = this.#balance + this.#overdraft;
    const free = greaterOf(spendable - this.#others - this.money.held, 0n);
    const left = isExtension ? undefined : leftOfBudget(chain);
    const leftNow = left === undefined ? undefined : besideOthers(left, chain);
    const available = leftNow === undefined ? free : lesserOf(free, leftNow);
    const inBlocks = isExtension ? this.money.free : this.#freeInBlocks(chain);
    const refusal = { ok: false, required, available } as const;
    if (required > spendable || (left !== undefined && required > left))
      this.#remove(waiter).refuse({ ...refusal, reason: "insufficient" });
    else if (leftNow !== undefined && required > leftNow)
      this.#refuseLater(waiter, { ...refusal, reason: "insufficient" }, BUDGET_WAIT_MS);
    else if (required > available) this.#refuseLater(waiter, { ...refusal, reason: "busy" });
    else if (inBlocks < lesserOf(most, available)) this.#options.onDue();
    else this.#settle(waiter, mostOf(range, inBlocks));
  }

  /** Refuses a request once its wait has ended. Until then it waits for what others hold. */
  #refuseLater(waiter: Waiter, refusal: HoldRefusal, withinMs = Infinity): void {
    waiter.busy = refusal;
    const waitedMs = this.#options.clock.monotonicMs() - waiter.startedMs;
    if (waitedMs >= Math.min(waiter.waitMs, withinMs)) this.#remove(waiter).refuse(refusal);
  }

  #settle(waiter: Waiter, amount: bigint): void {
    if (!this.#isRefused(waiter)) this.#remove(waiter).hold(amount);
  }

  /** Removes a request that may not hold money: its client has disconnected, or no request may be admitted now. */
  #isRefused(waiter: Waiter): boolean {
    if (waiter.isExtension) return false;
    const { least: required } = waiter.range;
    if (waiter.signal.aborted) {
      this.#remove(waiter).refuse({ ok: false, reason: "busy", required, available: 0n });
      return true;
    }
    try {
      this.#options.refuse();
      return false;
    } catch (error) {
      this.#remove(waiter).reject(error);
      return true;
    }
  }

  #remove(waiter: Waiter): Waiter {
    clearTimeout(waiter.timer);
    this.#waiting.delete(waiter);
    if (this.#waiting.size === 0) {
      clearTimeout(this.#poll);
      this.#poll = undefined;
    }
    return waiter;
  }

  #chain(firstKeyId: number): ChainBlock {
    let chain = this.#chains.get(firstKeyId);
    if (chain === undefined) {
      const numbers = { budget: null, spent: 0n, others: 0n, knownChanges: -1 };
      chain = { ...numbers, firstKeyId, money: new Block() };
      this.#chains.set(firstKeyId, chain);
    }
    this.#active.add(chain);
    return chain;
  }
}

/** What is left of a budget if other replicas hold nothing. A charge above its hold may have exceeded the budget. */
function leftOfBudget({ budget, spent, money }: ChainBlock): bigint | undefined {
  return budget === null ? undefined : greaterOf(budget - spent - money.held, 0n);
}

/** What is left beside the blocks of other replicas. */
function besideOthers(left: bigint, { others }: ChainBlock): bigint {
  return greaterOf(left - others, 0n);
}
