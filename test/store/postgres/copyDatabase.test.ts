import { Database } from "bun:sqlite";
import { SQL } from "bun";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getTableColumns, getTableName, is, Table } from "drizzle-orm";
import * as tables from "../../../src/store/schema/schema.ts";
import {
  copyDatabase,
  openServerStore,
  takeInstanceLock,
  type CopyProgress,
} from "../../../src/store/open.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { freshDatabase, type TestDatabase } from "../../support/servers/postgres.ts";
import { openReplica } from "../../support/store/replica.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";
import { openSampleLedger, tamper } from "../../support/store/sampleLedger.ts";
import { issueVouchers } from "../../support/store/vouchers.ts";
import {
  actor,
  running,
  ended,
  endedPrice,
  costOfEnded,
  type StoreFolder,
} from "../../support/store/storeFolder.ts";

const shownUrl = "postgres://tollgate@server/copy";
const quiet = (): void => undefined;

/** Every row of every table, as sorted lines. */
type Rows = Record<string, readonly string[]>;

const copied = Object.values(tables as Record<string, unknown>).filter((one) => is(one, Table));

function rowsOfFile(path: string): Rows {
  const sqlite = new Database(path, { readonly: true, safeIntegers: true });
  const rows = copied.map((table) => {
    const columns = Object.values(getTableColumns(table)).map(({ name }) => name);
    const query = `SELECT ${columns.join(", ")} FROM ${getTableName(table)}`;
    return [getTableName(table), linesOf(sqlite.query(query).values())] as const;
  });
  sqlite.close();
  return Object.fromEntries(rows);
}

async function rowsOfServer(url: string): Promise<Rows> {
  const sql = new SQL(url, { max: 1, bigint: true });
  const rows: Rows = {};
  for (const table of copied) {
    const columns = Object.values(getTableColumns(table)).map(({ name }) => name);
    const query = `SELECT ${columns.join(", ")} FROM ${getTableName(table)}`;
    rows[getTableName(table)] = linesOf(await sql.unsafe(query).values());
  }
  await sql.close();
  return rows;
}

function linesOf(rows: readonly unknown[][]): readonly string[] {
  const text = (value: unknown): unknown => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
    return typeof value === "bigint" ? `${value}` : value;
  };
  return rows.map((row) => JSON.stringify(row.map(text))).toSorted();
}

