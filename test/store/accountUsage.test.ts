import { expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/clock.ts";
import type { Pause } from "../../src/store/store.ts";
import { seededRandom } from "../support/seededRandom.ts";
import {
  actor,
  ended,
  endedPrice,
  running,
  unbilled,
  type Owner,
} from "../support/store/storeFolder.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";

const firstDay = actor.at / DAY_MS;
const DAYS = 4;

const atDay = (day: number) => actor.at + day * DAY_MS;

describeStores("the usage of an account", (opened) => {
  const read = ({ accountId }: Owner, from: number, to: number, pause: Pause = async () => {}) =>
    opened.store.usage.ofAccountByDay(
      accountId,
      { from: firstDay + from, to: firstDay + to },
      pause,
    );

  /** The same by the report of the command line, which knows what the operator paid, too. */
  const report = async (account: string, day: number) => {
    const since = actor.at + day * DAY_MS;
    const rows = await opened.store.usage.by("model", { account, since, until: since + DAY_MS });
    return rows.map((sums) => ({ period: new Date(since).toISOString().slice(0, 10), sums }));
  };

  test("is of each day what a report by model says, folded or not, with what still runs", async () => {
    const { below, pick, chance } = seededRandom(3);
    const owners = {
      alice: await opened.fund("alice", 10n ** 9n),
      bob: await opened.fund("bob", 10n ** 9n),
    };
    for (let at = 0; at < 80; at += 1) {
      const id = `req_${at}`;
      const owner = pick([owners.alice, owners.bob]);
      const request = { at: atDay(below(DAYS)), model: pick(["small", "Tall"]) };
      if (chance(0.3)) await opened.record(running(id, owner, request));
      if (!chance(0.8)) continue;
      const isBilled = chance(0.8);
      await opened.record(ended(id, owner, { ...request, ...(isBilled ? {} : unbilled) }));
      if (isBilled && at % 3 === 0) await opened.refund(id, 1000n);
    }
    const expectDays = async () => {
      for (const account of ["alice", "bob"] as const) {
        const expected = await Promise.all(
          Array.from({ length: DAYS + 2 }, (_, at) => report(account, at - 1)),
        );
        expect(expected.flat()).toMatchObject(await read(owners[account], -1, DAYS + 1));
        expect(expected.map(({ length }) => length)).toEqual([0, 2, 2, 2, 2, 0]);
      }
    };
    await expectDays();
    await opened.fold(actor.at + 2 * DAY_MS);
    await expectDays();
  });

  test("counts a request once that ends between two steps", async () => {
    const alice = await opened.fund("alice", 10n ** 9n);
    const requests = ["req_1", "req_2"].map((id, day) => [id, { at: atDay(day) }] as const);
    for (const [id, request] of requests) await opened.record(running(id, alice, request));
    let pauses = 0;
    const periods = await read(alice, 0, 2, async () => {
      pauses += 1;
      if (pauses > 1) return;
      for (const [id, request] of requests) await opened.record(ended(id, alice, request));
    });
    expect(periods.map(({ sums }) => sums.requests)).toEqual([1, 1]);
    expect(pauses).toBe(2);
  });

  test("is exact where a double is not", async () => {
    const alice = await opened.fund("alice", 4n * 10n ** 18n);
    const price = 10_000_000_000_000_001n;
    const tokens = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0, cacheSaved: 0n };
    const prices = { ...endedPrice, output: price };
    const request = { price: prices, hold: 100n * price, charge: 40n * price, ...tokens };
    for (const id of ["req_1", "req_2"]) await opened.record(ended(id, alice, request));
    expect(await read(alice, 0, 1)).toMatchObject([{ sums: { requests: 2, cost: 80n * price } }]);
  });
});
