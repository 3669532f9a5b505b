import { afterAll, afterEach, beforeAll, beforeEach, describe } from "bun:test";
import type { ReservedSQL, SQL } from "bun";
import { openClient } from "../../../src/store/postgres/pool.ts";
import { auditServer } from "../../../src/store/postgres/audit/audit.ts";
import { transactionQueries } from "../../../src/store/postgres/queries.ts";
import type { AuditReport } from "../../../src/store/store.ts";
import { describePostgres } from "../servers/describeServers.ts";
import { fillSampleLedger, openSampleLedger, tamper } from "./sampleLedger.ts";
import { copyToServer, type ServerCopy } from "./serverCopy.ts";
import { databaseOf, openCopy, type StoreFolder } from "./storeFolder.ts";

/** The sample ledger on one engine, for each test a new one. */
export interface AuditedLedger {
  /** Does what rules and constraints forbid, as a person with access to the database could. */
  tamper(...statements: readonly string[]): Promise<void>;
  audit(): Promise<AuditReport>;
}

/** Changes the sample ledger before the tests. */
type Prepare = (folder: StoreFolder) => Promise<void>;

/**
 * Registers the same corruptions for both engines. On PostgreSQL the problems of the schema are left out: constraints have
 * to be dropped before a row can break them.
 */
export function describeAudited(
  name: string,
  register: (ledger: AuditedLedger) => void,
  prepare: Prepare = async () => undefined,
): void {
  describe(`${name} on SQLite`, () => register(sqliteLedger(prepare)));
  describePostgres(`${name} on PostgreSQL`, () => register(serverLedger(prepare)));
}

function sqliteLedger(prepare: Prepare): AuditedLedger {
  let database: Uint8Array;
  let folder: StoreFolder;
  beforeAll(async () => {
    database = await databaseOf(fillSampleLedger, prepare);
  });
  beforeEach(async () => {
    folder = await openCopy(database);
  });
  afterEach(() => folder.close());
  return {
    async tamper(...statements) {
      tamper(folder, ...statements);
    },
    async audit() {
      return folder.store.auditHere();
    },
  };
}

/** One database for all tests: each works in a transaction that is rolled back. */
export function serverLedger(prepare: Prepare = async () => undefined): AuditedLedger {
  let copy: ServerCopy;
  let client: SQL;
  let connection: ReservedSQL;
  beforeAll(async () => {
    const folder = await openSampleLedger();
    try {
      await prepare(folder);
      copy = await copyToServer(folder.path);
    } finally {
      await folder.close();
    }
    client = openClient({ url: copy.url, shownUrl: "the copy" }, 1);
    connection = await client.reserve();
    // So that rows can break them.
    for (const { name, table } of await connection.unsafe<{ name: string; table: string }[]>(
      "SELECT conname AS name, conrelid::regclass AS table FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0",
    ))
      await connection.unsafe(`ALTER TABLE ${table} DROP CONSTRAINT ${name}`);
  });
  // A query is sent when it is awaited.
  beforeEach(async () => {
    await connection.unsafe("BEGIN");
  });
  afterEach(async () => {
    await connection.unsafe("ROLLBACK");
  });
  afterAll(async () => {
    void connection.release();
    await client.close();
    await copy[Symbol.asyncDispose]();
  });
  return {
    async tamper(...statements) {
      // Neither triggers nor foreign keys act then.
      await connection.unsafe("SET LOCAL session_replication_role = replica");
      for (const statement of statements) await connection.unsafe(statement);
      await connection.unsafe("SET LOCAL session_replication_role = origin");
    },
    async audit() {
      const report = await auditServer(transactionQueries(connection));
      const problems = report.problems.filter((line) => !line.startsWith("schema: "));
      return { ...report, problems };
    },
  };
}
