import { describe, expect, test } from "bun:test";
import { Database } from "bun:sqlite";
import { DAY_MS } from "../../src/lib/clock.ts";
import { FOLD_BATCH, FOLD_PAUSE_MS } from "../../src/store/writer/folding.ts";
import {
  startFolding,
  usageGroupings,
  WriteError,
  type UsageFilter,
  type Writer,
} from "../../src/store/store.ts";
import { seededRandom } from "../support/seededRandom.ts";
import {
  actor,
  costOfEnded,
  ended,
  fund,
  running,
  unbilled,
} from "../support/store/storeFolder.ts";
import { modelUsage, type ReportedRequest } from "../support/store/usageModel.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const DAYS = 6;
const start = actor.at;

const storeFolder = openStoreBefore({ audited: true });

/** Runs random requests of two accounts over some days; some are left running. */
async function randomHistory(seed: number, size: number): Promise<ReportedRequest[]> {
  const { below, chance, pick } = seededRandom(seed);
  const { store } = storeFolder;
  const owners = {
    alice: fund(store, "alice", 1_000_000_000n),
    bob: fund(store, "bob", 1_000_000_000n),
  };
  const requests: ReportedRequest[] = [];
  for (let at = 0; at < size; at += 1) {
    const id = `req_${at}`;
    const account = pick(["alice", "bob"] as const);
    const request = {
      at: start + below(DAYS * DAY_MS),
      model: pick(["small", "large"]),
      endpoint: pick(["chat", "responses"] as const),
    };
    const one: ReportedRequest = { id, account, key: `key_${account}`, ...request, ...nothing };
    requests.push(one);
    const isLeftRunning = chance(0.05);
    if (isLeftRunning || chance(0.3))
      await storeFolder.record(running(id, owners[account], request));
    if (isLeftRunning) continue;
    const bill = chance(0.2)
      ? { ...unbilled, status: pick(["failed", "cancelled", "done"] as const) }
      : billed(1 + below(50), below(30), pick(["done", "done", "cancelled"] as const));
    const provider = pick(["local", "other", null]);
    await storeFolder.record(ended(id, owners[account], { ...request, ...bill, provider }));
    Object.assign(one, bill, { operatorCost: bill.operatorCost ?? 0n, provider: provider ?? "" });
    if (bill.charge > 1n && chance(0.1)) {
      one.refunded = bill.charge / 2n;
      store.admin.refund(actor, { request: one.id, amount: one.refunded, ref: null, note: null });
    }
  }
  return requests;
}

const nothing = {
  provider: "",
  status: "running",
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  completionTokens: 0,
  webSearches: 0,
  charge: 0n,
  operatorCost: 0n,
  refunded: 0n,
} as const;

function billed<Status extends string>(prompt: number, completionTokens: number, status: Status) {
  const cachedTokens = Math.floor(prompt / 2);
  const cacheWriteTokens = Math.floor(prompt / 4);
  const cacheWrite1hTokens = Math.floor(prompt / 8);
  const webSearches = completionTokens % 3;
  const charge = BigInt(
    (prompt - cachedTokens - cacheWriteTokens) * 25 +
      cachedTokens * 2 +
      (cacheWriteTokens - cacheWrite1hTokens) * 30 +
      cacheWrite1hTokens * 50 +
      completionTokens * 200 +
      webSearches * 5000,
  );
  const ofPrompt = { promptTokens: prompt, cachedTokens, cacheWriteTokens, cacheWrite1hTokens };
  const used = { ...ofPrompt, completionTokens, webSearches };
  return { ...used, status, charge, operatorCost: charge / 3n };
}

/** Folds everything that may be, as many batches as it takes. */
async function fold(before: number): Promise<number> {
  let count = 0;
  for (;;) {
    const { folded = 0 } = await storeFolder.writer.write({ kind: "fold", before });
    count += folded;
    if (folded === 0) return count;
  }
}