describePostgres("the copy of a SQLite file", () => {
  let source: StoreFolder;
  let target: TestDatabase;
  beforeEach(async () => {
    source = await openSampleLedger();
    target = await freshDatabase();
  });
  afterEach(async () => {
    await source.close();
    await target.drop();
  });
  const copy = (onProgress: (progress: CopyProgress) => void = quiet) =>
    copyDatabase(source.path, { url: target.url, shownUrl }, onProgress);
  /** The rows of the accounts, or the reason why nothing can be read. */
  const ask = async (query: string): Promise<unknown> => {
    const sql = new SQL(target.url, { max: 1 });
    try {
      return await sql.unsafe(query).values();
    } finally {
      await sql.close();
    }
  };

  /** What the sample ledger has not: vouchers that have ended, an owner of an object, an open request, a reserve, notices. */
  async function addRest(): Promise<void> {
    const { store, writer } = source;
    const bob = await store.keys.findOrThrow("key_bob");
    const owner = { accountId: bob.accountId, keyId: bob.id, firstKeyId: bob.id };
    await source.record(running("req_open", owner));
    const searched = { webSearches: 2, charge: costOfEnded + 2n * endedPrice.webSearch };
    await source.record(ended("req_searched", owner, searched));
    await source.reserve(bob.accountId, 100_000n);
    const note = "spring \u{1F331} 'sale'\n\\";
    const [redeemed, revoked] = await issueVouchers(store, 3, { note });
    await store.admin.revokeVoucher(actor, revoked?.publicId ?? "");
    await writer.write({
      kind: "redeemVoucher",
      redemption: {
        voucherId: redeemed?.id ?? 0,
        accountId: bob.accountId,
        actor: "bob",
        at: actor.at,
      },
    });
    await store.admin.setAccount(actor, "bob", { low: 5n, notifyUrl: "mailto:bob@example.com" });
    await store.notices.change({ type: "account_low", subject: "bob", step: "hold", at: actor.at });
    tamper(
      source,
      `INSERT INTO response_owner VALUES (x'${"ab".repeat(32)}', 2, 'local', -5, 12)`,
      "UPDATE keys SET models = '[\"small\"]', label = 'caf\u00e9', budget = 9223372036854775807 WHERE id = 2",
    );
  }

  test("has every row as a start leaves it: open requests interrupted, reserves released", async () => {
    await addRest();
    const done = await copy();
    expect(done).toMatchObject({ interrupted: 1, released: 100_000n });
    const file = await source.store.accounts.list();
    expect(done.balance).toBe(file.reduce((sum, { balance }) => sum + balance, 0n));
    source.store.interruptRunning();
    const here = rowsOfFile(source.path);
    const there = await rowsOfServer(target.url);
    expect(Object.values(here).every((rows) => rows.length > 0)).toBe(true);
    expect(there).toEqual(here);
    // A group of the totals is only of the request that was open.
    const counts = Object.entries(here).map(([name, { length }]) => [name, length]);
    expect(Object.fromEntries(done.tables.map(({ name, rows }) => [name, rows]))).toEqual({
      ...Object.fromEntries(counts),
      daily_totals: (here["daily_totals"]?.length ?? 0) - 1,
    });
  });

  test("is a store whose new rows come after the copied ones, and whose rules act again", async () => {
    await copy();
    const store = await openServerStore({ url: target.url, shownUrl });
    await store.admin.createAccount(actor, "dora", 5n);
    const booking = { account: "bob", kind: "credit", amount: 5n, ref: null, note: null } as const;
    await store.admin.changeBalance(actor, booking);
    const { problems, accounts } = await store.audit();
    expect({ problems, accounts }).toEqual({ problems: [], accounts: 3 });
    await store.close();
    expect(ask("UPDATE ledger SET note = 'x'")).rejects.toThrow("ledger: rows are never changed");
  });

  test("leaves the file and its folder as they are", async () => {
    const copyPath = join(source.folder, "alone", "tollgate.db");
    mkdirSync(join(source.folder, "alone"));
    const sqlite = new Database(source.path);
    sqlite.run("VACUUM INTO ?", [copyPath]);
    sqlite.close();
    const before = readFileSync(copyPath);
    await copyDatabase(copyPath, { url: target.url, shownUrl }, quiet);
    expect(readFileSync(copyPath).equals(before)).toBe(true);
    expect(
      readdirSync(join(source.folder, "alone")).filter((name) => /-(?:wal|shm)$/.test(name)),
    ).toEqual([]);
  });

  test("tells how far it is, in rows of all tables", async () => {
    const told: CopyProgress[] = [];
    const { tables: done } = await copy((progress) => told.push(progress));
    const total = done.reduce((sum, { rows }) => sum + rows, 0);
    expect(told[0]).toEqual({ what: "audit of the file", copied: 0, total });
    expect(told.at(-1)).toEqual({ what: "audit of the copy", copied: total, total });
    const steps = told.slice(1, -1);
    expect(steps.every(({ what }) => what === "copy")).toBe(true);
    expect(steps.map(({ copied: rows }) => rows)).toEqual(
      steps.map(({ copied: rows }) => rows).toSorted((one, other) => one - other),
    );
  });

  test("that fails in the middle leaves the database empty, and can be made again", async () => {
    const failing = copy(({ copied: rows, total }) => {
      if (rows > total / 2) throw new Error("broken in the middle");
    });
    expect(failing).rejects.toThrow("broken in the middle");
    expect(await ask("SELECT count(*)::integer FROM accounts")).toEqual([[0]]);
    expect((await copy()).interrupted).toBe(0);
  });

  test("lets a gateway that starts meanwhile wait for its end", async () => {
    let isJoined = false;
    let atAudit: boolean | undefined;
    let joining: Promise<void> | undefined;
    await openServerStore({ url: target.url, shownUrl }).then((store) => store.close());
    const join = async (): Promise<void> => {
      await using _replica = await openReplica(target.url);
      isJoined = true;
    };
    await copy(({ what }) => {
      if (what === "copy") joining ??= join();
      else if (what === "audit of the copy") atAudit = isJoined;
    });
    await joining;
    expect([atAudit, isJoined]).toEqual([false, true]);
  });

  /** What is done before, and the words of the refusal. */
  const refusals: readonly (readonly [string, () => unknown, string])[] = [
    [
      "a gateway runs on the file",
      () => {
        const lock = takeInstanceLock(source.path);
        return { [Symbol.asyncDispose]: async () => lock?.release() };
      },
      "a gateway is running on",
    ],
    [
      "a gateway runs on the server",
      async () => {
        await openServerStore({ url: target.url, shownUrl }).then((store) => store.close());
        return await openReplica(target.url);
      },
      `a gateway is running on ${shownUrl}: stop all of them first, and wait 15 s if one was killed`,
    ],
    [
      "the database has a copy already",
      () => copy(),
      `the database ${shownUrl} is not empty: make a new one for the copy, and name it as the url of [database]`,
    ],
    [
      "the database has only a log of commands",
      async () => {
        await openServerStore({ url: target.url, shownUrl }).then((store) => store.close());
        await ask("INSERT INTO admin_log (at, actor, command, subject) VALUES (1, 'a', 'b', 'c')");
      },
      "is not empty",
    ],
    [
      "the database has tables of another program",
      () => ask("CREATE TABLE shop (id integer)"),
      "the database has tables of another program",
    ],
    [
      "the audit of the file finds a problem",
      () => tamper(source, "UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'"),
      "finds problems (2, the first: account bob: balance is not the sum of its ledger)",
    ],
    [
      "the audit of the copy finds a problem",
      async () => {
        await openServerStore({ url: target.url, shownUrl }).then((store) => store.close());
        await ask("ALTER TABLE keys DROP CONSTRAINT keys_spent");
      },
      `nothing was copied: the audit of ${shownUrl} finds problems (1, the first: schema: constraint keys.keys_spent is missing)`,
    ],
    [
      "the copy has other rows",
      async () => {
        await openServerStore({ url: target.url, shownUrl }).then((store) => store.close());
        await ask("CREATE RULE none AS ON INSERT TO attempts DO INSTEAD NOTHING");
      },
      "nothing was copied: the copy of the table attempts differs from the file",
    ],
    [
      "the server has no such text",
      () => tamper(source, "UPDATE keys SET label = 'a' || char(0) || 'b' WHERE id = 2"),
      "nothing was copied: the server refuses a row of the table keys",
    ],
    [
      "the file has the schema of a newer version",
      () => tamper(source, "PRAGMA user_version = 1000"),
      "database was written by a newer version of tollgate",
    ],
    [
      "the file is of another program",
      () => tamper(source, "PRAGMA user_version = 0"),
      "database belongs to another program",
    ],
    [
      "the file has the schema of an earlier version",
      () => tamper(source, "PRAGMA user_version = 8"),
      "has the schema of an earlier version: run `tollgate audit` of this version",
    ],
  ];

  test.each(refusals)("is refused if %s", async (_, prepare, words) => {
    const before = (await prepare()) as Partial<AsyncDisposable> | undefined;
    try {
      const earlier = rowsOfFile(source.path);
      expect(copy()).rejects.toThrow(words);
      expect(rowsOfFile(source.path)).toEqual(earlier);
    } finally {
      await before?.[Symbol.asyncDispose]?.();
    }
  });

  test("is refused without a file, and for a file that is no database", async () => {
    const address = { url: target.url, shownUrl };
    const none = join(source.folder, "none.db");
    expect(copyDatabase(none, address, quiet)).rejects.toThrow(`there is no database at ${none}`);
    const text = join(source.folder, "text.db");
    writeFileSync(
      text,
      "no database at all, but a file of more than a hundred bytes of text, ".repeat(3),
    );
    expect(copyDatabase(text, address, quiet)).rejects.toThrow(
      "database is damaged or not a database",
    );
  });

  test("is refused if the server cannot be reached", async () => {
    const address = {
      url: "postgres://tollgate@127.0.0.1:1/none",
      shownUrl: "postgres://server/none",
    };
    expect(copyDatabase(source.path, address, quiet)).rejects.toThrow(
      "the database postgres://server/none cannot be used",
    );
  });

  test("does not wait for a gateway that was killed long ago", async () => {
    await using empty = await replicaDatabase();
    const sql = new SQL(empty.url, { max: 1 });
    await sql`INSERT INTO replicas (name, version, started_at, seen_at, last_batch) VALUES ('gone', '1', 0, 0, 0)`;
    await sql.close();
    const address = { url: empty.url, shownUrl };
    expect((await copyDatabase(source.path, address, quiet)).interrupted).toBe(0);
  });
});
