import { assert } from "../../src/lib/assert.ts";
import type {
  ChainEffect,
  GroupEffect,
  RequestRecord,
  ReserveTarget,
} from "../../src/store/store.ts";
import type { OutgoingBatch } from "../../src/store/writer/writer.ts";
import type { VirtualTime } from "./virtualTime.ts";

/** What transactions did. All of it is counted since the last `reset`. */
export interface StoreCounts {
  transactions: number;
  /** Transactions with an ended request. */
  settling: number;
  /** Ended requests, and those of them whose row was there before. */
  ended: number;
  endedLate: number;
  /** Rows of requests that go on. */
  begun: number;
  /** Accounts of ended requests, once for each transaction. */
  charged: number;
  /** Blocks that a transaction without a charge of the account raised, and lowered to nothing. */
  taken: number;
  given: number;
  touched: number;
  inserted: number;
  updated: number;
  deleted: number;
  /** Transactions that waited for the row of an account, and for how long in all. */
  waited: number;
  waitedMs: number;
  /** Of the hottest account: transactions that want its row, those that find it locked, and how long it is locked. */
  hotWanted: number;
  hotWaited: number;
  hotLockedMs: number;
  /** Waits that are longer than the writer's `lock_timeout`. The product would run the transaction again. */
  timeouts: number;
}

/** How long a transaction keeps its rows, in milliseconds. */
export interface ServiceTime {
  readonly fixed: number;
  /** Each ended request, and each account of them. */
  readonly eachRequest: number;
  readonly eachAccount: number;
  /** Each row of a request that goes on. */
  readonly eachRow: number;
  readonly eachBlock: number;
  /** Between a replica and the server, there and back. */
  readonly roundTrip: number;
}

interface Account {
  readonly id: number;
  balance: bigint;
  seq: number;
  reserved: bigint;
  readonly blocks: Map<number, bigint>;
  /** The transaction that has the row, and those that wait for it in the order of arrival. */
  holder: Transaction | undefined;
  lockedAtMs: number;
  readonly queue: Transaction[];
}

interface Transaction {
  readonly replica: number;
  readonly batch: OutgoingBatch;
  readonly accounts: readonly Account[];
  readonly startedMs: number;
  /** The number of rows that it has. */
  locked: number;
  /** The time that it waited for the row it wants now, since. */
  queuedAtMs: number;
  done(effects: readonly GroupEffect[]): void;
}

const LOCK_TIMEOUT_MS = 4000;

/**
 * The accounts of a PostgreSQL server, as transactions of replicas see them: each locks the rows of its accounts in the
 * order of their ids, and has them until its commit. The server itself is never busy.
 */
export class StoreModel {
  counts = noCounts();
  /** The money that was there at the beginning, of accounts that were used. */
  opened = 0n;
  charged = 0n;
  readonly #accounts = new Map<number, Account>();
  readonly #time: VirtualTime;
  readonly #service: ServiceTime;
  readonly #balance: bigint;
  readonly #hottest: number;
  readonly #onWanted: (accountId: number) => void;

  /** Each account has `balance` at first. `onWanted`: an account whose money other replicas have. */
  constructor(options: {
    readonly time: VirtualTime;
    readonly service: ServiceTime;
    readonly balance: bigint;
    readonly hottest: number;
    readonly onWanted: (accountId: number) => void;
  }) {
    this.#time = options.time;
    this.#service = options.service;
    this.#balance = options.balance;
    this.#hottest = options.hottest;
    this.#onWanted = options.onWanted;
  }

