import type { SQLQueryBindings } from "bun:sqlite";
import { eq, inArray, sql, type SQL } from "drizzle-orm";
import { lazy } from "../../../lib/lazy.ts";
import {
  accounts,
  attempts,
  cappedSums,
  columnsOf,
  creditColumns,
  dailyFigures,
  dailyTotals,
  endColumns,
  keys,
  ledger,
  newRowId,
  placeholders,
  requestColumns,
  requestFigures,
  requests,
  responseOwner,
  totalGroup,
  totalSums,
  vouchers,
} from "../../schema/schema.ts";
import { isClaimed, noticeStatements, type NoticeChange } from "../../tables/notices.ts";
import type { AccountState, ChainState } from "../../writer/batchMoney.ts";
import type { DailyTotal } from "../../writer/dailyTotal.ts";
import {
  needsOf,
  planBatch,
  type BatchNeeds,
  type BatchPlan,
  type BatchState,
} from "../../writer/plan.ts";
import type { WireBatch, WireOperation, WriteResult } from "../../writer/writerMessages.ts";
import type { SqliteConnection } from "../sqlite.ts";
import { prepareStatement } from "../statement.ts";
import type { ReplicaBlocks } from "./blocks.ts";
import { prepareFold } from "./fold.ts";

/** Writes a batch of a replica in the caller's transaction. Throws InsufficientFunds, and SQLite's errors. */
type ApplyBatch = (
  batch: WireBatch,
  replica: ReplicaBlocks,
) => Pick<BatchPlan, "results" | "effect" | "blocks" | "wanted">;

/** The caller tells `replica` of the commit. */
export function prepareApply(connection: SqliteConnection): ApplyBatch {
  const read = prepareReads(connection);
  const write = prepareWrites(connection);
  const vouchersOf = prepareVouchers(connection);
  const redeem = lazy(() => prepareRedemptions(connection));
  const recordOwners = lazy(() => prepareOwners(connection));
  const runOther = prepareOthers(connection);
  return (batch, replica) => {
    const needs = needsOf(batch);
    const plan = planBatch(needs, { ...read(needs, replica), vouchers: vouchersOf(needs) });
    if (plan.credits.length > 0) redeem()(plan);
    write(plan);
    if (plan.owners.length > 0) recordOwners()(plan);
    // A fold may remove a request of the batch.
    const results = batch.operations.map(
      (operation, index) => runOther(operation) ?? plan.results[index] ?? {},
    );
    return { results, effect: plan.effect, blocks: plan.blocks, wanted: plan.wanted };
  };
}

function prepareReads(
  connection: SqliteConnection,
): (needs: BatchNeeds, replica: ReplicaBlocks) => Omit<BatchState, "vouchers"> {
  const { db } = connection;
  const account = prepareStatement<{
    balance: bigint;
    overdraft: bigint;
    ledger_seq: bigint;
    reserved: bigint;
  }>(
    connection,
    db
      .select({
        balance: accounts.balance,
        overdraft: accounts.overdraft,
        ledger_seq: accounts.ledgerSeq,
        reserved: accounts.reserved,
      })
      .from(accounts)
      .where(eq(accounts.id, sql.placeholder("id"))),
  );
  const chain = prepareStatement<{ spent: bigint; budget: bigint | null }>(
    connection,
    db
      .select({ spent: keys.spent, budget: keys.budget })
      .from(keys)
      .where(eq(keys.id, sql.placeholder("id"))),
  );
  const lateRow = prepareStatement<{ id: bigint }>(
    connection,
    db
      .select({ id: requests.id })
      .from(requests)
      .where(eq(requests.publicId, sql.placeholder("publicId"))),
  );
  return (needs, replica) => {
    const found = {
      accounts: new Map<number, AccountState>(),
      chains: new Map<number, ChainState>(),
      lateRows: new Map<string, number>(),
    };
    for (const id of needs.moved.accounts) {
      const row = account.get({ id });
      if (row === null) continue;
      const { balance, overdraft, ledger_seq: ledgerSeq } = row;
      const others = replica.othersOfAccount(id);
      const reserved = row.reserved - others;
      found.accounts.set(id, { balance, overdraft, ledgerSeq, reserved, others });
    }
    for (const id of needs.moved.chains) {
      const row = chain.get({ id });
      const reserved = replica.chains.get(id) ?? 0n;
      const others = replica.othersOfChain(id);
      if (row !== null) found.chains.set(id, { ...row, reserved, others });
    }
    for (const publicId of needs.lateRows) {
      const row = lateRow.get({ publicId });
      if (row !== null) found.lateRows.set(publicId, Number(row.id));
    }
    return found;
  };
}

