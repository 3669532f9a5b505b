import { describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/clock.ts";
import { seededRandom } from "../support/seededRandom.ts";
import { actor, ended, fund, running, unbilled, type Owner } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const firstDay = actor.at / DAY_MS;
const DAYS = 4;

const storeFolder = openStoreBefore({ audited: true });

const atDay = (day: number) => actor.at + day * DAY_MS;

function refund(request: string): void {
  storeFolder.store.admin.refund(actor, { request, amount: 1000n, ref: null, note: null });
}

function read(owner: Owner, from: number, to: number) {
  const days = { from: firstDay + from, to: firstDay + to };
  return [...storeFolder.store.usageOfAccount(owner.accountId, days)];
}

/** The same by the report of the command line, which knows what the operator paid, too. */
function report(account: string, day: number) {
  const since = actor.at + day * DAY_MS;
  const rows = storeFolder.store.usage("model", { account, since, until: since + DAY_MS });
  return {
    date: new Date(since).toISOString().slice(0, 10),
    models: rows,
  };
}

describe("the usage of an account", () => {
  test("is of each day what a report by model says, folded or not, with what still runs", async () => {
    const { below, pick, chance } = seededRandom(3);
    const owners = {
      alice: fund(storeFolder.store, "alice", 10n ** 9n),
      bob: fund(storeFolder.store, "bob", 10n ** 9n),
    };
    for (let at = 0; at < 80; at += 1) {
      const id = `req_${at}`;
      const owner = pick([owners.alice, owners.bob]);
      const request = { at: atDay(below(DAYS)), model: pick(["small", "large"]) };
      if (chance(0.3)) await storeFolder.record(running(id, owner, request));
      if (!chance(0.8)) continue;
      const isBilled = chance(0.8);
      await storeFolder.record(ended(id, owner, { ...request, ...(isBilled ? {} : unbilled) }));
      if (isBilled && at % 3 === 0) refund(id);
    }
    const expectDays = () => {
      for (const account of ["alice", "bob"] as const) {
        const expected = Array.from({ length: DAYS + 2 }, (_, at) => report(account, at - 1));
        expect(expected).toMatchObject(read(owners[account], -1, DAYS + 1));
        expect(expected.map(({ models }) => models.length)).toEqual([0, 2, 2, 2, 2, 0]);
      }
    };
    expectDays();
    for (let folded = 1; folded > 0;) {
      const before = actor.at + 2 * DAY_MS;
      ({ folded = 0 } = await storeFolder.writer.write({ kind: "fold", before }));
    }
    expectDays();
  });

  test("counts a request once that ends between two steps", async () => {
    const alice = fund(storeFolder.store, "alice", 10n ** 9n);
    const requests = ["req_1", "req_2"].map((id, day) => [id, { at: atDay(day) }] as const);
    for (const [id, request] of requests) await storeFolder.record(running(id, alice, request));
    const days = storeFolder.store.usageOfAccount(alice.accountId, {
      from: firstDay,
      to: firstDay + 2,
    });
    const first = days.next();
    for (const [id, request] of requests) await storeFolder.record(ended(id, alice, request));
    const counts = [first, days.next()].map(({ value }) =>
      value?.models.map((sums) => sums.requests),
    );
    expect(counts).toEqual([[1], [1]]);
    expect(days.next().done).toBe(true);
  });

  test("is exact where a double is not", async () => {
    const alice = fund(storeFolder.store, "alice", 4n * 10n ** 18n);
    const price = 10_000_000_000_000_001n;
    const tokens = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0 };
    const request = { priceOutput: price, hold: 100n * price, charge: 40n * price, ...tokens };
    for (const id of ["req_1", "req_2"]) await storeFolder.record(ended(id, alice, request));
    expect(read(alice, 0, 1)[0]?.models).toMatchObject([{ requests: 2, cost: 80n * price }]);
  });
});
