import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrationTags } from "../../src/store/schema/migrationFiles.ts";
import { createSchema } from "../../src/store/sqlite/schema/migrations.ts";
import { connect } from "../../src/store/sqlite/sqlite.ts";
import {
  needsUpgrade,
  openStore,
  type SqliteStore,
  type UpgradeStep,
} from "../../src/store/store.ts";
import { fillEarlierVersion } from "../support/store/earlierRecords.ts";
import { makeEarlierVersion, upgrade } from "../support/store/firstVersion.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { actor } from "../support/store/storeFolder.ts";

const KNOWN = migrationTags("sqlite").length;
/** The numbers of migrations of earlier versions. */
const VERSIONS = Array.from({ length: KNOWN - 1 }, (_, index) => index + 1);
/** The last one in which all charges are in the ledger. */
const CHARGES_IN_LEDGER = 4;
/** The last one whose requests are copied. */
const REQUESTS_ARE_COPIED = 5;
const LAST_VERSION = KNOWN - 1;

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

async function withStore(work: (store: SqliteStore) => void): Promise<void> {
  await upgrade(path);
  const store = openStore({ path, durability: "process", serving: true });
  try {
    work(store);
  } finally {
    store.close();
  }
}

describe.each(VERSIONS)("a store with %i migrations", (version) => {
  beforeEach(() =>
    makeEarlierVersion(path, version, (sqlite) => fillEarlierVersion(sqlite, version)),
  );
  const hasRefunds = version > 2;

  test("keeps each history, request and attempt", async () => {
    const table = version > CHARGES_IN_LEDGER ? "history" : "ledger";
    const isRefunded =
      version > CHARGES_IN_LEDGER
        ? "(c.account_id, c.seq) = (l.account_id, l.refund_of)"
        : "c.id = l.refund_of";
    const refundOf = hasRefunds
      ? `(SELECT substr(c.ref, 5) FROM ${table} c WHERE ${isRefunded})`
      : "NULL";
    const [ledger, requests, attempts] = read(
      `SELECT account_id AS accountId, seq, kind, amount, balance_after AS balanceAfter, ref, actor, note, at,
        iif(kind = 'charge', substr(ref, 5), ${refundOf}) AS requestId FROM ${table} l ORDER BY account_id, seq DESC`,
      "SELECT public_id AS id, at, status, hold, charge, duration_ms AS durationMs FROM requests ORDER BY requests.id DESC",
      `SELECT public_id AS request, a.provider, outcome, a.status, a.duration_ms AS durationMs
        FROM attempts a JOIN requests r ON r.id = a.request_id ORDER BY request_id DESC, n`,
    );
    await withStore((store) => {
      const histories = [1, 2].flatMap((id) => store.ledger.history(id, 100));
      expect(asText(histories)).toMatchObject(asText(ledger));
      const list = store.requests.list({ limit: 100 });
      expect(asText(list)).toMatchObject(asText(requests));
      const found = list.flatMap(({ id }) =>
        store.requests.attempts(id).map((attempt) => Object.assign({ request: id }, attempt)),
      );
      // Later versions keep no row for a single attempt that succeeded: the row of its request tells the same.
      const rows = version > CHARGES_IN_LEDGER ? found.filter(isInTable) : found;
      expect(asText(rows)).toEqual(asText(attempts));
      for (const request of list)
        expect(request).toMatchObject({
          priceCacheWrite: 25n,
          priceCacheWrite1h: 25n,
          priceWebSearch: 0n,
          cacheWrite1hTokens: 0,
          webSearches: 0,
        });
      for (const account of ["alice", "bob"])
        expect(store.requests.list({ account, limit: 100 })).toEqual(
          list.filter((request) => request.account === account),
        );
    });
  });

  test("goes on: its audit finds no problem, charges are refunded, requests are interrupted and folded", async () => {
    const spent = hasRefunds ? 950n : 1075n;
    await withStore((store) => {
      expect(store.audit()).toMatchObject({ problems: [], requests: hasRefunds ? 9 : 12 });
      expect(store.keys.list("alice")).toMatchObject([{ spent }]);
      expect(store.interruptRunning()).toEqual({ count: 1, reserved: 0n });
      const refund = (request: string) =>
        store.admin.refund(actor, { request, amount: null, ref: null, note: null });
      expect(refund("req_done")).toMatchObject({ amount: hasRefunds ? 380n : 500n });
      if (hasRefunds) expect(() => refund("req_folded")).toThrow("tollgate balance credit alice");
      expect(store.keys.list("alice")).toMatchObject([{ spent: hasRefunds ? 570n : 575n }]);
      expect(store.usage("day", {})).toMatchObject([
        { group: "2025-12-29", requests: 3, failed: 1, cost: 325n },
        { group: "2026-01-01", requests: 6, failed: 0, cost: 650n, refunded: 500n },
        { group: "2026-01-02", requests: 3, failed: 2, cost: 175n },
      ]);
      expect(store.audit().problems).toEqual([]);
    });
  });

  test("keeps a ref that begins like those of vouchers, and accepts no new one", async () => {
    await withStore((store) => {
      const repeat = { account: "bob", kind: "credit", amount: 1000n, ref: "voucher:42" } as const;
      const change = { ...repeat, note: null };
      expect(store.admin.changeBalance(actor, change).applied).toBe(false);
      expect(() => store.admin.changeBalance(actor, { ...change, ref: "voucher:43" })).toThrow(
        "credit of an open voucher",
      );
      expect(store.audit().problems).toEqual([]);
    });
  });

  test("is migrated once", async () => {
    await withStore(() => undefined);
    const migrated = everything();
    await withStore(() => undefined);
    expect(everything()).toEqual(migrated);
  });
});

