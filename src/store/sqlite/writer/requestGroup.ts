import { eq, sql } from "drizzle-orm";
import { assert } from "../../../lib/assert.ts";
import {
  accounts,
  assigned,
  attempts,
  keys,
  newRowId,
  placeholders,
  requests,
} from "../../schema/schema.ts";
import type { Connection } from "../sqlite.ts";
import { prepareStatement } from "../statement.ts";
import { RECORD_COLUMNS, type WireAmount, type WireRecord } from "./requestRecord.ts";
import { dayOf, prepareAddToTotals, type DailyTotal } from "./totals.ts";

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

/**
 * The requests of one transaction. Each gets its row. Balances, spending and daily totals move once, at the end: by
 * `finish`, in the same transaction.
 */
export interface RequestGroup {
  /** Writes the row of a request. Throws InsufficientFunds, and SQLite's errors. */
  record(record: WireRecord): void;
  /** Moves balances, reserves, spending and totals. With `onlyRaise` no reserve becomes lower. */
  finish(reserves: readonly ReserveTarget[], onlyRaise: boolean): GroupEffect;
}

/** An account while a group runs. */
interface Account {
  readonly overdraft: bigint;
  readonly firstSeq: bigint;
  seq: bigint;
  balance: bigint;
  reserved: bigint;
}

interface Chain {
  readonly accountId: number;
  spent: bigint;
}

/** Prepares groups. Only one group runs at a time. */
export function prepareRequestGroups(connection: Connection): () => RequestGroup {
  const statements = prepareStatements(connection);
  return () => new Group(statements);
}

type Statements = ReturnType<typeof prepareStatements>;

function prepareStatements(connection: Connection) {
  const { db } = connection;
  const ended = [...RECORD_COLUMNS, "ledgerSeq", "balanceAfter"] as const;
  // What was held stays. Another model than the one asked for may have answered. In the order of the table.
  const changed = [
    "model",
    "provider",
    "status",
    "priceInput",
    "priceCachedInput",
    "priceCacheWrite",
    "priceCacheWrite1h",
    "priceOutput",
    "priceWebSearch",
    "charge",
    "writeOff",
    "promptTokens",
    "cachedTokens",
    "cacheWriteTokens",
    "cacheWrite1hTokens",
    "completionTokens",
    "webSearches",
    "estimated",
    "operatorCost",
    "attemptCount",
    "durationMs",
    "firstByteMs",
    "ledgerSeq",
    "balanceAfter",
  ] as const;
  return {
    insert: prepareStatement<never>(
      connection,
      db.insert(requests).values({ id: newRowId, ...placeholders(...ended) }),
      ended,
    ),
    findRunning: prepareStatement<{ id: bigint }>(
      connection,
      db
        .select({ id: requests.id })
        .from(requests)
        .where(eq(requests.publicId, sql.placeholder("publicId"))),
      ["publicId"],
    ),
    end: prepareStatement<never>(
      connection,
      db
        .update(requests)
        .set(assigned(...changed))
        .where(eq(requests.id, sql.placeholder("id"))),
      [...changed, "id"],
    ),
    insertAttempt: prepareStatement<never>(
      connection,
      db
        .insert(attempts)
        .values(placeholders("requestId", "n", "provider", "outcome", "status", "durationMs")),
      ["requestId", "n", "provider", "outcome", "status", "durationMs"],
    ),
    account: prepareStatement<AccountRow>(
      connection,
      db
        .select({
          balance: accounts.balance,
          overdraft: accounts.overdraft,
          ledger_seq: accounts.ledgerSeq,
          reserved: accounts.reserved,
        })
        .from(accounts)
        .where(eq(accounts.id, sql.placeholder("accountId"))),
      ["accountId"],
    ),
    moveAccount: prepareStatement<never>(
      connection,
      db
        .update(accounts)
        .set(assigned("balance", "ledgerSeq", "reserved"))
        .where(eq(accounts.id, sql.placeholder("accountId"))),
      ["balance", "ledgerSeq", "reserved", "accountId"],
    ),
    reserve: prepareStatement<never>(
      connection,
      db
        .update(accounts)
        .set(assigned("reserved"))
        .where(eq(accounts.id, sql.placeholder("accountId"))),
      ["reserved", "accountId"],
    ),
    spend: prepareStatement<{ spent: bigint }>(
      connection,
      db
        .update(keys)
        .set({ spent: sql`${keys.spent} + ${sql.placeholder("charge")}` })
        .where(eq(keys.id, sql.placeholder("firstKeyId")))
        .returning({ spent: keys.spent }),
      ["charge", "firstKeyId"],
    ),
    addToTotals: prepareAddToTotals(connection),
  };
}

interface AccountRow {
  balance: bigint;
  overdraft: bigint;
  ledger_seq: bigint;
  reserved: bigint;
}

class Group implements RequestGroup {
  readonly #statements: Statements;
  readonly #accounts = new Map<number, Account>();
  readonly #chains = new Map<number, Chain>();
  readonly #totals = new Map<string, DailyTotal>();

