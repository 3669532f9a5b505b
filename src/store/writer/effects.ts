import type { WireAmount } from "./requestRecord.ts";

/** What an account should have reserved after a group, in nano-roubles. It gets less if it cannot pay that. */
export interface ReserveTarget {
  readonly accountId: number;
  readonly reserved: WireAmount;
  /** PostgreSQL only: the chains with a budget, and what this replica wants reserved of each budget. */
  readonly chains?: readonly ChainTarget[];
}

/** What a replica wants reserved of the budget of a rotation chain. It gets less if others leave less. */
export interface ChainTarget {
  readonly firstKeyId: number;
  readonly reserved: WireAmount;
}

/** The money of an account after a group. */
export interface AccountEffect {
  readonly accountId: number;
  /** The number of the last row of the account's history. */
  readonly seq: number;
  readonly balance: WireAmount;
  readonly overdraft: WireAmount;
  /** On PostgreSQL the block of this replica alone. */
  readonly reserved: WireAmount;
  /** PostgreSQL only: what all other replicas have reserved. */
  readonly others?: WireAmount;
}

/** What a rotation chain has spent after a group. */
export interface ChainEffect {
  readonly accountId: number;
  readonly firstKeyId: number;
  readonly spent: WireAmount;
  /** PostgreSQL only: the budget, null if there is none; and the blocks of it, of this replica and of all others. */
  readonly budget?: WireAmount | null;
  readonly reserved?: WireAmount;
  readonly others?: WireAmount;
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
