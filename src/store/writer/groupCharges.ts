import { assert } from "../../lib/assert.ts";
import { InsufficientFunds, type AccountEffect, type ReserveTarget } from "./effects.ts";
import { dayOf, emptyTotal, type DailyTotal } from "./dailyTotal.ts";
import type { WireRecord, WireRow } from "./requestRecord.ts";
import { requests, totalSums } from "../schema/schema.ts";

/** An account while a group runs, in nano-roubles. */
export interface GroupAccount {
  readonly overdraft: bigint;
  readonly firstSeq: bigint;
  seq: bigint;
  balance: bigint;
  /** What this gateway has reserved. */
  reserved: bigint;
  /** PostgreSQL only: what all other replicas have reserved. */
  readonly others?: bigint;
}

/** What the group charges to a rotation chain. */
interface GroupChain {
  readonly accountId: number;
  charged: bigint;
}

/** The place of a request in the history of its account; null for a request without a charge. */
interface Place {
  readonly seq: bigint | null;
  readonly balance: bigint | null;
}

/**
 * The charges of the requests of one transaction: their numbers, the balances after them, reserves and totals. It writes
 * nothing.
 */
export class GroupCharges {
  readonly accounts = new Map<number, GroupAccount>();
  /** By the first key of the chain. */
  readonly chains = new Map<number, GroupChain>();
  readonly #totals = new Map<string, DailyTotal>();
  readonly #find: (accountId: number) => GroupAccount;

  /** `find` returns the account as it was before the group. */
  constructor(find: (accountId: number) => GroupAccount) {
    this.#find = find;
  }

  /** Throws InsufficientFunds if the charge is larger than what the account has reserved. */
  record(record: WireRecord): Place {
    const { accountId, status } = record.row;
    const charge = BigInt(record.row.charge);
    const isCharged = status === "done" || charge > 0n;
    if (status !== "running") this.#count(record.row, isCharged);
    if (!isCharged) return UNCHARGED;
    const account = this.account(accountId);
    assert(charge >= 0n, "a negative charge");
    if (charge > account.reserved)
      throw new InsufficientFunds("the account has not reserved the charge");
    account.seq += 1n;
    account.balance -= charge;
    account.reserved -= charge;
    this.#spend(accountId, record.firstKeyId, charge);
    return { seq: account.seq, balance: account.balance };
  }

  /** Gives each account what it wants reserved, or what it can pay. With `onlyRaise` no reserve becomes lower. */
  reserve(targets: readonly ReserveTarget[], onlyRaise: boolean): void {
    for (const { accountId, reserved } of targets) {
      const account = this.account(accountId);
      const free = account.balance + account.overdraft - (account.others ?? 0n);
      const target = BigInt(reserved);
      const payable = target < free ? target : free;
      if (!onlyRaise || payable > account.reserved) account.reserved = payable;
    }
  }

  account(accountId: number): GroupAccount {
    const known = this.accounts.get(accountId);
    if (known) return known;
    const account = this.#find(accountId);
    this.accounts.set(accountId, account);
    return account;
  }

  get totals(): Iterable<DailyTotal> {
    return this.#totals.values();
  }

  #spend(accountId: number, firstKeyId: number, charge: bigint): void {
    const chain = this.chains.get(firstKeyId);
    if (chain) chain.charged += charge;
    else this.chains.set(firstKeyId, { accountId, charged: charge });
  }

  #count(row: WireRow, isCharged: boolean): void {
    const { at, accountId, keyId, endpoint, model, status } = row;
    const [day, provider] = [dayOf(at), row.provider ?? ""];
    const group = `${day} ${keyId} ${endpoint} ${provider}\n${model}`;
    let total = this.#totals.get(group);
    if (total === undefined) {
      total = emptyTotal({ day, accountId, keyId, model, provider, endpoint });
      this.#totals.set(group, total);
    }
    total.requests += 1;
    if (status === "failed" || status === "interrupted") total.failed += 1;
    if (isCharged) total.charged += 1;
    const sums: Record<string, unknown> = total;
    for (const name of summedColumns) {
      const [sum, value] = [sums[name], row[name] ?? 0];
      sums[name] = typeof sum === "bigint" ? sum + BigInt(value) : Number(sum) + Number(value);
    }
  }
}

type SummedColumn = Extract<(typeof totalSums)[number], keyof WireRow>;
/** What a request adds to the totals as it is in its row. */
const summedColumns = totalSums.filter((name): name is SummedColumn => name in requests);

const UNCHARGED: Place = { seq: null, balance: null };

export function accountEffect(accountId: number, account: GroupAccount): AccountEffect {
  return {
    accountId,
    seq: Number(account.seq),
    balance: String(account.balance),
    overdraft: String(account.overdraft),
    reserved: String(account.reserved),
    ...(account.others !== undefined && { others: String(account.others) }),
  };
}
