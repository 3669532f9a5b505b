import type { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { getTableColumns, getTableName } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import type { AuditReport } from "../audit/audit.ts";
import type { Connection } from "../connection.ts";
import { auditStore } from "../sqlite/audit/auditSqlite.ts";
import { takeInstanceLock } from "../sqlite/lock.ts";
import * as tables from "../schema/schema.ts";
import { requireSupportedSchema } from "../sqlite/schema/migrations.ts";
import { connectReadOnly, refuseOrphanedWal, toStoreError } from "../sqlite/sqlite.ts";
import { StoreError } from "../storeError.ts";
import { auditServer, isAtRest } from "./audit/audit.ts";
import { copiedTable, type CopiedTable } from "./copiedTable.ts";
import type { ServerAddress } from "./pool.ts";
import { openServer, type OpenServer } from "./store.ts";
import { interruptedTotals } from "./writer/replicas.ts";
import { ADD_TO_TOTALS, jsonOf } from "./writer/statements.ts";

/** What a copy does now, and how far it is, in rows of all tables. */
export interface CopyProgress {
  readonly what: "audit of the file" | "copy" | "audit of the copy";
  readonly copied: number;
  readonly total: number;
}

/** What was copied: it is the same on both sides. Amounts are nano-roubles. */
export interface CopiedDatabase {
  readonly tables: readonly {
    readonly name: string;
    readonly rows: number;
    /** The sum of the money in the rows; undefined for a table without money. */
    readonly amount: bigint | undefined;
  }[];
  /** Requests that a crash had left open. They are interrupted, and nothing is charged. */
  readonly interrupted: number;
  /** What a crash had left reserved. It is free. */
  readonly released: bigint;
  /** The sum of all balances. */
  readonly balance: bigint;
}

/** In this order: each table comes after those that it refers to. */
const COPIED: readonly { readonly table: SQLiteTable; readonly money?: string }[] = [
  { table: tables.accounts, money: "balance" },
  { table: tables.keys, money: "spent" },
  { table: tables.requests, money: "charge" },
  { table: tables.attempts },
  { table: tables.requestFigures },
  { table: tables.ledger, money: "amount" },
  { table: tables.vouchers, money: "amount" },
  { table: tables.adminLog },
  { table: tables.responseOwner },
  { table: tables.dailyTotals, money: "charge" },
  { table: tables.dailyFigures },
  { table: tables.notices },
  // The migrations have made a row in each of these.
  { table: tables.retention },
  { table: tables.changes },
  { table: tables.voucherStart },
];
/**
 * Copies the records of a SQLite file into the empty database, in one transaction, and proves before the commit that nothing
 * has changed: each row is compared, and both are audited. The file is opened for reading only. Rejects with StoreError if a
 * gateway runs on one of them, if the schema of the file is not current, if the database is not empty, and if an audit
 * finds a problem; then nothing is copied.
 */
export async function copyDatabase(
  path: string,
  address: ServerAddress,
  onProgress: (progress: CopyProgress) => void,
): Promise<CopiedDatabase> {
  if (!existsSync(path)) throw new StoreError(`there is no database at ${path}: check --from`);
  refuseOrphanedWal(path);
  const lock = takeInstanceLock(path);
  if (lock === undefined)
    throw new StoreError(
      `a gateway is running on ${path}: stop it first, and do not start it again`,
    );
  try {
    const sqlite = connectReadOnly(path);
    try {
      sqlite.run("BEGIN");
      return await copyFrom(sqlite, path, address, onProgress);
    } finally {
      sqlite.close();
    }
  } catch (error) {
    throw toStoreError(path, error);
  } finally {
    lock.release();
  }
}

async function copyFrom(
  sqlite: Database,
  path: string,
  address: ServerAddress,
  onProgress: (progress: CopyProgress) => void,
): Promise<CopiedDatabase> {
  requireCurrent(sqlite, path);
  const copies = COPIED.map(({ table, money }) =>
    copiedTable(sqlite, table, money, changesOf(table)),
  );
  const total = copies.reduce((sum, { rows }) => sum + rows, 0);
  onProgress({ what: "audit of the file", copied: 0, total });
  refuseProblems(path, await auditStore({ sqlite }, { atRest: true }));
  let server: OpenServer | undefined;
  try {
    server = await openServer(address);
    const { shownUrl } = address;
    return await server.queries.inTransaction((transaction) =>
      copyAll(sqlite, transaction, { copies, total, shownUrl, onProgress }),
    );
  } finally {
    await server?.store.close();
  }
}

function requireCurrent(sqlite: Database, path: string): void {
  const { applied, known } = requireSupportedSchema(sqlite);
  if (applied === known) return;
  throw new StoreError(
    `${path} has the schema of an earlier version: run \`tollgate audit\` of this version with a config that has it as the path of [database], and try again`,
  );
}

function refuseProblems(name: string, { problems: [first, ...more] }: AuditReport): void {
  if (first === undefined) return;
  throw new StoreError(
    `nothing was copied: the audit of ${name} finds problems (${more.length + 1}, the first: ${first})`,
  );
}

/** No gateway runs: what was reserved is free, and what was running is interrupted. */
function changesOf(table: SQLiteTable): (row: Record<string, string | null>) => typeof row {
  if (table === tables.accounts) return (row) => ({ ...row, reserved: "0" });
  if (table !== tables.requests) return (row) => row;
  return (row) => (row["status"] === "running" ? { ...row, status: "interrupted" } : row);
}

interface Copy {
  readonly copies: readonly CopiedTable[];
  readonly total: number;
  readonly shownUrl: string;
  readonly onProgress: (progress: CopyProgress) => void;
}

async function copyAll(sqlite: Database, target: Connection, work: Copy): Promise<CopiedDatabase> {
  const { copies, total, shownUrl, onProgress } = work;
  // The copy takes long, and no gateway serves from the database.
  await target.rows("SET LOCAL statement_timeout = 0");
  await target.rows("SET LOCAL idle_in_transaction_session_timeout = 0");
  await requireEmpty(target, shownUrl);
  // Rows come with their history, which the rules would make them earn. Constraints stay on.
  await setRules(target, "DISABLE");
  for (const table of tables.oneRow) await target.rows(`DELETE FROM ${getTableName(table)}`);
  let copied = 0;
  const done: CopiedDatabase["tables"][number][] = [];
  for (const { name, copy, hasMoney } of copies) {
    const { rows, amount } = await copy(target, (more) => {
      copied += more;
      onProgress({ what: "copy", copied, total });
    });
    done.push({ name, rows: Number(rows), amount: hasMoney ? amount : undefined });
  }
  for (const { table } of COPIED)
    if (hasAssignedIds(table)) await continueNumbers(target, getTableName(table));
  const interrupted = await countInterrupted(sqlite, target);
  await setRules(target, "ENABLE");
  await target.rows("ANALYZE");
  onProgress({ what: "audit of the copy", copied, total });
  refuseProblems(shownUrl, await auditServer(target));
  const reserved = sqlite
    .query<{ sum: bigint }, []>("SELECT coalesce(sum(reserved), 0) AS sum FROM accounts")
    .get();
  return {
    tables: done,
    interrupted,
    released: reserved?.sum ?? 0n,
    balance: done.find(({ name }) => name === "accounts")?.amount ?? 0n,
  };
}

async function requireEmpty(target: Connection, shownUrl: string): Promise<void> {
  // A gateway that starts meanwhile waits here, and then finds what was copied.
  await target.rows("LOCK TABLE replicas IN SHARE MODE");
  if (!(await isAtRest(target)))
    throw new StoreError(
      `a gateway is running on ${shownUrl}: stop all of them first, and wait 15 s if one was killed`,
    );
  for (const { table } of COPIED) {
    if (tables.oneRow.includes(table)) continue;
    const row = await target.row(`SELECT 1 AS one FROM ${getTableName(table)} LIMIT 1`);
    if (row !== undefined)
      throw new StoreError(
        `the database ${shownUrl} is not empty: make a new one for the copy, and name it as the url of [database]`,
      );
  }
}

async function setRules(target: Connection, change: "ENABLE" | "DISABLE"): Promise<void> {
  for (const { table } of COPIED)
    await target.rows(`ALTER TABLE ${getTableName(table)} ${change} TRIGGER USER`);
}

function hasAssignedIds(table: SQLiteTable): boolean {
  return Object.hasOwn(getTableColumns(table), "id") && !tables.oneRow.includes(table);
}

async function continueNumbers(target: Connection, table: string): Promise<void> {
  await target.rows(
    `SELECT setval(pg_get_serial_sequence('${table}', 'id'), max(id)) FROM ${table} HAVING max(id) IS NOT NULL`,
  );
}

/** Adds the requests that were running to the totals. Returns their number. */
async function countInterrupted(sqlite: Database, target: Connection): Promise<number> {
  const rows = sqlite
    .query<Record<string, bigint | string | null>, []>(
      "SELECT at, account_id, key_id, model, provider, endpoint FROM requests WHERE status = 'running'",
    )
    .all();
  if (rows.length > 0)
    await target.rows(ADD_TO_TOTALS.replaceAll("$1", "$rows"), {
      rows: jsonOf(interruptedTotals(rows)),
    });
  return rows.length;
}
