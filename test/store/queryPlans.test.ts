import { SQL } from "bun";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { requestStatuses } from "../../src/contract/account/requestStatus.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import type { Connection } from "../../src/store/connection.ts";
import { PostgresPool } from "../../src/store/postgres/pool.ts";
import { PostgresQueries, transactionQueries } from "../../src/store/postgres/queries.ts";
import { FIND_LATE_ROWS } from "../../src/store/postgres/writer/statements.ts";
import { readAttention } from "../../src/store/reports/attention.ts";
import { readRecentAttempts } from "../../src/store/reports/attempts.ts";
import { readLatencies } from "../../src/store/reports/latency.ts";
import { reports } from "../../src/store/reports/reports.ts";
import { SqliteTransaction } from "../../src/store/sqlite/queries.ts";
import { connect } from "../../src/store/sqlite/sqlite.ts";
import { keyTable } from "../../src/store/tables/keys.ts";
import { ledgerTable } from "../../src/store/tables/ledger.ts";
import { requestTable } from "../../src/store/tables/requests.ts";
import { voucherTable } from "../../src/store/tables/vouchers.ts";
import type { RequestFilter } from "../../src/store/tables/requestList.ts";
import { usage } from "../../src/store/usage/usage.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import type { TestDatabase } from "../support/servers/postgres.ts";
import {
  costOfEnded,
  ended,
  fund,
  openStoreFolder,
  unbilled,
  type StoreFolder,
} from "../support/store/storeFolder.ts";
import { replicaDatabase } from "../support/store/replicaDatabase.ts";

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

type Read = (connection: Connection) => Promise<unknown>;

const NOW = (DAY + 3) * DAY_MS;
const noPause = async (): Promise<void> => {};
const listOf =
  (filter: RequestFilter): Read =>
  (connection) =>
    requestTable(connection).list(filter, { limit: 50, stepRows: 500, examinedMax: 4000 });
const history: Read = (connection) => ledgerTable(connection).history(1, 5);

const ofReceipt = ["ledger_refunds", "request_figures by key"];
const ofPage = [...ofReceipt, "requests by key", "attempts by key"];
const ofTotals = ["daily_totals by key", "daily_figures by key", "requests_not_done"];
const ofSums = [...ofTotals, ...ofReceipt];

/** The indexes by which each read finds rows of the large tables. No read goes through all rows of one. */
const plans: readonly (readonly [string, Read, readonly string[]])[] = [
  ["requests", listOf({}), ofPage],
  ["requests since a time", listOf({ since: 5 }), [...ofPage, "requests_at"]],
  ["requests of an account", listOf({ account: 1 }), [...ofPage, "requests_account"]],
  ["requests of a model", listOf({ account: 1, model: "small" }), [...ofPage, "requests_account"]],
  [
    "requests of an account since a time",
    listOf({ account: 1, since: 5 }),
    [...ofPage, "requests_account", "requests_at"],
  ],
  ["done requests", listOf({ status: "done", account: 1 }), [...ofPage, "requests_account"]],
  ["failed requests", listOf({ status: "failed" }), [...ofPage, "requests_not_done"]],
  [
    "failed requests of an account",
    listOf({ status: "failed", account: 1 }),
    [...ofPage, "requests_not_done"],
  ],
  [
    "failed requests since a time",
    listOf({ status: "failed", since: 5 }),
    [...ofPage, "requests_not_done", "requests_at"],
  ],
  [
    "a receipt",
    (connection) => requestTable(connection).find("req_1"),
    [...ofReceipt, "requests_public_id_unique"],
  ],
  [
    "the attempts of a request",
    (connection) => requestTable(connection).attempts("none"),
    [...ofReceipt, "requests_public_id_unique", "attempts by key"],
  ],
  ["the newest request", (connection) => requestTable(connection).newestAt(NOW), ["requests_at"]],
  [
    "a key by its hash",
    (connection) => keyTable(connection).findByHash(new Uint8Array(32)),
    ["keys_hash_unique"],
  ],
  ["a key", (connection) => keyTable(connection).find("none"), ["keys_public_id_unique"]],
  [
    "a voucher by its hash",
    (connection) => voucherTable(connection).findByHash(new Uint8Array(32)),
    ["vouchers_hash_unique"],
  ],
  ["the history of an account", history, ["ledger_account_seq", "requests_account_seq"]],
  [
    "usage by model",
    (connection) => usage(connection).by("model", { since: 5, until: NOW - 5 }),
    [...ofSums, "requests_at"],
  ],
  [
    "usage of an account by model",
    (connection) => usage(connection).by("model", { since: 5, until: NOW - 5, account: "old" }),
    [...ofSums, "requests_at"],
  ],
  [
    "usage of an account by day",
    (connection) => usage(connection).ofAccountByDay(1, days, noPause),
    ofSums,
  ],
  [
    "usage of an account by hour",
    (connection) => usage(connection).ofAccountByHour(1, days, noPause),
    [...ofReceipt, "requests_account", "requests_at"],
  ],
  [
    "the view of an account",
    (connection) => reports(connection).account(1, "30d", NOW),
    [...ofSums, "requests_at"],
  ],
  [
    "the view of providers",
    (connection) => reports(connection).providers("90d", NOW),
    [...ofTotals, "requests_at", "attempts by key", "requests by key"],
  ],
  [
    "latencies",
    (connection) => readLatencies(connection, { from: 5, to: NOW }),
    ["requests_at", "requests by key"],
  ],
  [
    "recent attempts",
    (connection) => readRecentAttempts(connection, NOW - 5),
    ["requests_at", "attempts by key"],
  ],
  [
    "what needs attention",
    (connection) => readAttention(connection, { from: 5, to: NOW }, NOW),
    [
      "daily_totals by key",
      "requests_at",
      "requests_not_done",
      "requests by key",
      "attempts by key",
    ],
  ],
];