/** No bounds, bounds at days, and bounds inside of days. */
function filters(seed: number): UsageFilter[] {
  const { below } = seededRandom(seed);
  const day = () => start + below(DAYS + 1) * DAY_MS;
  const moment = () => start + below(DAYS * DAY_MS);
  const pair = (one: number, other: number) => ({
    since: Math.min(one, other),
    until: Math.max(one, other),
  });
  const times: UsageFilter[] = [
    {},
    { since: day() },
    { until: day() },
    pair(day(), day()),
    { since: moment() },
    { until: moment() },
    pair(moment(), moment()),
    pair(moment(), moment()),
  ];
  const noon = start + DAY_MS + DAY_MS / 2;
  times.push(pair(noon, noon + 3_600_000));
  return times.flatMap((time) => [time, { ...time, account: "alice" }]);
}

function expectReports(
  requests: readonly ReportedRequest[],
  retentionStart: number,
  seed: number,
): void {
  for (const filter of filters(seed)) {
    for (const by of usageGroupings) {
      const report = { by, filter, retentionStart, rows: storeFolder.store.usage(by, filter) };
      expect(report).toEqual({ ...report, rows: modelUsage(requests, by, filter, retentionStart) });
    }
  }
}

function newestEnded(requests: readonly ReportedRequest[], before: number): number {
  const ended = requests.filter(({ at, status }) => at < before && status !== "running");
  return Math.max(...ended.map(({ at }) => at));
}

describe("reports are the same before and after", () => {
  test.each(Array.from({ length: 6 }, (_, at) => at + 1))(
    "old requests are folded, in history %i",
    async (seed) => {
      const requests = await randomHistory(seed, 150);
      const { store } = storeFolder;
      const histories = () => [1, 2].map((id) => store.ledger.history(id, 1000));
      const ledgers = histories();
      let retentionStart = 0;
      expectReports(requests, retentionStart, seed);
      for (const share of [0.3, 0.8]) {
        const before = Math.floor(start + share * DAYS * DAY_MS);
        await fold(before);
        retentionStart = Math.max(retentionStart, newestEnded(requests, before) + 1);
        expectReports(requests, retentionStart, seed);
        expect(store.audit().problems).toEqual([]);
        expect(histories()).toEqual(ledgers);
        const left = requests.filter(({ at, status }) => at >= before || status === "running");
        expect(store.requests.list({ limit: 1000 }).map(({ id }) => id)).toEqual(
          left.map(({ id }) => id).toReversed(),
        );
      }
      store.interruptRunning();
      for (const request of requests)
        if (request.status === "running") request.status = "interrupted";
      expectReports(requests, retentionStart, seed);
      await fold(start + DAYS * DAY_MS);
      expect(store.requests.list({ limit: 10 })).toEqual([]);
      expectReports(requests, newestEnded(requests, start + DAYS * DAY_MS) + 1, seed);
    },
    60_000,
  );
});

