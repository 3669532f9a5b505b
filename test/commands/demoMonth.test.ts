import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { demoConfigToml } from "../../src/commands/demo/demoConfig.ts";
import { fillMonth } from "../../src/commands/demo/month.ts";
import { loadConfig } from "../../src/config/load.ts";
import { voucherDocument } from "../../src/contract/operator/voucher.ts";
import { assert } from "../../src/lib/assert.ts";
import { openStore, type SqliteStore } from "../../src/store/open.ts";
import { auditFile } from "../support/auditor/auditor.ts";
import { sample } from "../support/sample.ts";

const DAY_MS = 86_400_000;
const folder = mkdtempSync(join(tmpdir(), "demo-month-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let months = 0;

async function monthUntil(
  until: number,
): Promise<{ path: string; store: SqliteStore; key: string }> {
  const config = join(folder, `${(months += 1)}.toml`);
  const toml = demoConfigToml({
    listen: "127.0.0.1:0",
    providerUrl: "http://127.0.0.1:1/v1",
    silent: true,
  });
  writeFileSync(config, toml.replace("demo.db", `${months}.db`), { mode: 0o600 });
  const loaded = loadConfig({ path: config }).config;
  const { key } = await fillMonth(loaded, until);
  assert(loaded.database.engine === "sqlite", "the config of the demo has a file");
  const { path } = loaded.database;
  return { path, key, store: openStore({ path, durability: "process", serving: false }) };
}

const ends = [
  ["a working day", "2026-11-24T15:20:00Z"],
  ["five seconds after midnight on a Sunday", "2026-11-22T00:00:05Z"],
  ["a month with a leap day", "2028-03-10T23:59:59Z"],
  ["a moment that is 29 days after a request in the evening", "2026-11-27T13:20:00Z"],
] as const;

describe.each(sample(ends, 2))("a month until %s", (_, text) => {
  const until = Date.parse(text);

  test("is exact, and has what each page shows", async () => {
    const { path, store } = await monthUntil(until);
    expect(auditFile(path)).toEqual([]);
    expect(await store.auditHere()).toMatchObject({ accounts: 7, problems: [], notes: [] });

    // Today may be too short for a request.
    expect((await store.usage.by("day", {})).length).toBeWithin(29, 31);
    const providers = (await store.usage.by("provider", {})).map(({ group }) => group);
    expect(providers).toEqual(expect.arrayContaining(["demo", "demo-spare", "demo-old"]));

    const accounts = Object.fromEntries(
      (await store.accounts.list()).map((row) => [row.name, row]),
    );
    expect(accounts["old-partner"]?.disabled).toBe(true);
    expect(accounts["translate.bureau"]?.overdraft).toBeGreaterThan(0n);
    expect(accounts["translate.bureau"]?.balance).toBeLessThan(1_000_000_000_000n);
    expect(Number(accounts["student-club"]?.balance) / 1e9).toBeWithin(2, 13);
    expect(Number(accounts["demo"]?.balance) / 1e9).toBeWithin(80, 480);

    const keys = await store.keys.list(undefined);
    expect(keys.length).toBeWithin(12, 18);
    expect(keys.filter(({ revokedAt }) => revokedAt !== null)).toBeArrayOfSize(1);
    expect(keys.filter(({ id, firstKeyId }) => id !== firstKeyId)).toBeArrayOfSize(1);
    expect(keys.filter(({ expiresAt }) => expiresAt === until + 4 * DAY_MS)).toBeArrayOfSize(1);
    const states = (await store.vouchers.list()).map(
      (voucher) => voucherDocument(voucher, until).state,
    );
    expect(Object.fromEntries(Map.groupBy(states, (state) => state))).toMatchObject({
      redeemed: { length: 5 },
      open: { length: 4 },
      expired: { length: 2 },
      revoked: { length: 1 },
    });
    for (const { budget, spent } of keys)
      if (budget !== null) expect(spent).toBeLessThanOrEqual(budget);
    store.closeNow();
  });

  test("has use of the printed account on each whole day and of each model", async () => {
    const { store } = await monthUntil(until);
    const models = (await store.usage.by("model", {})).map(({ group }) => group);
    const today = Math.floor(until / DAY_MS);
    for (let day = today - 29; day < today; day += 1) {
      const span = { account: "demo", since: day * DAY_MS, until: (day + 1) * DAY_MS };
      const used = (await store.usage.by("model", span)).map(({ group }) => group);
      expect([day, ...used.sort()]).toEqual([day, ...models.toSorted()]);
    }
    store.closeNow();
  });
});

test("the same time gives the same requests, and other keys", async () => {
  const until = Date.parse("2026-11-24T15:20:00Z");
  const first = await monthUntil(until);
  const second = await monthUntil(until);
  const latest = async ({ store }: { store: SqliteStore }): Promise<unknown> =>
    (await store.requests.list({}, { limit: 500 })).rows.map(
      ({ id, at, account, model, status, charge, hold, durationMs, balanceAfter }) =>
        [id, at, account, model, status, charge, hold, durationMs, balanceAfter].join(),
    );
  expect(await latest(first)).toEqual(await latest(second));
  expect(first.key).not.toBe(second.key);
  first.store.closeNow();
  second.store.closeNow();
});