const LARGE = [
  "requests",
  "attempts",
  "request_figures",
  "ledger",
  "daily_totals",
  "daily_figures",
];

/** The indexes in the lines of plans, and the tables that are read as a whole. */
function accessOf(lines: readonly string[]): string[] {
  const found = lines.flatMap((line) => {
    const [, scanned] = /^\s*(?:->\s+)?(?:SCAN|Seq Scan on) (\w+)(?! USING)/.exec(line) ?? [];
    if (scanned !== undefined) return LARGE.includes(scanned) ? [`all rows of ${scanned}`] : [];
    const [, keyOf] = /SEARCH (\w+) USING (?:INTEGER )?PRIMARY KEY/.exec(line) ?? [];
    if (keyOf !== undefined) return LARGE.includes(keyOf) ? [`${keyOf} by key`] : [];
    const [, index] = /(?:INDEX|using|Bitmap Index Scan on) (\w+)/.exec(line) ?? [];
    if (index === undefined || /^(?:accounts_|keys_account|keys_pkey)/.test(index)) return [];
    // PostgreSQL cuts a long name.
    const isKey = /_pk(?:ey)?$/.test(index) || index.length === 63;
    const table = LARGE.find((one) => isKey && index.startsWith(`${one}_`));
    return [table === undefined ? index : `${table} by key`];
  });
  return [...new Set(found)].toSorted();
}

