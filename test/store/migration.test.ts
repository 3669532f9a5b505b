import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { copiesRequests, createSchema } from "../../src/store/sqlite/schema/migrations.ts";
import { connect } from "../../src/store/sqlite/sqlite.ts";
import {
  backUp,
  inspectStore,
  needsUpgrade,
  openStore,
  type SqliteStore,
  type UpgradeStep,
} from "../../src/store/open.ts";
import {
  addRunningRequests,
  makeEarlierVersion,
  makeEmptyVersion,
  upgrade,
  versionsOf,
} from "../support/store/earlierVersion.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { actor } from "../support/store/storeFolder.ts";

const KNOWN = versionsOf("sqlite").at(-1) ?? 0;
/** The schemas of 0.2.0 and of what came after it. */
const VERSIONS = versionsOf("sqlite").slice(0, -1);
const [OF_020 = 0] = VERSIONS;
const LAST_VERSION = KNOWN - 1;
const isCopied = copiesRequests({ applied: OF_020, known: KNOWN });

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-migration-"));
  path = join(folder, "tollgate.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The content of the file. */
function read(...queries: readonly string[]): unknown[][] {
  const sqlite = new Database(path, { safeIntegers: true });
  try {
    return queries.map((query) => sqlite.query(query).all());
  } finally {
    sqlite.close();
  }
}

function everything(): unknown[] {
  const [tables = []] = read("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
  const names = (tables as { name: string }[]).map(({ name }) => name);
  return read(
    "PRAGMA user_version",
    "SELECT * FROM sqlite_schema ORDER BY name",
    ...names.map((name) => `SELECT * FROM "${name}"`),
  );
}

async function withStore(work: (store: SqliteStore) => Promise<void>): Promise<void> {
  await upgrade(path);
  const store = openStore({ path, durability: "process", serving: true });
  try {
    await work(store);
  } finally {
    store.closeNow();
  }
}

describe.each(VERSIONS)("a store with schema %i", (version) => {
  beforeEach(() => makeEarlierVersion(path, version));

  test("keeps each history, request and attempt", async () => {
    const [ledger, requests, attempts] = read(
      `SELECT account_id AS accountId, seq, kind, amount, balance_after AS balanceAfter, ref, actor, note, at,
        iif(kind = 'charge', substr(ref, 5),
          (SELECT substr(c.ref, 5) FROM history c WHERE (c.account_id, c.seq) = (l.account_id, l.refund_of))) AS requestId
        FROM history l ORDER BY account_id, seq DESC`,
      `SELECT public_id AS id, at, status, hold, charge, prompt_tokens AS promptTokens, ${searchesOf(version)} AS webSearches,
        duration_ms AS durationMs FROM requests ORDER BY requests.id DESC`,
      `SELECT public_id AS request, a.provider, outcome, a.status, a.duration_ms AS durationMs
        FROM attempts a JOIN requests r ON r.id = a.request_id ORDER BY request_id DESC, n`,
    );
    await withStore(async (store) => {
      const histories = [
        ...(await store.ledger.history(1, 100)),
        ...(await store.ledger.history(2, 100)),
      ];
      expect(asText(histories)).toMatchObject(asText(ledger));
      const list = (await store.requests.list({}, { limit: 100 })).rows;
      expect(asText(list)).toMatchObject(asText(requests));
      const found = await Promise.all(
        list.map(async ({ id }) =>
          (await store.requests.attempts(id)).map((attempt) =>
            Object.assign({ request: id }, attempt),
          ),
        ),
      );
      expect(asText(found.flat().filter(isInTable))).toEqual(asText(attempts));
      for (const account of ["alice", "bob"])
        expect((await store.requests.list({ account }, { limit: 100 })).rows).toEqual(
          list.filter((request) => request.account === account),
        );
    });
  });

  test("goes on: its audit finds no problem, charges are refunded, requests are interrupted and folded", async () => {
    await withStore(async (store) => {
      expect(await store.auditHere()).toMatchObject({ problems: [], requests: 9 });
      expect(await store.keys.list("alice")).toMatchObject([{ spent: 6350n }]);
      expect(store.interruptRunning()).toEqual({ count: 1, reserved: 0n });
      const refund = (request: string) =>
        store.admin.refund(actor, { request, amount: null, ref: null, note: null });
      expect(await refund("req_done")).toMatchObject({ amount: 380n });
      expect(() => refund("req_folded")).toThrow("tollgate balance credit alice");
      expect(await store.keys.list("alice")).toMatchObject([{ spent: 5970n }]);
      expect(await store.usage.by("day", {})).toMatchObject([
        { group: "2025-12-29", requests: 3, failed: 1, webSearches: 2, cost: 2125n },
        {
          group: "2026-01-01",
          requests: 6,
          failed: 0,
          webSearches: 1,
          cost: 1550n,
          refunded: 500n,
        },
        { group: "2026-01-02", requests: 3, failed: 2, webSearches: 3, cost: 2875n },
      ]);
      expect((await store.auditHere()).problems).toEqual([]);
    });
  });

  test("is migrated once", async () => {
    await withStore(async () => {});
    const migrated = everything();
    await withStore(async () => {});
    expect(everything()).toEqual(migrated);
  });
});

test.each(VERSIONS)("an empty store with schema %i is migrated", async (version) => {
  makeEmptyVersion(path, version);
  await withStore(async (store) => {
    expect(await store.usage.by("day", {})).toEqual([]);
    expect((await store.auditHere()).problems).toEqual([]);
  });
});

describe("a store whose records do not agree is left as it was", () => {
  test.each([
    [
      "a charge of another amount in the row of its request",
      "UPDATE requests SET charge = charge - 1 WHERE public_id = 'req_done'",
      "CHECK constraint failed",
    ],
    [
      "the balance of an account with charged requests",
      "UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'",
      "account bob: ",
    ],
    ["totals", "UPDATE daily_totals SET prompt_tokens = 1", "totals of"],
    ["a request without a key", "DELETE FROM keys WHERE public_id = 'key_bob'", "row"],
  ])("%s", (_, damage, problem) => expectRefused(OF_020, damage, problem));

  test("the totals of the last schema", () =>
    expectRefused(LAST_VERSION, "UPDATE daily_totals SET prompt_tokens = 1", "totals of"));

  async function expectRefused(version: number, damage: string, problem: string): Promise<void> {
    makeEarlierVersion(path, version);
    tamper({ path }, damage);
    const before = everything();
    const opening = () => withStore(async () => {});
    const message = await opening().catch(String);
    expect(message).toContain("database cannot be migrated to this version, and was not changed");
    expect(message).toContain(problem);
    expect(message).toContain("`tollgate audit` of the version before shows what is wrong");
    expect(everything()).toEqual(before);
  }

  test("a trigger that is missing", async () => {
    makeEmptyVersion(path, LAST_VERSION, (sqlite) => sqlite.run("DROP TRIGGER ledger_keeps"));
    expect(withStore(async () => {})).rejects.toThrow(
      "trigger ledger_keeps is missing or not the program's own",
    );
  });
});

test("a store of a version before 0.2.0 is left as it was, and the way through 0.2.0 is told", async () => {
  makeEmptyVersion(path, OF_020, (sqlite) => sqlite.run("DROP TABLE notices"));
  tamper({ path }, `PRAGMA user_version = ${OF_020 - 1}`);
  const before = everything();
  const sentence =
    "the database was made by a version before 0.2.0: start tollgate 0.2.0 on it once, and then this version";
  expect(needsUpgrade(path)).toBe(true);
  expect(upgrade(path)).rejects.toThrow(sentence);
  expect(() => openStore({ path, durability: "process", serving: true })).toThrow(sentence);
  expect(inspectStore(path)).rejects.toThrow(sentence);
  const copy = join(folder, "copy.db");
  const stopped = new Promise<void>(() => undefined);
  expect(backUp({ database: path, file: copy, stopped })).rejects.toThrow(sentence);
  expect(everything()).toEqual(before);
});

describe.skipIf(!isCopied)("the migration of a large store", () => {
  const COUNT = 130_000;
  beforeEach(() => makeEarlierVersion(path, OF_020, (sqlite) => addRunningRequests(sqlite, COUNT)));

  test("is killed in the middle: the store is as it was, and the next start migrates it", async () => {
    const counts = ["ledger", "requests", "attempts"].map((name) => `SELECT count(*) FROM ${name}`);
    const state = ["PRAGMA user_version", "SELECT * FROM sqlite_schema ORDER BY name", ...counts];
    const before = read(...state);
    const script = join(import.meta.dir, "../support/store/migrate.ts");
    const migration = Bun.spawn([process.execPath, script, path], { stdout: "pipe" });
    for await (const chunk of migration.stdout)
      if (Buffer.from(chunk).toString().trim() !== "0") break;
    migration.kill("SIGKILL");
    expect(await migration.exited).not.toBe(0);
    expect(read(...state)).toEqual(before);

    const steps: UpgradeStep[] = [];
    await upgrade(path, (step) => steps.push(step));
    const total = COUNT + 9;
    const copied = steps.flatMap((step) => (step.step === "migrating" ? [step] : []));
    expect(copied).toEqual(
      [0, 20_000, 40_000, 60_000, 80_000, 100_000, 120_000, total].map((count) => ({
        step: "migrating",
        copied: count,
        total,
      })),
    );
    expect(read("SELECT count(*) AS rows FROM requests")).toEqual([[{ rows: BigInt(total) }]]);
  }, 60_000);
});

test("a process that meets a gateway that makes a database waits, and changes nothing", () => {
  const gateway = connect(path, "process");
  const command = connect(path, "process");
  const startsMeanwhile = (): boolean => {
    expect(createSchema(gateway, () => true)).toBe(true);
    return false;
  };
  expect(createSchema(command, startsMeanwhile)).toBe(false);
  expect(command.sqlite.query("SELECT name FROM accounts").all()).toEqual([]);
  expect(gateway.sqlite.query("PRAGMA foreign_keys").all()).toEqual([{ foreign_keys: 1n }]);
  for (const { sqlite } of [command, gateway]) sqlite.close();
});

test("a database that another process opens or closes at that moment is found to be older", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-busy-"));
  const path = join(folder, "tollgate.db");
  makeEarlierVersion(path, OF_020);
  const holder = Bun.spawn(
    [
      process.execPath,
      "-e",
      `const db = new (require("bun:sqlite").Database)(${JSON.stringify(path)});
       db.run("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
       console.log("locked");
       await Bun.sleep(300);
       db.close();`,
    ],
    { stdout: "pipe", stderr: "inherit" },
  );
  try {
    await holder.stdout.getReader().read();
    expect(needsUpgrade(path)).toBe(true);
  } finally {
    await holder.exited;
    rmSync(folder, { recursive: true });
  }
});

/** Searches are rows of their own since the schema 11. */
function searchesOf(version: number): string {
  if (version < 11) return "web_searches";
  return "coalesce((SELECT quantity FROM request_figures f WHERE f.request_id = requests.id), 0)";
}

/** Whether an attempt has a row of its own. */
function isInTable({ request, outcome }: { request: string; outcome: string }): boolean {
  return request === "req_failover" || outcome !== "ok";
}

/** Numbers and bigints alike. */
function asText(rows: readonly unknown[] | undefined): unknown[] {
  return JSON.parse(
    JSON.stringify(rows, (_, value: unknown) =>
      typeof value === "bigint" || typeof value === "number" ? String(value) : value,
    ),
  ) as unknown[];
}
