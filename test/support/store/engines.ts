import { describe } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Connection } from "../../../src/store/connection.ts";
import { PostgresPool } from "../../../src/store/postgres/pool.ts";
import { PostgresQueries } from "../../../src/store/postgres/queries.ts";
import { connect } from "../../../src/store/sqlite/sqlite.ts";
import { openStore } from "../../../src/store/open.ts";
import { describePostgres } from "../servers/describeServers.ts";
import { replicaDatabase } from "./replicaDatabase.ts";

/** A new database without accounts. `await using` removes it. */
export interface EngineUnderTest extends AsyncDisposable {
  readonly connection: Connection;
}

/** Registers the same tests for both engines. Those on PostgreSQL are skipped, and say so, without a server. */
export function describeEngines(
  name: string,
  register: (open: () => Promise<EngineUnderTest>) => void,
): void {
  describe(`${name} on SQLite`, () => register(openSqlite));
  describePostgres(`${name} on PostgreSQL`, () => register(openPostgres));
}

async function openSqlite(): Promise<EngineUnderTest> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-engine-"));
  const path = join(folder, "tollgate.db");
  openStore({ path, durability: "process", serving: false }).closeNow();
  const { queries, sqlite } = connect(path, "process");
  return {
    connection: queries,
    async [Symbol.asyncDispose]() {
      sqlite.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export async function openPostgres(): Promise<EngineUnderTest & { readonly url: string }> {
  const database = await replicaDatabase();
  const pool = new PostgresPool({
    url: database.url,
    shownUrl: "postgres://tollgate@server/tollgate",
  });
  return {
    url: database.url,
    connection: new PostgresQueries(pool),
    async [Symbol.asyncDispose]() {
      await pool.close();
      await database.drop();
    },
  };
}
