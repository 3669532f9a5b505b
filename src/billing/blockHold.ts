import { assert } from "../lib/assert.ts";
import type { WriteError } from "../store/store.ts";
import type { Block } from "./block.ts";
import type { Hold, HoldOwner } from "./hold.ts";

/** The budget of a rotation chain, by the newest answer. Amounts are nano-roubles. */
export interface ChainBlock {
  readonly money: Block;
  readonly firstKeyId: number;
  budget: bigint | null;
  spent: bigint;
  /** What other replicas have reserved of the budget. */
  others: bigint;
  /** The number of changes of the account that the newest answer contains; -1: there was no answer yet. */
  knownChanges: number;
}

/** The account that a hold is of. */
interface HoldingAccount {
  readonly id: number;
  readonly money: Block;
  /** Set when the lease is lost: the hold is void. */
  readonly lost: WriteError | undefined;
  takeMore(owner: HoldOwner, extra: bigint): Hold | undefined;
  add(chain: ChainBlock, amount: bigint): void;
  released(): void;
}

/** A hold from the block of a replica. It is secured from its beginning, unless it waits for a larger block. */
export class BlockHold implements Hold {
  readonly account: HoldingAccount;
  readonly chain: ChainBlock;
  amount: bigint;
  readonly #owner: HoldOwner;
  #isOpen = true;
  #waiting: PromiseWithResolvers<void> | undefined;

  constructor(account: HoldingAccount, chain: ChainBlock, owner: HoldOwner, amount: bigint) {
    this.account = account;
    this.chain = chain;
    this.amount = amount;
    this.#owner = owner;
  }

  get secured(): Promise<void> | undefined {
    const { lost } = this.account;
    if (lost && this.#isOpen) {
      this.#waiting ??= pending();
      this.#waiting.reject(lost);
    }
    return this.#waiting?.promise;
  }

  extend(extra: bigint): Hold | undefined {
    return this.account.takeMore(this.#owner, extra);
  }

  release(): void {
    assert(this.#isOpen, "a hold is released twice");
    this.#drop();
    this.account.released();
  }

  /** Drops the hold of a request whose end is committed, in the batch that the writer has. */
  end(): void {
    if (!this.#isOpen) return;
    this.#drop();
    this.account.money.ending -= this.amount;
    this.chain.money.ending -= this.amount;
  }

  /** The amount is not known yet: a larger block is asked for. */
  wait(): void {
    this.#waiting = pending();
  }

  /** The hold that waited gets this amount. */
  grow(amount: bigint): void {
    // A meter that gave up has released it.
    if (!this.#isOpen) return;
    this.amount = amount;
    this.account.add(this.chain, amount);
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }

  fail(failure: WriteError): void {
    this.#waiting?.reject(failure);
  }

  #drop(): void {
    this.#isOpen = false;
    this.account.money.held -= this.amount;
    this.chain.money.held -= this.amount;
    assert(this.account.money.held >= 0n && this.chain.money.held >= 0n, "a negative sum of holds");
  }
}

/** Nobody may ask for the result, so a rejection is not an error by itself. */
function pending(): PromiseWithResolvers<void> {
  const waiting = Promise.withResolvers<void>();
  waiting.promise.catch(() => undefined);
  return waiting;
}
