import type { WireAmount } from "./requestRecord.ts";

/** What an account should have reserved after a group, in nano-roubles. It gets less if it cannot pay that. */
export interface ReserveTarget {
  readonly accountId: number;
  readonly reserved: WireAmount;
  /** The chains whose blocks of a budget change. */
  readonly chains?: readonly ChainTarget[];
}

/** What should be reserved of the budget of a rotation chain. It gets less if spending and others leave less. */
export interface ChainTarget {
  readonly firstKeyId: number;
  readonly reserved: WireAmount;
}

/** The money of an account after a group. */
export interface AccountEffect {
  readonly accountId: number;
  readonly balance: WireAmount;
  readonly overdraft: WireAmount;
  /** The block of this replica. */
  readonly reserved: WireAmount;
  /** What all other replicas have reserved. */
  readonly others: WireAmount;
}

/** The budget of a rotation chain after a group. */
export interface ChainEffect {
  readonly accountId: number;
  readonly firstKeyId: number;
  readonly spent: WireAmount;
  /** Null if there is none. */
  readonly budget: WireAmount | null;
  /** The blocks of the budget: of this replica, and of all others. */
  readonly reserved: WireAmount;
  readonly others: WireAmount;
}

/** What a group changed. */
export interface GroupEffect {
  readonly accounts: readonly AccountEffect[];
  readonly chains: readonly ChainEffect[];
}

/** A charge is larger than what its account has reserved. */
export class InsufficientFunds extends Error {
  override readonly name = "InsufficientFunds";
}
