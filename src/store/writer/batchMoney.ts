import { assert } from "../../lib/assert.ts";
import { greaterOf, lesserOf } from "../../lib/money.ts";
import { isCharged } from "./dailyTotal.ts";
import {
  InsufficientFunds,
  type AccountEffect,
  type ChainEffect,
  type GroupEffect,
  type ReserveTarget,
} from "./effects.ts";
import { amountToWire, type WireAmount, type WireRecord, type WireRow } from "./requestRecord.ts";

/** An account as the transaction finds it, in nano-roubles. */
export interface AccountState {
  readonly balance: bigint;
  readonly overdraft: bigint;
  readonly ledgerSeq: bigint;
  /** The block of this replica. */
  readonly reserved: bigint;
  /** What all other replicas have reserved. */
  readonly others: bigint;
}

/** A rotation chain as the transaction finds it, in nano-roubles. */
export interface ChainState {
  readonly spent: bigint;
  /** Null if there is none. */
  readonly budget: bigint | null;
  /** The blocks of the budget: of this replica, and of all others. */
  readonly reserved: bigint;
  readonly others: bigint;
}

/** What a transaction finds, by id. What is not there is not in the maps. */
export interface MoneyState {
  readonly accounts: ReadonlyMap<number, AccountState>;
  readonly chains: ReadonlyMap<number, ChainState>;
}

/** An account after a batch. `isMoved`: charges moved its balance. `reserved`: by all gateways. */
interface PlannedAccount {
  readonly id: number;
  readonly balance: bigint;
  readonly ledgerSeq: bigint;
  readonly reserved: bigint;
  readonly isMoved: boolean;
}

/** What this replica has reserved. `keyId` is 0 for the block of an account, else the first key of a rotation chain. */
interface PlannedBlock {
  readonly accountId: number;
  readonly keyId: number;
  readonly amount: bigint;
}

/** What changes. */
interface Changes {
  readonly accounts: PlannedAccount[];
  /** What is charged to rotation chains, by first key. */
  readonly charged: { readonly id: number; readonly charged: bigint }[];
  readonly blocks: PlannedBlock[];
}

export interface PlannedMoney extends Readonly<Changes> {
  /** Accounts of which this replica wants money that others have reserved. */
  readonly wanted: ReadonlySet<number>;
  readonly effect: GroupEffect;
}

/** A row of `requests`. The last two are null for a request without a charge. */
export type PlannedRequest = WireRow & {
  readonly ledgerSeq: WireAmount | null;
  readonly balanceAfter: WireAmount | null;
};

/** An account while a batch moves it. */
interface Account {
  readonly id: number;
  readonly found: AccountState;
  balance: bigint;
  seq: bigint;
  reserved: bigint;
  isMoved: boolean;
}

/** A rotation chain while a batch charges it. */
interface Chain {
  readonly firstKeyId: number;
  readonly accountId: number;
  readonly found: ChainState;
  spent: bigint;
  reserved: bigint;
}

/** The money of accounts and rotation chains while a batch moves it, in nano-roubles. It writes nothing. */
export class BatchMoney {
  readonly #accounts = new Map<number, Account>();
  readonly #chains = new Map<number, Chain>();
  readonly #settled: ReadonlySet<number>;
  readonly #wanted = new Set<number>();

  /** `settled`: the accounts of requests and targets. `chains`: the accounts of the rotation chains, by first key. */
  constructor(
    state: MoneyState,
    settled: ReadonlySet<number>,
    chains: ReadonlyMap<number, number>,
  ) {
    for (const [id, found] of state.accounts) {
      const { balance, ledgerSeq: seq, reserved } = found;
      this.#accounts.set(id, { id, found, balance, seq, reserved, isMoved: false });
    }
    for (const [id, accountId] of chains) {
      const found = state.chains.get(id);
      if (found === undefined) continue;
      const { spent, reserved } = found;
      this.#chains.set(id, { firstKeyId: id, accountId, found, spent, reserved });
    }
    this.#settled = settled;
  }

  account(id: number): Account {
    const account = this.#accounts.get(id);
    assert(account !== undefined, "a request without an account");
    return account;
  }