test.each(VERSIONS)("an empty store with %i migrations is migrated", async (version) => {
  makeEarlierVersion(path, version, () => undefined);
  await withStore((store) => {
    expect(store.usage("day", {})).toEqual([]);
    expect(store.audit().problems).toEqual([]);
  });
});

describe("a store whose records do not agree is left as it was", () => {
  test.each([
    [
      "a charge of another amount",
      "UPDATE ledger SET amount = amount - 1 WHERE ref = 'req:req_done'",
      "request req_done: does not agree with its charge in the ledger",
    ],
    [
      "a charge that is missing",
      "DELETE FROM ledger WHERE ref = 'req:req_last'",
      "request req_last: does not agree with its charge in the ledger",
    ],
    [
      "a charge of a failed request",
      "INSERT INTO ledger SELECT 99, 2, ledger_seq + 1, 'charge', 0, balance, 'req:req_failed', NULL, NULL, 0, NULL FROM accounts WHERE id = 2",
      "request req_failed: does not agree with its charge in the ledger",
    ],
    ["a gap", "DELETE FROM ledger WHERE kind = 'debit'", "does not follow from the row before it"],
    [
      "a balance",
      "UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'",
      "account bob: balance is not the sum of its ledger",
    ],
    [
      "a refund of a credit",
      "UPDATE ledger SET refund_of = 1 WHERE kind = 'refund'",
      "refunds no charge of its account",
    ],
    ["totals", "UPDATE daily_totals SET requests = requests + 1", "totals of"],
    ["a request without a key", "DELETE FROM keys WHERE public_id = 'key_bob'", "row"],
  ])("%s", (_, damage, problem) => expectRefused(CHARGES_IN_LEDGER, damage, problem));

  test.each([
    [
      "a charge of another amount in the row of its request",
      "UPDATE requests SET charge = charge - 1 WHERE public_id = 'req_done'",
      "CHECK constraint failed: requests_price",
    ],
    [
      "the balance of an account with charged requests",
      "UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'",
      "account bob: ",
    ],
    ["totals of charged requests", "UPDATE daily_totals SET prompt_tokens = 1", "totals of"],
  ])("%s", (_, damage, problem) => expectRefused(REQUESTS_ARE_COPIED, damage, problem));

  test("the totals of the last version", () =>
    expectRefused(LAST_VERSION, "UPDATE daily_totals SET prompt_tokens = 1", "totals of"));

  async function expectRefused(version: number, damage: string, problem: string): Promise<void> {
    makeEarlierVersion(path, version, (sqlite) => fillEarlierVersion(sqlite, version));
    tamper({ path }, damage);
    const before = everything();
    const opening = () => withStore(() => undefined);
    const message = await opening().catch(String);
    expect(message).toContain("database cannot be migrated to this version, and was not changed");
    expect(message).toContain(problem);
    expect(message).toContain("`tollgate audit` of the version before shows what is wrong");
    expect(everything()).toEqual(before);
  }

  test("a trigger that is missing", async () => {
    makeEarlierVersion(path, LAST_VERSION, (sqlite) => sqlite.run("DROP TRIGGER ledger_keeps"));
    expect(withStore(() => undefined)).rejects.toThrow(
      "trigger ledger_keeps is missing or not the program's own",
    );
  });
});

describe("the migration of a large store", () => {
  const COUNT = 130_000;
  beforeEach(() =>
    makeEarlierVersion(path, REQUESTS_ARE_COPIED, (sqlite) => {
      fillEarlierVersion(sqlite, REQUESTS_ARE_COPIED);
      sqlite.run(`INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, status,
          price_input, price_cached_input, price_cache_write, price_output, hold)
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ${COUNT})
        SELECT 'req_' || n, n, 1, 1, 'chat', 'small', 0, 'running', 1, 1, 1, 1, 0 FROM n`);
    }),
  );

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
  makeEarlierVersion(path, 5, (sqlite) => fillEarlierVersion(sqlite, 5));
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
