import { SQL } from "bun";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { requestStatuses } from "../../../src/contract/account/requestStatus.ts";
import { DAY_MS } from "../../../src/lib/clock.ts";
import type { Connection } from "../../../src/store/connection.ts";
import { PostgresPool } from "../../../src/store/postgres/pool.ts";
import { PostgresQueries } from "../../../src/store/postgres/queries.ts";
import { requestList, type RequestFilter } from "../../../src/store/tables/requestList.ts";
import { usage } from "../../../src/store/usage/usage.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import type { TestDatabase } from "../../support/servers/postgres.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";

const DAY = 20_000;
const days = { from: DAY, to: DAY + 3 };
/** A read of an account that has some hundred requests among 80,000 may look at so many of all rows and index entries. */
const LOOKED_AT_MAX = 9000;

/** Accounts and keys have the same row ids. Old requests have the smaller ids. */
const account = { old: 1, failing: 2, busy: 3, running: 4, none: 5 } as const;
const accounts = Object.entries(account);

/** Requests of an account, from a row id on. A charge has the number of its row, so that it is the account's own. */
function inserted(id: number, first: number, count: number, status: string): string {
  const isCharged = status === "done";
  return `INSERT INTO requests (id, public_id, at, account_id, key_id, endpoint, model, stream, status, price_input,
      price_cached_input, price_cache_write, price_cache_write_1h, price_output, figures_price, hold, attempt_count,
      duration_ms, ledger_seq, balance_after, replica_id)
    SELECT n, 'req_' || n, ${DAY * DAY_MS} + n * 3000, ${id}, ${id}, 'chat', 'small', 0, '${status}', 0, 0, 0, 0, 0, 0, 0, 1,
      5, ${isCharged ? "n" : "NULL"}, ${isCharged ? "0" : "NULL"}, ${status === "running" ? "1" : "NULL"}
    FROM generate_series(${first}, ${first + count - 1}) AS n`;
}

describePostgres("a read of one account on PostgreSQL", () => {
  let database: TestDatabase;
  let pool: PostgresPool;

  beforeAll(async () => {
    database = await replicaDatabase();
    await using sql = new SQL(database.url, { max: 1 });
    await sql.begin(async (filling) => {
      // Without triggers: the rows are there to be read.
      await filling.unsafe("SET LOCAL session_replication_role = replica");
      for (const [name, id] of accounts) {
        await filling`INSERT INTO accounts (id, name, created_at, ledger_seq) VALUES (${id}, ${name}, 0, 300)`;
        await filling`INSERT INTO keys (id, public_id, account_id, hash, prefix, created_at)
          VALUES (${id}, ${`key_${name}`}, ${id}, sha256(${name}::text::bytea), 'sk', 0)`;
      }
      let next = 1;
      const add = async (id: number, count: number, status: string): Promise<void> => {
        await filling.unsafe(inserted(id, next, count, status));
        next += count;
      };
      for (const status of ["failed", "cancelled", "interrupted", "done"])
        await add(account.old, 300, status);
      await add(account.busy, 40_000, "done");
      await add(account.failing, 38_000, "failed");
      await add(account.running, 600, "running");
      await filling.unsafe(`INSERT INTO daily_totals (day, account_id, key_id, model, provider, endpoint, requests, failed,
          charged, prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, charge, write_off, operator_cost)
        SELECT at / ${DAY_MS}, account_id, key_id, model, '', endpoint, count(*),
          count(*) FILTER (WHERE status IN ('failed', 'interrupted')), count(ledger_seq), 0, 0, 0, 0, 0, 0, 0
        FROM requests WHERE status <> 'running' GROUP BY 1, 2, 3, 4, 5, 6`);
    });
    await sql.unsafe("ANALYZE");
    pool = new PostgresPool({ url: database.url, shownUrl: "postgres://server/read" });
  }, 60_000);
  afterAll(async () => {
    await pool.close();
    await database.drop();
  });

  /** How many rows and index entries of `requests` a read looks at. */
  const lookedAt = (plans: string, read: (connection: Connection) => Promise<unknown>) =>
    new PostgresQueries(pool).inSnapshot(async (snapshot) => {
      await snapshot.rows(`SET LOCAL plan_cache_mode = ${plans}`);
      const count = async () => {
        const [row] = await snapshot.plainRows<[number]>(
          `SELECT CAST(sum(pg_stat_get_xact_tuples_returned(oid)) AS bigint) FROM pg_class
            WHERE oid = 'requests'::regclass
              OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'requests'::regclass)`,
        );
        return row?.[0] ?? 0;
      };
      const before = await count();
      await read(snapshot);
      return (await count()) - before;
    });

  const page = (connection: Connection, id: number, status: (typeof requestStatuses)[number]) =>
    list(connection, { account: id, status });
  const list = (connection: Connection, filter: RequestFilter) =>
    requestList(connection)(filter, { limit: 50, stepRows: 500, examinedMax: 4000 });

  type Read = (connection: Connection, id: number, name: string) => Promise<unknown>;
  const reads: readonly (readonly [string, Read])[] = [
    ...requestStatuses.map((status): [string, Read] => [
      `page of requests that are ${status}`,
      (connection, id) => page(connection, id, status),
    ]),
    ["page of all requests", (connection, id) => list(connection, { account: id })],
    [
      "usage by day",
      (connection, id) => usage(connection).ofAccountByDay(id, days, async () => {}),
    ],
    [
      "usage by hour",
      (connection, id) => usage(connection).ofAccountByHour(id, days, async () => {}),
    ],
    ["list of an account", (connection, _, name) => list(connection, { account: name })],
    [
      "list by key",
      (connection, _, name) => list(connection, { key: `key_${name}`, status: "done" }),
    ],
    [
      "list by account and status",
      (connection, _, name) => list(connection, { account: name, status: "failed" }),
    ],
  ];

  for (const plans of ["force_custom_plan", "force_generic_plan"])
    test.each(reads)(
      `looks at its own requests only, with ${plans}: %s`,
      async (_, read) => {
        for (const [name, id] of accounts.filter(([one]) =>
          ["old", "running", "none"].includes(one),
        )) {
          const rows = await lookedAt(plans, (connection) => read(connection, id, name));
          expect({ name, isFew: rows <= LOOKED_AT_MAX, rows }).toMatchObject({ isFew: true });
        }
      },
      20_000,
    );

  test.each(requestStatuses.filter((status) => status !== "running"))(
    "of a page that is %s looks at a few rows, also if the account has very many",
    async (status) => {
      for (const id of [account.failing, account.busy]) {
        const rows = await lookedAt("auto", (connection) => page(connection, id, status));
        expect({ id, isFew: rows <= LOOKED_AT_MAX, rows }).toMatchObject({ isFew: true });
      }
    },
  );
});
