import { expect, test } from "bun:test";
import { noUsage } from "../../src/contract/usage.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { usageGroupings, type UsageFilter } from "../../src/store/store.ts";
import { seededRandom } from "../support/seededRandom.ts";
import { actor, ended, running, unbilled } from "../support/store/storeFolder.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";
import { modelUsage, type ReportedRequest } from "../support/store/usageModel.ts";
import { sample } from "../support/sample.ts";

const DAYS = 6;
const start = actor.at;

const nothing = {
  provider: "",
  status: "running",
  ...noUsage,
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

function newestEnded(requests: readonly ReportedRequest[], before: number): number {
  const ended = requests.filter(({ at, status }) => at < before && status !== "running");
  return Math.max(...ended.map(({ at }) => at));
}

describeStores("reports are the same before and after", (opened) => {
  /** Runs random requests of two accounts over some days; some are left running. */
  const randomHistory = async (seed: number, size: number): Promise<ReportedRequest[]> => {
    const { below, chance, pick } = seededRandom(seed);
    const owners = {
      alice: await opened.fund("alice", 1_000_000_000n),
      bob: await opened.fund("bob", 1_000_000_000n),
    };
    const requests: ReportedRequest[] = [];
    for (let at = 0; at < size; at += 1) {
      const id = `req_${at}`;
      const account = pick(["alice", "bob"] as const);
      const request = {
        at: start + below(DAYS * DAY_MS),
        model: pick(["small", "Tall"]),
        endpoint: pick(["chat", "responses"] as const),
      };
      const one: ReportedRequest = { id, account, key: `key_${account}`, ...request, ...nothing };
      requests.push(one);
      const isLeftRunning = chance(0.05);
      if (isLeftRunning || chance(0.3)) await opened.record(running(id, owners[account], request));
      if (isLeftRunning) continue;
      const bill = chance(0.2)
        ? { ...unbilled, status: pick(["failed", "cancelled", "done"] as const) }
        : billed(1 + below(50), below(30), pick(["done", "done", "cancelled"] as const));
      const provider = pick(["local", "Other", null]);
      await opened.record(ended(id, owners[account], { ...request, ...bill, provider }));
      Object.assign(one, bill, { operatorCost: bill.operatorCost ?? 0n, provider: provider ?? "" });
      if (bill.charge > 1n && chance(0.1)) {
        one.refunded = bill.charge / 2n;
        await opened.refund(one.id, one.refunded);
      }
    }
    return requests;
  };

  const expectReports = async (
    requests: readonly ReportedRequest[],
    retentionStart: number,
    seed: number,
  ): Promise<void> => {
    for (const filter of filters(seed)) {
      for (const by of usageGroupings) {
        const report = {
          by,
          filter,
          retentionStart,
          rows: await opened.store.usage.by(by, filter),
        };
        expect(report).toEqual({
          ...report,
          rows: modelUsage(requests, by, filter, retentionStart),
        });
      }
    }
  };

  test.each(sample([1, 2, 3, 4, 5, 6], 2))(
    "old requests are folded, in history %i",
    async (seed) => {
      const requests = await randomHistory(seed, 150);
      const { store } = opened;
      const histories = async () => [
        await store.ledger.history(1, 1000),
        await store.ledger.history(2, 1000),
      ];
      const ledgers = await histories();
      let retentionStart = 0;
      await expectReports(requests, retentionStart, seed);
      for (const share of [0.3, 0.8]) {
        const before = Math.floor(start + share * DAYS * DAY_MS);
        await opened.fold(before);
        retentionStart = Math.max(retentionStart, newestEnded(requests, before) + 1);
        await expectReports(requests, retentionStart, seed);
        expect((await store.audit()).problems).toEqual([]);
        expect(await histories()).toEqual(ledgers);
        const left = requests.filter(({ at, status }) => at >= before || status === "running");
        expect((await store.requests.list({}, { limit: 1000 })).rows.map(({ id }) => id)).toEqual(
          left.map(({ id }) => id).toReversed(),
        );
      }
      await opened.interruptRunning();
      for (const request of requests)
        if (request.status === "running") request.status = "interrupted";
      await expectReports(requests, retentionStart, seed);
      await opened.fold(start + DAYS * DAY_MS);
      expect((await store.requests.list({}, { limit: 10 })).rows).toEqual([]);
      await expectReports(requests, newestEnded(requests, start + DAYS * DAY_MS) + 1, seed);
    },
    60_000,
  );
});