describe("while a gateway serves, folding", () => {
  const COUNT = 250;

  /** Ends so many requests, admitted one a second from `start` on, and lets another one in at this time. */
  async function run(newestAt: number): Promise<void> {
    const alice = fund(storeFolder.store, "alice", 1_000_000_000n);
    await storeFolder.reserve(alice.accountId, BigInt(COUNT) * costOfEnded);
    await Promise.all(
      Array.from({ length: COUNT }, (_, at) => {
        const record = ended(`req_${at}`, alice, { at: start + at * 1000 });
        return storeFolder.writer.write({ kind: "recordRequest", record });
      }),
    );
    await storeFolder.record(running("req_newest", alice, { at: newestAt }));
  }

  function kept(): number {
    return storeFolder.store.requests.list({ limit: COUNT, status: "done" }).length;
  }

  test("removes what is older than is kept by its clock, all of it and no more", async () => {
    const nowMs = start + DAY_MS + 220_000;
    await run(nowMs);
    const clock = { epochMs: () => nowMs, monotonicMs: () => 0 };
    const { promise, resolve } = Promise.withResolvers<number>();
    const folding = startFolding(storeFolder, clock, DAY_MS, resolve);
    expect(await promise).toBe(220);
    expect(kept()).toBe(COUNT - 220);
    folding.stop();
  });

  test("takes nothing for old by a clock that no request has come under", async () => {
    await run(start + 220_000);
    const aheadMs = start + 3650 * DAY_MS;
    const batches: (number | undefined)[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const writer = writerThat(async (operation) => {
      const result = await storeFolder.writer.write(operation);
      batches.push(result.folded);
      resolve();
      return result;
    });
    const clock = { epochMs: () => aheadMs, monotonicMs: () => 0 };
    const folding = startFolding({ ...storeFolder, writer }, clock, DAY_MS, () => {});
    await promise;
    folding.stop();
    expect([batches, kept()]).toEqual([[0], COUNT]);
  });

  test("goes in small batches, and ends between two of them when it is stopped", async () => {
    await run(start + 2 * DAY_MS);
    const batches: (number | undefined)[] = [];
    const { promise, resolve } = Promise.withResolvers<number>();
    const writer = writerThat(async (operation) => {
      const result = await storeFolder.writer.write(operation);
      batches.push(result.folded);
      if (batches.length === 2) folding.stop();
      return result;
    });
    const clock = { epochMs: () => start + 2 * DAY_MS, monotonicMs: () => 0 };
    const folding = startFolding({ ...storeFolder, writer }, clock, DAY_MS, resolve);
    expect(await promise).toBe(2 * FOLD_BATCH);
    expect(batches).toEqual([FOLD_BATCH, FOLD_BATCH]);
    expect(kept()).toBe(COUNT - 2 * FOLD_BATCH);
  });

  test("gives up for now when the store can take nothing", async () => {
    await run(start);
    let asked = 0;
    const writer = writerThat(() => {
      asked += 1;
      return Promise.reject(new WriteError("full", "no room"));
    });
    const told: number[] = [];
    const clock = { epochMs: () => start, monotonicMs: () => 0 };
    const folding = startFolding({ ...storeFolder, writer }, clock, DAY_MS, (count) =>
      told.push(count),
    );
    // The next batch would come behind the pause, and nothing else tells that there is none.
    await Bun.sleep(10 * FOLD_PAUSE_MS);
    expect([asked, told]).toEqual([1, []]);
    folding.stop();
  });

  function writerThat(write: Writer["write"]): Writer {
    return {
      planner: undefined,
      blockedBy: undefined,
      isBroken: false,
      queued: 0,
      probe: () => undefined,
      close: () => Promise.resolve(),
      write,
      writeWithin: write,
    };
  }
});

test("a fold by a clock that was ahead does not blur the requests that come after it", async () => {
  const alice = fund(storeFolder.store, "alice", 1_000_000_000n);
  const run = (id: string, at: number) => storeFolder.record(ended(id, alice, { at }));
  const count = (filter: UsageFilter): number =>
    storeFolder.store.usage("model", filter).reduce((sum, { requests }) => sum + requests, 0);
  const noon = actor.at + DAY_MS / 2;
  await run("req_folded", noon - 1000);
  const { folded } = await storeFolder.writer.write({
    kind: "fold",
    before: actor.at + 3650 * DAY_MS,
  });
  expect(folded).toBe(1);
  // No later than what is gone.
  expect(asked("SELECT kept_since AS found FROM retention")).toBe(noon - 999);
  await run("req_1", noon);
  await run("req_2", noon + 1000);
  expect(count({ since: noon + 1 })).toBe(1);
  expect(count({})).toBe(3);
});

test("a request that ends long after its fellows were folded does not put the time back since which all are kept", async () => {
  const alice = fund(storeFolder.store, "alice", 1_000_000_000n);
  const slow = { at: actor.at - DAY_MS };
  const fold = () => storeFolder.writer.write({ kind: "fold", before: actor.at + 1 });
  await storeFolder.record(running("req_slow", alice, slow));
  await storeFolder.record(ended("req_1", alice));
  for (const id of ["req_slow", undefined]) {
    expect((await fold()).folded).toBe(1);
    expect(asked("SELECT kept_since AS found FROM retention")).toBe(actor.at + 1);
    if (id !== undefined) await storeFolder.record(ended(id, alice, slow));
  }
});

function asked(query: string): unknown {
  const sqlite = new Database(storeFolder.path);
  const row = sqlite.query<{ found: unknown }, []>(query).get();
  sqlite.close();
  return row?.found;
}
