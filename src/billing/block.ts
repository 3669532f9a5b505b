import { greaterOf, lesserOf } from "../lib/money.ts";

/** The largest amount that the database can store. */
const AMOUNT_MAX = 2n ** 63n - 1n;

/** A reserve is raised to this multiple of what is held, and lowered from that multiple. */
const RESERVE_FACTOR = 2n;
const RESERVE_FACTOR_MAX = 4n;

/** How a block is planned. */
export interface BlockPlan {
  /** What waiting requests need besides what is held, in nano-roubles. */
  readonly waiting: bigint;
  /** Nothing more than what is held and needed is reserved. */
  readonly isExact: boolean;
  /** Nothing more than what is needed is asked for. What is reserved already may stay. */
  readonly isShort: boolean;
}

/**
 * The money that this replica has reserved of one account, or of the budget of one rotation chain, and what its requests
 * hold of it. Amounts are nano-roubles.
 */
export class Block {
  /** The sum of all holds. */
  held = 0n;
  /** What the database has reserved for this replica. */
  reserved = 0n;
  /** In the batch that the writer has: the holds of ending requests, and their charges. */
  ending = 0n;
  charging = 0n;
  /** The largest `held` since the last sweep. */
  #peak = 0n;
  /** The part that holds may use. It is less than `reserved` while a batch lowers the block. */
  #usable = 0n;
  /** The block that was asked for with the batch that the writer has. */
  #target: bigint | undefined;

  /** What a new hold can have without a round trip; 0 or more. */
  get free(): bigint {
    return greaterOf(this.#usable - this.held, 0n);
  }

  add(amount: bigint): void {
    this.held += amount;
    this.#peak = greaterOf(this.#peak, this.held);
  }

  forgetPeak(): void {
    this.#peak = this.held;
  }

  /** Decides the block after the next batch. Returns undefined if nothing but the charges changes it. */
  plan({ waiting, isExact, isShort }: BlockPlan): bigint | undefined {
    const after = greaterOf(this.reserved - this.charging, 0n);
    const needed = this.held - this.ending + waiting;
    const rounded = roundedReserve(greaterOf(needed, this.#peak), after);
    const most = isShort ? greaterOf(needed, after) : AMOUNT_MAX;
    const target = lesserOf(isExact ? needed : rounded, lesserOf(most, AMOUNT_MAX));
    this.#target = target;
    this.#usable = lesserOf(this.reserved, target + this.ending);
    return target === after ? undefined : target;
  }

  /** The batch has ended, and its holds are released. Returns true if the block is smaller than it was planned. */
  batchEnded(): boolean {
    const isShort = this.#target !== undefined && this.reserved < this.#target;
    this.ending = 0n;
    this.charging = 0n;
    this.#target = undefined;
    this.#usable = this.reserved;
    return isShort;
  }
}

/**
 * The reserve for holds of `needed`: `after`, what is reserved already, if that is enough and not far too much; else a
 * multiple of what is needed.
 */
function roundedReserve(needed: bigint, after: bigint): bigint {
  return needed <= after && after <= RESERVE_FACTOR_MAX * needed ? after : RESERVE_FACTOR * needed;
}