describe("on SQLite the plan of", () => {
  let folder: StoreFolder;
  beforeAll(async () => {
    folder = await openStoreFolder();
    const owner = await fund(folder.store, "old", costOfEnded);
    await folder.record(ended("req_1", owner, { at: NOW - 5 }));
    await folder.record(ended("req_2", owner, { ...unbilled, attempts: [], at: NOW - 5 }));
    // A span of so many row ids is sampled.
    const { sqlite } = connect(folder.path, "process");
    sqlite.run("DROP TRIGGER requests_end_once");
    sqlite.run("UPDATE requests SET id = 50000 WHERE id = 2");
    sqlite.close();
  });
  afterAll(() => folder.close());

  const linesOf = async (read: Read): Promise<string[]> => {
    const { sqlite } = connect(folder.path, "process");
    const texts = new Set<string>();
    const recording = new Proxy(sqlite, {
      get(target, name) {
        if (name !== "query" && name !== "prepare") return Reflect.get(target, name, target);
        return (text: string) => {
          texts.add(text);
          return target.prepare(text);
        };
      },
    });
    await read(new SqliteTransaction(recording));
    const lines = [...texts].flatMap((text) =>
      sqlite.prepare<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${text}`).all(),
    );
    sqlite.close();
    return lines.map(({ detail }) => detail);
  };

  test.each(plans)("%s", async (_, read, expected) => {
    expect(accessOf(await linesOf(read))).toEqual(expected.toSorted());
  });

  test("the history of an account has no sort", async () => {
    expect((await linesOf(history)).join("\n")).not.toContain("TEMP B-TREE");
  });
});

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
    await sql.unsafe(`INSERT INTO accounts (id, name, created_at) SELECT n, 'account' || n, 0 FROM generate_series(100, 999) AS n;
      INSERT INTO keys (id, public_id, account_id, hash, prefix, created_at)
        SELECT n, 'key_' || n, n, sha256(n::text::bytea), 'sk', 0 FROM generate_series(100, 999) AS n;
      INSERT INTO vouchers (public_id, hash, prefix, amount, created_at)
        SELECT 'v_' || n, sha256(n::text::bytea), 'v', 1, 0 FROM generate_series(100, 999) AS n`);
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

  type ReadOf = (connection: Connection, id: number, name: string) => Promise<unknown>;
  const list = (connection: Connection, filter: RequestFilter) => listOf(filter)(connection);
  const reads: readonly (readonly [string, ReadOf])[] = [
    ...requestStatuses.map((status): [string, ReadOf] => [
      `page of requests that are ${status}`,
      (connection, id) => list(connection, { account: id, status }),
    ]),
    ["page of all requests", (connection, id) => list(connection, { account: id })],
    ["usage by day", (connection, id) => usage(connection).ofAccountByDay(id, days, noPause)],
    ["usage by hour", (connection, id) => usage(connection).ofAccountByHour(id, days, noPause)],
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

  /** The plans of texts for all values, by the number of their values. */
  const linesOf = async (read: (sent: Map<string, number>, sql: SQL) => Promise<unknown>) => {
    await using sql = new SQL(database.url, { max: 1, bigint: true });
    const sent = new Map<string, number>();
    await read(sent, sql);
    // Some tables are nearly empty.
    await sql.unsafe("SET enable_seqscan = off");
    await sql.unsafe("SET plan_cache_mode = force_generic_plan");
    const lines: string[] = [];
    for (const [text, count] of sent) {
      await sql.unsafe(`PREPARE sent AS ${text}`);
      const values = count === 0 ? "" : `(${Array(count).fill("NULL").join(", ")})`;
      const rows = await sql.unsafe<{ line: string }[]>(`EXPLAIN EXECUTE sent${values}`).values();
      lines.push(...rows.flat().map(String));
      await sql.unsafe("DEALLOCATE sent");
    }
    return lines;
  };
  const linesOfRead = (read: Read) =>
    linesOf((sent, sql) =>
      read(
        transactionQueries({
          unsafe(text, values = []) {
            sent.set(text, values.length);
            return sql.unsafe(text, values);
          },
        }),
      ),
    );

  test.each(plans)("the plan of %s", async (_, read, expected) => {
    expect(accessOf(await linesOfRead(read))).toEqual(expected.toSorted());
  });

  test("the history of an account has no sort", async () => {
    expect((await linesOfRead(history)).join("\n")).not.toMatch(/->  Sort/);
  });

  test("the writer finds late rows by their ids", async () => {
    const lines = await linesOf(async (sent) => sent.set(FIND_LATE_ROWS, 1));
    expect(accessOf(lines)).toEqual(["requests_public_id_unique"]);
  });

  test.each(requestStatuses.filter((status) => status !== "running"))(
    "of a page that is %s looks at a few rows, also if the account has very many",
    async (status) => {
      for (const id of [account.failing, account.busy]) {
        const rows = await lookedAt("auto", listOf({ account: id, status }));
        expect({ id, isFew: rows <= LOOKED_AT_MAX, rows }).toMatchObject({ isFew: true });
      }
    },
  );
});