  constructor(statements: Statements) {
    this.#statements = statements;
  }

  record(record: WireRecord): void {
    const { columns } = record;
    const accountId = columns[2];
    const status = columns[8];
    const charge = BigInt(columns[16]);
    let seq: bigint | null = null;
    let balance: bigint | null = null;
    if (status === "done" || charge > 0n) {
      const account = this.#account(accountId);
      assert(charge >= 0n, "a negative charge");
      if (charge > account.reserved)
        throw new InsufficientFunds("the account has not reserved the charge");
      account.seq += 1n;
      account.balance -= charge;
      account.reserved -= charge;
      ({ seq, balance } = account);
      this.#spend(accountId, record.firstKeyId, charge);
    }
    const id = this.#writeRow(record, seq, balance);
    let n = 0;
    for (const { provider, outcome, status: code, durationMs } of record.attempts)
      this.#statements.insertAttempt.run(id, ++n, provider, outcome, code, durationMs);
    if (status !== "running") this.#count(record, charge, seq !== null);
  }

  finish(reserves: readonly ReserveTarget[], onlyRaise: boolean): GroupEffect {
    const effect = { accounts: [] as AccountEffect[], chains: [] as ChainEffect[] };
    for (const { accountId, reserved } of reserves) {
      const account = this.#account(accountId);
      const free = account.balance + account.overdraft;
      const target = BigInt(reserved);
      const payable = target < free ? target : free;
      if (!onlyRaise || payable > account.reserved) account.reserved = payable;
    }
    for (const [accountId, account] of this.#accounts) {
      const { balance, overdraft, reserved, seq } = account;
      if (seq > account.firstSeq)
        this.#statements.moveAccount.run(balance, seq, reserved, accountId);
      else this.#statements.reserve.run(reserved, accountId);
      effect.accounts.push({
        accountId,
        seq: Number(seq),
        balance: String(balance),
        overdraft: String(overdraft),
        reserved: String(reserved),
      });
    }
    for (const [firstKeyId, { accountId, spent }] of this.#chains) {
      const row = this.#statements.spend.get(spent, firstKeyId);
      effect.chains.push({ accountId, firstKeyId, spent: String(row?.spent) });
    }
    for (const total of this.#totals.values()) this.#statements.addToTotals(total);
    return effect;
  }

  /** Inserts the row, or ends the row of the running request. Returns its row id. */
  #writeRow({ columns, mayHaveRow }: WireRecord, seq: bigint | null, balance: bigint | null) {
    const { insert, findRunning, end } = this.#statements;
    const found = mayHaveRow ? findRunning.get(columns[0]) : null;
    if (found === null) return insert.run(...columns, seq, balance).lastInsertRowid;
    const [, , , , , model, provider] = columns;
    const ended = [...columns.slice(8, 15), ...columns.slice(16)];
    end.run(model, provider, ...ended, seq, balance, found.id);
    return found.id;
  }

  #account(accountId: number): Account {
    const known = this.#accounts.get(accountId);
    if (known) return known;
    const row = this.#statements.account.get(accountId);
    assert(row !== null, "a request without an account");
    const { balance, overdraft, ledger_seq: seq, reserved } = row;
    const account = { balance, overdraft, firstSeq: seq, seq, reserved };
    this.#accounts.set(accountId, account);
    return account;
  }

  #spend(accountId: number, firstKeyId: number, charge: bigint): void {
    const chain = this.#chains.get(firstKeyId);
    if (chain) chain.spent += charge;
    else this.#chains.set(firstKeyId, { accountId, spent: charge });
  }

  #count({ columns }: WireRecord, charge: bigint, isCharged: boolean): void {
    const [, at, accountId, keyId, endpoint, model, provider, , status] = columns;
    const day = dayOf(at);
    const group = `${day} ${keyId} ${endpoint} ${provider ?? ""}\n${model}`;
    let total = this.#totals.get(group);
    if (total === undefined) {
      total = emptyTotal({ day, accountId, keyId, model, provider: provider ?? "", endpoint });
      this.#totals.set(group, total);
    }
    total.requests += 1;
    if (status === "failed" || status === "interrupted") total.failed += 1;
    if (isCharged) total.charged += 1;
    total.charge += charge;
    total.writeOff += BigInt(columns[17]);
    total.promptTokens += columns[18];
    total.cachedTokens += columns[19];
    total.cacheWriteTokens += columns[20];
    total.cacheWrite1hTokens += columns[21];
    total.completionTokens += columns[22];
    total.webSearches += columns[23];
    total.operatorCost += BigInt(columns[25] ?? 0);
  }
}

type TotalGroup = Pick<
  DailyTotal,
  "day" | "accountId" | "keyId" | "model" | "provider" | "endpoint"
>;

function emptyTotal(group: TotalGroup): DailyTotal {
  return {
    ...group,
    requests: 0,
    failed: 0,
    charged: 0,
    promptTokens: 0,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    cacheWrite1hTokens: 0,
    completionTokens: 0,
    webSearches: 0,
    charge: 0n,
    writeOff: 0n,
    operatorCost: 0n,
  };
}