  /** One transaction. Resolves when the replica hears of its commit. */
  transact(replica: number, batch: OutgoingBatch): Promise<readonly GroupEffect[]> {
    const halfMs = this.#service.roundTrip / 2;
    const ids = new Set(batch.reserves.map(({ accountId }) => accountId));
    for (const record of recordsOf(batch)) ids.add(record.accountId);
    const accounts = [...ids].sort((a, b) => a - b).map((id) => this.#account(id));
    return new Promise((resolve) => {
      this.#time.in(halfMs, () => {
        const startedMs = this.#time.nowMs;
        const done = (effects: readonly GroupEffect[]): void => {
          this.#time.in(halfMs, () => resolve(effects));
        };
        const state = { locked: 0, queuedAtMs: startedMs, done };
        this.#lock({ replica, batch, accounts, startedMs, ...state });
      });
    });
  }

  /** Throws if money appeared or vanished, or if more is reserved than there is. */
  check(): void {
    let left = 0n;
    for (const { balance, reserved, blocks } of this.#accounts.values()) {
      const sum = blocks.values().reduce((total, block) => total + block, 0n);
      assert(sum === reserved, "what is reserved is the sum of the blocks");
      assert(reserved <= balance, "an account can pay what is reserved");
      left += balance;
    }
    assert(left + this.charged === this.opened, "what is charged is what the accounts lost");
  }

  get reserved(): bigint {
    return this.#accounts.values().reduce((sum, { reserved }) => sum + reserved, 0n);
  }

  #account(id: number): Account {
    let account = this.#accounts.get(id);
    if (account === undefined) {
      const money = { balance: this.#balance, seq: 0, reserved: 0n, blocks: new Map() };
      account = { id, ...money, holder: undefined, lockedAtMs: 0, queue: [] };
      this.#accounts.set(id, account);
      this.opened += this.#balance;
    }
    return account;
  }

  #lock(transaction: Transaction): void {
    for (;;) {
      const account = transaction.accounts[transaction.locked];
      if (account === undefined) break;
      const isHot = account.id === this.#hottest;
      if (isHot) this.counts.hotWanted += 1;
      if (account.holder !== undefined) {
        if (isHot) this.counts.hotWaited += 1;
        transaction.queuedAtMs = this.#time.nowMs;
        account.queue.push(transaction);
        return;
      }
      this.#take(account, transaction);
    }
    const { counts } = this;
    const waitedMs = this.#time.nowMs - transaction.startedMs;
    counts.waitedMs += waitedMs;
    if (waitedMs > 0) counts.waited += 1;
    this.#time.in(this.#serviceMs(transaction.batch), () => this.#commit(transaction));
  }

  #take(account: Account, transaction: Transaction): void {
    account.holder = transaction;
    account.lockedAtMs = this.#time.nowMs;
    transaction.locked += 1;
  }

  #serviceMs(batch: OutgoingBatch): number {
    const { fixed, eachRequest, eachAccount, eachRow, eachBlock, roundTrip } = this.#service;
    const records = recordsOf(batch);
    const ended = records.filter(({ status }) => status !== "running");
    const accounts = new Set(ended.map(({ accountId }) => accountId)).size;
    const requests = eachRequest * ended.length + eachAccount * accounts;
    const rows = eachRow * (records.length - ended.length);
    return roundTrip + fixed + requests + rows + eachBlock * batch.reserves.length;
  }

  #commit(transaction: Transaction): void {
    const effects = this.#apply(transaction);
    const next: Transaction[] = [];
    for (const account of transaction.accounts) {
      if (account.id === this.#hottest)
        this.counts.hotLockedMs += this.#time.nowMs - account.lockedAtMs;
      const first = account.queue.shift();
      account.holder = undefined;
      if (first === undefined) continue;
      if (this.#time.nowMs - first.queuedAtMs > LOCK_TIMEOUT_MS) this.counts.timeouts += 1;
      this.#take(account, first);
      next.push(first);
    }
    transaction.done(effects);
    for (const one of next) this.#lock(one);
  }

  #apply({ replica, batch, accounts }: Transaction): readonly GroupEffect[] {
    const { counts } = this;
    const before = new Map(accounts.map((account) => [account, blockOf(account, replica)]));
    const chains = new Map<number, ChainEffect>();
    const changed = new Set<number>();
    const charged = new Set<number>();
    for (const record of recordsOf(batch)) {
      this.#applyRecord(record, replica);
      if (record.status !== "running") charged.add(record.accountId);
    }
    for (const { accountId } of recordsOf(batch)) chains.set(accountId, chainOf(accountId));
    for (const target of batch.reserves) {
      this.#reserve(this.#account(target.accountId), target, replica);
      chains.set(target.accountId, chainOf(target.accountId));
    }
    for (const account of accounts) {
      const [was, is] = [before.get(account) ?? 0n, blockOf(account, replica)];
      if (was !== is) this.#countBlock(was, is, charged.has(account.id));
      if (was !== is || charged.has(account.id)) changed.add(account.id);
    }
    const touched = batch.operations.flatMap((one) => (one.kind === "touchKey" ? one.keyId : []));
    counts.transactions += 1;
    if (charged.size > 0) counts.settling += 1;
    counts.charged += charged.size;
    counts.touched += touched.length;
    // The replica's own row; accounts; keys; daily totals, which are there already.
    counts.updated += 1 + changed.size + new Set([...charged, ...touched]).size + charged.size;
    return [
      { accounts: accounts.map((one) => effectOf(one, replica)), chains: [...chains.values()] },
    ];
  }

  #applyRecord({ accountId, status, mayHaveRow, charge }: RequestRecord, replica: number): void {
    const { counts } = this;
    if (status === "running") {
      counts.begun += 1;
      counts.inserted += 1;
      return;
    }
    counts.ended += 1;
    if (mayHaveRow) counts.endedLate += 1;
    if (mayHaveRow) counts.updated += 1;
    else counts.inserted += 1;
    const account = this.#account(accountId);
    const left = blockOf(account, replica) - charge;
    assert(left >= 0n, "a charge is paid from the block of its replica");
    account.blocks.set(replica, left);
    account.reserved -= charge;
    account.balance -= charge;
    account.seq += 1;
    this.charged += charge;
  }

  #reserve(account: Account, target: ReserveTarget, replica: number): void {
    const wanted = BigInt(target.reserved);
    const own = blockOf(account, replica);
    const others = account.reserved - own;
    const left = account.balance - others;
    const block = wanted < left ? wanted : left;
    if (block > 0n) account.blocks.set(replica, block);
    else account.blocks.delete(replica);
    account.reserved = others + block;
    if (block < wanted && others > 0n) this.#onWanted(account.id);
  }

  #countBlock(was: bigint, is: bigint, isCharged: boolean): void {
    const { counts } = this;
    if (is === 0n) counts.deleted += 1;
    else if (was === 0n) counts.inserted += 1;
    else counts.updated += 1;
    if (isCharged) return;
    if (is === 0n) counts.given += 1;
    else counts.taken += 1;
  }
}

