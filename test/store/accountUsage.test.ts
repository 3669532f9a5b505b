import { describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/clock.ts";
import { seededRandom } from "../support/seededRandom.ts";
import { actor, ended, fund, opened, unbilled } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const firstDay = actor.at / DAY_MS;
const DAYS = 4;
type Owner = ReturnType<typeof fund>;

const storeFolder = openStoreBefore({ audited: true });

async function open(id: string, owner: Owner, day: number, model = "small"): Promise<void> {
  const at = actor.at + day * DAY_MS;
  await storeFolder.writer.write({
    kind: "openRequest",
    request: opened(id, owner, { at, model }),
  });
}

async function end(id: string, changes: Parameters<typeof ended>[1] = {}): Promise<void> {
  await storeFolder.writer.write({ kind: "settleRequest", settlement: ended(id, changes) });
}

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
      const owner = pick([owners.alice, owners.bob]);
      await open(`req_${at}`, owner, below(DAYS), pick(["small", "large"]));
      if (!chance(0.8)) continue;
      const isBilled = chance(0.8);
      await end(`req_${at}`, isBilled ? {} : unbilled);
      if (isBilled && at % 3 === 0) refund(`req_${at}`);
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
    await open("req_1", alice, 0);
    await open("req_2", alice, 1);
    const days = storeFolder.store.usageOfAccount(alice.accountId, {
      from: firstDay,
      to: firstDay + 2,
    });
    const first = days.next();
    await end("req_1");
    await end("req_2");
    const counts = [first, days.next()].map(({ value }) =>
      value?.models.map((sums) => sums.requests),
    );
    expect(counts).toEqual([[1], [1]]);
    expect(days.next().done).toBe(true);
  });

  test("is exact where a double is not", async () => {
    const alice = fund(storeFolder.store, "alice", 4n * 10n ** 18n);
    const price = 10_000_000_000_000_001n;
    for (const id of ["req_1", "req_2"]) {
      const request = opened(id, alice, { priceOutput: price, hold: 100n * price });
      await storeFolder.writer.write({ kind: "openRequest", request });
      await end(id, { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0, cost: 40n * price });
    }
    expect(read(alice, 0, 1)[0]?.models).toMatchObject([{ requests: 2, cost: 80n * price }]);
  });
});
