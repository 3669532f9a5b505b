import { SQL } from "bun";
import { Database } from "bun:sqlite";
import { existsSync, readFileSync } from "node:fs";
import { auditStore } from "../../../src/store/sqlite/audit/auditSqlite.ts";
import { openServerStore, openStore } from "../../../src/store/open.ts";
import type { Store } from "../../../src/store/store.ts";
import { connect } from "../../../src/store/sqlite/sqlite.ts";
import type { DatabasePlace } from "../auditor/databaseRows.ts";
import { tamper } from "./sampleLedger.ts";

/** The rows of a query in the language of both engines. Integers are bigints. */
export async function rowsAt<Row>(place: DatabasePlace, text: string): Promise<Row[]> {
  if ("path" in place) {
    using file = new Database(place.path, { readonly: true, safeIntegers: true });
    return file.query<Row, []>(text).all();
  }
  await using sql = new SQL(place.url, { max: 1, bigint: true });
  return Array.from(await sql.unsafe<Row[]>(text));
}

/** Does what triggers forbid, as a person with access to the database could. No gateway serves from it. */
export async function tamperAt(
  place: DatabasePlace,
  ...statements: readonly string[]
): Promise<void> {
  if ("path" in place) return tamper(place, ...statements);
  await using sql = new SQL(place.url, { max: 1 });
  await sql.begin(async (transaction) => {
    await transaction.unsafe("SET LOCAL session_replication_role = replica");
    for (const statement of statements) await transaction.unsafe(statement);
  });
}

/** The store of the product, beside a gateway that serves from it. Close it. */
export async function openStoreAt(place: DatabasePlace): Promise<Store> {
  if ("path" in place)
    return openStore({ path: place.path, durability: "process", serving: false });
  return await openServerStore({ url: place.url, shownUrl: "the database of the test" });
}

/** The problems that the product's own audit finds. `atRest`: no gateway serves from a file, so nothing is reserved. */
export async function auditAt(
  place: DatabasePlace,
  options: { readonly atRest: boolean },
): Promise<readonly string[]> {
  if ("path" in place) {
    const connection = connect(place.path, "process");
    try {
      return (await auditStore(connection, options)).problems;
    } finally {
      connection.sqlite.close();
    }
  }
  const store = await openStoreAt(place);
  try {
    const { problems } = await store.audit();
    return problems;
  } finally {
    await store.close();
  }
}

/** Everything that a database has on its disk, as text. */
export async function storedText(place: DatabasePlace): Promise<string> {
  if ("path" in place) {
    const files = [place.path, `${place.path}-wal`].filter((file) => existsSync(file));
    return files.map((file) => readFileSync(file, "latin1")).join("\n");
  }
  const texts: string[] = [];
  for (const name of await tableNames(place)) {
    const rows = `SELECT CAST(t AS text) AS row FROM ${name} t`;
    texts.push(...(await rowsAt<{ row: string }>(place, rows)).map(({ row }) => row));
  }
  return texts.join("\n");
}

/** A transaction of another process, beside which nothing can be committed. Others can read. */
export interface HeldWrites extends AsyncDisposable {
  /** Ends the transaction. */
  release(): Promise<void>;
}

/** Begins such a transaction. `await using` ends it at the latest. */
export async function holdWrites(place: DatabasePlace): Promise<HeldWrites> {
  const end = "path" in place ? lockFile(place.path) : await lockTables(place);
  let ended: Promise<void> | undefined;
  const release = () => (ended ??= end());
  return { release, [Symbol.asyncDispose]: release };
}

function lockFile(path: string): () => Promise<void> {
  const file = new Database(path);
  file.run("PRAGMA busy_timeout = 5000; BEGIN IMMEDIATE");
  return async () => {
    file.run("ROLLBACK");
    file.close();
  };
}

async function lockTables(place: { readonly url: string }): Promise<() => Promise<void>> {
  const names = await tableNames(place);
  const server = new SQL(place.url, { max: 1 });
  const connection = await server.reserve();
  await connection.unsafe("BEGIN");
  await connection.unsafe(`LOCK TABLE ${names.join(", ")} IN EXCLUSIVE MODE`);
  return async () => {
    await connection.unsafe("ROLLBACK");
    await connection.release();
    await server.close();
  };
}

async function tableNames(place: { readonly url: string }): Promise<readonly string[]> {
  const tables = "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()";
  return (await rowsAt<{ name: string }>(place, tables)).map(({ name }) => name);
}