/** As the writer does: the row of a request that ends in the same batch is not written before. */
function recordsOf({ operations }: OutgoingBatch): readonly RequestRecord[] {
  const records = operations.flatMap((one) => (one.kind === "recordRequest" ? one.record : []));
  const isOver = ({ status, mayHaveRow }: RequestRecord): boolean =>
    mayHaveRow && status !== "running";
  const ending = new Set(records.filter(isOver).map(({ publicId }) => publicId));
  return records.filter(({ status, publicId }) => status !== "running" || !ending.has(publicId));
}

function blockOf({ blocks }: Account, replica: number): bigint {
  return blocks.get(replica) ?? 0n;
}

/** An account has one key, without a budget. */
function chainOf(accountId: number): ChainEffect {
  return { accountId, firstKeyId: accountId, spent: 0, budget: null, reserved: 0, others: 0 };
}

function effectOf(account: Account, replica: number): GroupEffect["accounts"][number] {
  const { id, balance, reserved } = account;
  const own = blockOf(account, replica);
  const amounts = {
    balance: String(balance),
    reserved: String(own),
    others: String(reserved - own),
  };
  return { accountId: id, overdraft: 0, ...amounts };
}

export function noCounts(): StoreCounts {
  return {
    transactions: 0,
    settling: 0,
    ended: 0,
    endedLate: 0,
    begun: 0,
    charged: 0,
    taken: 0,
    given: 0,
    touched: 0,
    inserted: 0,
    updated: 0,
    deleted: 0,
    waited: 0,
    waitedMs: 0,
    hotWanted: 0,
    hotWaited: 0,
    hotLockedMs: 0,
    timeouts: 0,
  };
}