function prepareVouchers({ db }: SqliteConnection): (needs: BatchNeeds) => BatchState["vouchers"] {
  return ({ vouchers: ids }) => {
    if (ids.length === 0) return new Map();
    const rows = db
      .select({
        id: vouchers.id,
        publicId: vouchers.publicId,
        amount: vouchers.amount,
        expiresAt: vouchers.expiresAt,
        revokedAt: vouchers.revokedAt,
        redeemedById: vouchers.redeemedBy,
      })
      .from(vouchers)
      .where(inArray(vouchers.id, [...ids]))
      .all();
    return new Map(rows.map((row) => [row.id, row]));
  };
}

/** First the rows of requests, because the triggers want them where the account moves to. */
function prepareWrites(connection: SqliteConnection): (plan: BatchPlan) => void {
  const { db } = connection;
  const withId = sql.placeholder("id");
  const insertRequest = prepareStatement(
    connection,
    db.insert(requests).values({ id: newRowId, ...placeholders(requestColumns) }),
  );
  const endRequest = prepareStatement(
    connection,
    db.update(requests).set(placeholders(endColumns)).where(eq(requests.id, withId)),
  );
  const insertAttempt = prepareStatement(
    connection,
    db.insert(attempts).values(placeholders(columnsOf(attempts))),
  );
  const insertFigure = lazy(() =>
    prepareStatement(
      connection,
      db.insert(requestFigures).values(placeholders(columnsOf(requestFigures))),
    ),
  );
  const moveAccount = prepareStatement(
    connection,
    db
      .update(accounts)
      .set(placeholders(["balance", "ledgerSeq", "reserved"]))
      .where(eq(accounts.id, withId)),
  );
  const reserve = prepareStatement(
    connection,
    db
      .update(accounts)
      .set(placeholders(["reserved"]))
      .where(eq(accounts.id, withId)),
  );
  const spend = prepareStatement(
    connection,
    db
      .update(keys)
      .set({ spent: sql`${keys.spent} + ${sql.placeholder("charged")}` })
      .where(eq(keys.id, withId)),
  );
  const touch = lazy(() => {
    const address = sql.placeholder("address");
    return prepareStatement(
      connection,
      db
        .update(keys)
        .set({
          lastUsedAt: sql`${sql.placeholder("at")}`,
          firstAddress: sql`iif(${address} IS NULL, NULL, coalesce(${keys.firstAddress}, ${address}))`,
          lastAddress: sql`${address}`,
        })
        .where(eq(keys.id, withId)),
    );
  });
  const addToTotals = prepareAddToTotals(connection);
  const addToFigures = lazy(() =>
    prepareStatement(
      connection,
      db
        .insert(dailyFigures)
        .values(placeholders(columnsOf(dailyFigures)))
        .onConflictDoUpdate({
          target: [...totalGroup.map((name) => dailyFigures[name]), dailyFigures.figure],
          set: { quantity: sql`${dailyFigures.quantity} + excluded.quantity` },
        }),
    ),
  );
  return (plan) => {
    const ids = new Map<string, number | bigint>();
    for (const row of plan.ended) {
      endRequest.run(row);
      ids.set(row.publicId, row.id);
    }
    for (const row of plan.inserted) ids.set(row.publicId, insertRequest.run(row).lastInsertRowid);
    for (const { publicId, ...row } of plan.attempts)
      insertAttempt.run({ ...row, requestId: ids.get(publicId) });
    for (const { publicId, ...row } of plan.figures)
      insertFigure().run({ ...row, requestId: ids.get(publicId) });
    for (const { isMoved, ...row } of plan.accounts) (isMoved ? moveAccount : reserve).run(row);
    for (const { id, charged, at, address = null } of plan.keys) {
      if (charged !== undefined) spend.run({ id, charged });
      if (at !== undefined) touch().run({ id, at, address });
    }
    for (const total of plan.totals) addToTotals(total);
    for (const figure of plan.dailyFigures) addToFigures().run(figure);
  };
}

/** Prepares the addition to the totals. It runs in the caller's transaction. */
export function prepareAddToTotals(connection: SqliteConnection): (total: DailyTotal) => void {
  const added = totalSums.map((name): [string, SQL] => {
    const sum = sql`${dailyTotals[name]} + ${sql.placeholder(name)}`;
    return [name, cappedSums.includes(name) ? sql`min(${sum}, 9223372036854775807)` : sum];
  });
  const add = prepareStatement(
    connection,
    connection.db
      .insert(dailyTotals)
      .values({ ...placeholders([...totalGroup, ...totalSums]), refunded: sql`0` })
      .onConflictDoUpdate({
        target: totalGroup.map((name) => dailyTotals[name]),
        set: Object.fromEntries(added),
      }),
  );
  return (total) => {
    add.run(total);
  };
}

