import { afterAll, beforeAll, expect, test } from "bun:test";
import type { KeyList } from "../../../src/contract/operator/lists.ts";
import type { Overview } from "../../../src/contract/operator/overview.ts";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { configOf, minimal } from "../../config/loadText.ts";
import { openConsole, type ConsoleUnderTest } from "../../support/gateway/consoleUnderTest.ts";
import { rotate } from "../../support/store/sampleLedger.ts";
import {
  actor,
  costOfEnded,
  ended,
  fund,
  openStoreFolder,
  running,
  unbilled,
  type StoreFolder,
} from "../../support/store/storeFolder.ts";

const NOW_MS = Date.UTC(2026, 4, 20, 12);
const HOUR_MS = 3_600_000;
const config = configOf(minimal);

let storeFolder: StoreFolder;
let page: ConsoleUnderTest;
let overview: Overview;
beforeAll(async () => {
  storeFolder = await openStoreFolder();
  await fill(storeFolder);
  page = openConsole(storeFolder.store, config, NOW_MS);
  overview = await page.read<Overview>("/api/overview?span=24h");
});
afterAll(async () => {
  await page.stop();
  await storeFolder.close();
});

const attempt = { provider: "local", outcome: "ok", status: 200, durationMs: 10 } as const;
const failedAttempt = { ...attempt, outcome: "status 503", status: 503 };

async function fill({ store, ...folder }: StoreFolder): Promise<void> {
  const record: StoreFolder["record"] = (one) => folder.record(one);
  // Three requests in the last week, and money for less than two more.
  const low = await fund(store, "low", 5n * costOfEnded - 1n);
  const rich = await fund(store, "rich", 1_000_000_000n);
  await fund(store, "idle", 1n);
  const at = NOW_MS - 10 * 60_000;
  for (const id of ["1", "2", "3"])
    await record(ended(`req_low_${id}`, low, { at, attempts: [attempt], durationMs: 100 }));
  await record(ended("req_estimated", rich, { at, estimated: true }));
  const charge = costOfEnded - 295n;
  await record(ended("req_written_off", rich, { at, charge, writeOff: 295n }));
  const attempts = [failedAttempt, { ...failedAttempt, provider: "other" }];
  await record(ended("req_failed", rich, { at, ...unbilled, provider: null, attempts }));
  await record(
    ended("req_left", rich, {
      at,
      ...unbilled,
      attempts: [{ ...attempt, provider: "third", outcome: "client disconnected", status: null }],
    }),
  );
  await record(ended("req_earlier", rich, { at: NOW_MS - 2 * HOUR_MS, ...unbilled, attempts }));
  await record(running("req_old", rich, { at: NOW_MS - 2 * HOUR_MS }));
  await record(running("req_new", rich, { at }));
  const expires = (key: string, expiresAt: number) =>
    store.admin.changeKey(actor, key, { expiresAt });
  await expires("key_low", NOW_MS + 3 * DAY_MS);
  await expires("key_idle", NOW_MS + 8 * DAY_MS);
  await rotate(storeFolder, "key_rich", "key_next", NOW_MS + DAY_MS - actor.at);
}

test("an account is near zero that has money for less than a week at its pace", () => {
  const [low, ...others] = overview.attention.low_accounts;
  expect(others).toEqual([]);
  expect(low).toMatchObject({
    account: "low",
    balance_rub: "0.000020589",
    charged_7d_rub: "0.000030885",
  });
  // 6.5 days of the pace are over: six whole ones and half of today.
  expect(low?.days_left).toBe(4.3);
});

test("a key needs a look that expires within a week, also one that was replaced", () => {
  const keys = overview.attention.expiring_keys;
  expect(keys.map((key) => [key.key_id, key.account, key.is_replaced])).toEqual([
    ["key_rich", "rich", true],
    ["key_low", "low", false],
  ]);
});

test("a provider needs a look that failed in the last hour", () => {
  expect(overview.attention.failing_providers).toEqual([
    { provider: "other", attempts: 3, failed: 3 },
    { provider: "local", attempts: 6, failed: 1 },
  ]);
});

test("a hold needs a look after an hour", () => {
  expect(overview.attention.old_holds).toEqual([
    {
      id: "req_old",
      at: new Date(NOW_MS - 2 * HOUR_MS).toISOString(),
      account: "rich",
      key_id: "key_rich",
      model: "small",
      hold_rub: "0.0001",
    },
  ]);
});

test("estimates and write-offs are counted since the start of the span", () => {
  const since = overview.from;
  expect(overview.attention.estimated).toEqual({ since, requests: 1, charged_rub: "0.000010295" });
  expect(overview.attention.write_offs).toEqual({
    since,
    requests: 1,
    write_off_rub: "0.000000295",
  });
});

test("percentiles come from the requests that were done", () => {
  const { first_byte_ms, duration_ms, sample } = overview.now;
  expect(first_byte_ms).toEqual({ p50: 40, p95: 40 });
  expect(duration_ms).toEqual({ p50: 100, p95: 357 });
  expect(sample).toEqual({ requests: 5, is_all: true });
  expect(overview.before).toMatchObject({
    duration_ms: null,
    sample: { requests: 0, is_all: true },
  });
});

test("a list of keys tells the state of each", async () => {
  const { data } = await page.read<KeyList>("/api/keys");
  expect(data.map((key) => [key.id, key.state, key.is_replaced, key.requests_30d])).toEqual([
    ["key_next", "active", false, 0],
    ["key_idle", "active", false, 0],
    ["key_rich", "active", true, 5],
    ["key_low", "active", false, 3],
  ]);
});