  /** The row of a request, with its place in the history of its account. */
  charge({ row, firstKeyId }: WireRecord): PlannedRequest {
    if (!isCharged(row)) return { ...row, ledgerSeq: null, balanceAfter: null };
    const charge = BigInt(row.charge);
    const account = this.account(row.accountId);
    const chain = this.#chains.get(firstKeyId);
    assert(chain !== undefined, "a request without a key");
    assert(charge >= 0n, "a negative charge");
    if (charge > account.reserved)
      throw new InsufficientFunds("the account has not reserved the charge");
    account.isMoved = true;
    account.seq += 1n;
    account.balance -= charge;
    account.reserved -= charge;
    chain.spent += charge;
    // Charges spend the block first. A request may exceed its budget, so the block may be smaller than the charge.
    chain.reserved = greaterOf(chain.reserved - charge, 0n);
    const { seq, balance } = account;
    return { ...row, ledgerSeq: amountToWire(seq), balanceAfter: amountToWire(balance) };
  }

  /** Gives an account and its chains what they want reserved, or what they can pay. With `onlyRaise` nothing becomes lower. */
  reserve({ accountId, reserved, chains = [] }: ReserveTarget, onlyRaise: boolean): void {
    const account = this.account(accountId);
    const { overdraft, others } = account.found;
    const free = account.balance + overdraft - others;
    const target = BigInt(reserved);
    const payable = lesserOf(target, free);
    if (!onlyRaise || payable > account.reserved) account.reserved = payable;
    if (others > 0n && target > account.reserved) this.#wanted.add(accountId);
    for (const { firstKeyId, reserved: amount } of chains)
      this.#reserveBudget(firstKeyId, BigInt(amount), onlyRaise);
  }

  #reserveBudget(firstKeyId: number, target: bigint, onlyRaise: boolean): void {
    const chain = this.#chains.get(firstKeyId);
    assert(chain !== undefined, "a target without a key");
    const payable = lesserOf(target, mostOf(chain));
    if (!onlyRaise || payable > chain.reserved) chain.reserved = payable;
    const { budget, others } = chain.found;
    if (budget !== null && payable < target && others > 0n) this.#wanted.add(chain.accountId);
  }

  planned(): PlannedMoney {
    const planned = { accounts: [], charged: [], blocks: [] } as Changes;
    const effect = { accounts: [] as AccountEffect[], chains: [] as ChainEffect[] };
    for (const account of this.#accounts.values()) {
      const { id, balance, seq: ledgerSeq, reserved, isMoved, found } = account;
      if (!this.#settled.has(id)) continue;
      effect.accounts.push(accountEffect(account));
      const isReserveChanged = reserved !== found.reserved;
      if (isMoved || isReserveChanged)
        planned.accounts.push({
          id,
          balance,
          ledgerSeq,
          reserved: reserved + found.others,
          isMoved,
        });
      if (isReserveChanged) planned.blocks.push({ accountId: id, keyId: 0, amount: reserved });
    }
    for (const chain of this.#chains.values()) {
      const { firstKeyId, accountId, spent, reserved, found } = chain;
      effect.chains.push(chainEffect(chain));
      if (spent > found.spent)
        planned.charged.push({ id: firstKeyId, charged: spent - found.spent });
      if (reserved !== found.reserved)
        planned.blocks.push({ accountId, keyId: firstKeyId, amount: reserved });
    }
    return { ...planned, wanted: this.#wanted, effect };
  }
}

function accountEffect({ id, balance, reserved, found }: Account): AccountEffect {
  return {
    accountId: id,
    balance: String(balance),
    overdraft: String(found.overdraft),
    reserved: String(reserved),
    others: String(found.others),
  };
}

function chainEffect({ accountId, firstKeyId, spent, reserved, found }: Chain): ChainEffect {
  const { budget, others } = found;
  return {
    accountId,
    firstKeyId,
    spent: String(spent),
    budget: budget === null ? null : String(budget),
    reserved: String(reserved),
    others: String(others),
  };
}

/**
 * The most that may be reserved. A command may have removed the budget, or lowered it below what requests hold: what is
 * reserved already may stay then, so that no other replica reserves it after the budget is raised again.
 */
function mostOf({ found: { budget, others }, spent, reserved }: Chain): bigint {
  return budget === null ? 0n : greaterOf(budget - spent - others, reserved);
}