function prepareRedemptions(connection: SqliteConnection): (plan: BatchPlan) => void {
  const { db } = connection;
  const credit = prepareStatement(
    connection,
    db.insert(ledger).values({ id: newRowId, kind: sql`'credit'`, ...placeholders(creditColumns) }),
  );
  const end = prepareStatement(
    connection,
    db
      .update(vouchers)
      .set(placeholders(["redeemedAt", "redeemedBy"]))
      .where(eq(vouchers.id, sql.placeholder("id"))),
  );
  return ({ credits, redeemed }) => {
    for (const row of credits) credit.run({ ...row });
    for (const row of redeemed) end.run({ ...row });
  };
}

/**
 * Records owners. An object of the same account gets the later expiry; an expired object gets the new owner. If a
 * provider gives an id to two accounts, neither may use it until it would have expired: its expiry is negative then.
 * Each batch removes up to two expired objects for each one that it records, so that there are never many of them.
 */
function prepareOwners(connection: SqliteConnection): (plan: BatchPlan) => void {
  const { db } = connection;
  const now = sql.placeholder("now");
  const isExpired = sql`${responseOwner.expiresAt} BETWEEN -${now} AND ${now}`;
  const isOwn = sql`${responseOwner.accountId} = excluded.account_id AND ${responseOwner.expiresAt} > 0`;
  const record = prepareStatement(
    connection,
    db
      .insert(responseOwner)
      .values(placeholders(columnsOf(responseOwner)))
      .onConflictDoUpdate({
        target: responseOwner.hash,
        set: {
          accountId: sql`excluded.account_id`,
          provider: sql`excluded.provider`,
          historyTokens: sql`excluded.history_tokens`,
          expiresAt: sql`CASE WHEN ${isExpired} OR ${isOwn} THEN excluded.expires_at ELSE -excluded.expires_at END`,
        },
      }),
  );
  const prune = prepareStatement(
    connection,
    db
      .delete(responseOwner)
      .where(
        sql`${responseOwner.hash} IN (SELECT ${responseOwner.hash} FROM ${responseOwner} WHERE ${isExpired} LIMIT ${sql.placeholder("limit")})`,
      ),
  );
  return ({ owners }) => {
    let recorded = 0;
    for (const { objects, at } of owners)
      for (const object of objects) {
        record.run({ ...object, hash: Uint8Array.fromHex(object.hash), now: at });
        recorded += 1;
      }
    prune.run({ now: owners.at(-1)?.at ?? 0, limit: 2 * recorded });
  };
}

/** Runs what only SQLite's writer does. Its result is undefined for the other operations. */
function prepareOthers(
  connection: SqliteConnection,
): (operation: WireOperation) => WriteResult | undefined {
  const fold = prepareFold(connection);
  const probe = lazy(() => prepareProbe(connection));
  return (operation) => {
    if (operation.kind === "fold") return { folded: fold(operation.before) };
    if (operation.kind === "probe") probe()();
    if (operation.kind === "notice") return { claimed: changeNotice(connection, operation.change) };
    return undefined;
  };
}

/** Returns true for a claim that the gateway has got. */
function changeNotice({ sqlite }: SqliteConnection, change: NoticeChange): boolean {
  const changed = noticeStatements(change).map(({ text, values }) =>
    sqlite.query<object, SQLQueryBindings>(text).all(values),
  );
  return isClaimed(change, changed.at(-1) ?? []);
}

/** Changes a row and changes it back. SQLite writes the page then; it writes no page for an update without a change. */
function prepareProbe({ db }: SqliteConnection): () => void {
  const anyKey = db
    .select({ id: keys.id, lastUsedAt: keys.lastUsedAt })
    .from(keys)
    .limit(1)
    .prepare();
  const use = db
    .update(keys)
    .set({ lastUsedAt: sql`${sql.placeholder("at")}` })
    .where(eq(keys.id, sql.placeholder("id")))
    .prepare();
  return () => {
    const key = anyKey.get();
    if (!key) return;
    use.run({ id: key.id, at: (key.lastUsedAt ?? 0) + 1 });
    use.run({ id: key.id, at: key.lastUsedAt });
  };
}
