import { eq, sql } from "drizzle-orm";
import { assert } from "../../../lib/assert.ts";
import {
  accounts,
  attempts,
  columnsOf,
  endColumns,
  keys,
  newRowId,
  placeholders,
  requestColumns,
  requests,
} from "../../schema/schema.ts";
import type {
  AccountEffect,
  ChainEffect,
  GroupEffect,
  ReserveTarget,
} from "../../writer/effects.ts";
import { accountEffect, GroupCharges, type GroupAccount } from "../../writer/groupCharges.ts";
import type { WireRecord } from "../../writer/requestRecord.ts";
import type { SqliteConnection } from "../sqlite.ts";
import { prepareStatement } from "../statement.ts";
import { prepareAddToTotals } from "./totals.ts";

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

/** Prepares groups. Only one group runs at a time. */
export function prepareRequestGroups(connection: SqliteConnection): () => RequestGroup {
  const statements = prepareStatements(connection);
  return () => new Group(statements);
}

type Statements = ReturnType<typeof prepareStatements>;

function prepareStatements(connection: SqliteConnection) {
  const { db } = connection;
  return {
    insert: prepareStatement<never>(
      connection,
      db.insert(requests).values({ id: newRowId, ...placeholders(requestColumns) }),
    ),
    findRunning: prepareStatement<{ id: bigint }>(
      connection,
      db
        .select({ id: requests.id })
        .from(requests)
        .where(eq(requests.publicId, sql.placeholder("publicId"))),
    ),
    end: prepareStatement<never>(
      connection,
      db
        .update(requests)
        .set(placeholders(endColumns))
        .where(eq(requests.id, sql.placeholder("id"))),
    ),
    insertAttempt: prepareStatement<never>(
      connection,
      db.insert(attempts).values(placeholders(columnsOf(attempts))),
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
    ),
    moveAccount: prepareStatement<never>(
      connection,
      db
        .update(accounts)
        .set(placeholders(["balance", "ledgerSeq", "reserved"]))
        .where(eq(accounts.id, sql.placeholder("accountId"))),
    ),
    reserve: prepareStatement<never>(
      connection,
      db
        .update(accounts)
        .set(placeholders(["reserved"]))
        .where(eq(accounts.id, sql.placeholder("accountId"))),
    ),
    spend: prepareStatement<{ spent: bigint }>(
      connection,
      db
        .update(keys)
        .set({ spent: sql`${keys.spent} + ${sql.placeholder("charge")}` })
        .where(eq(keys.id, sql.placeholder("firstKeyId")))
        .returning({ spent: keys.spent }),
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
  readonly #charges: GroupCharges;

  constructor(statements: Statements) {
    this.#statements = statements;
    this.#charges = new GroupCharges((accountId) => this.#account(accountId));
  }

  record(record: WireRecord): void {
    const { seq, balance } = this.#charges.record(record);
    const id = this.#writeRow(record, seq, balance);
    let n = 0;
    for (const { provider, outcome, status, durationMs } of record.attempts) {
      n += 1;
      this.#statements.insertAttempt.run({
        requestId: id,
        n,
        provider,
        outcome,
        status,
        durationMs,
      });
    }
  }

  finish(reserves: readonly ReserveTarget[], onlyRaise: boolean): GroupEffect {
    const effect = { accounts: [] as AccountEffect[], chains: [] as ChainEffect[] };
    const charges = this.#charges;
    charges.reserve(reserves, onlyRaise);
    for (const [accountId, account] of charges.accounts) {
      const { balance, reserved, seq } = account;
      if (seq > account.firstSeq)
        this.#statements.moveAccount.run({ balance, ledgerSeq: seq, reserved, accountId });
      else this.#statements.reserve.run({ reserved, accountId });
      effect.accounts.push(accountEffect(accountId, account));
    }
    for (const [firstKeyId, { accountId, charged }] of charges.chains) {
      const row = this.#statements.spend.get({ charge: charged, firstKeyId });
      effect.chains.push({ accountId, firstKeyId, spent: String(row?.spent) });
    }
    for (const total of charges.totals) this.#statements.addToTotals(total);
    return effect;
  }

  /** Inserts the row, or ends the row of the running request. Returns its row id. */
  #writeRow(
    { row, mayHaveRow }: WireRecord,
    ledgerSeq: bigint | null,
    balanceAfter: bigint | null,
  ) {
    const { insert, findRunning, end } = this.#statements;
    const values = { ...row, ledgerSeq, balanceAfter };
    const found = mayHaveRow ? findRunning.get(row) : null;
    if (found === null) return insert.run(values).lastInsertRowid;
    end.run({ ...values, id: found.id });
    return found.id;
  }

  #account(accountId: number): GroupAccount {
    const row = this.#statements.account.get({ accountId });
    assert(row !== null, "a request without an account");
    const { balance, overdraft, ledger_seq: seq, reserved } = row;
    return { balance, overdraft, firstSeq: seq, seq, reserved };
  }
}
