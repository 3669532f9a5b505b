import { expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/clock.ts";
import { usageGroupings } from "../../src/store/store.ts";
import {
  actor,
  costOfEnded,
  ended,
  endedPrice,
  running,
  unbilled,
} from "../support/store/storeFolder.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";

const NOW_MS = actor.at + DAY_MS / 2;
const minutesAgo = (minutes: number) => NOW_MS - minutes * 60_000;

describeStores("the reports of the console", (opened) => {
  test("list what is equal by name, in the order of bytes, and accounts and keys by age", async () => {
    const names = ["bob", "Ölaf", "amy", "Zoe"];
    const inOrder = ["Zoe", "amy", "bob", "Ölaf"];
    for (const name of names) {
      const owner = await opened.fund(name, 2n * costOfEnded);
      const request = { at: minutesAgo(5), model: `model ${name}`, provider: `provider ${name}` };
      const attempts = ["timeout", "Status 503", "status 429"].map((outcome) => ({
        provider: `provider ${name}`,
        outcome,
        status: null,
        durationMs: 5,
      }));
      await opened.record(ended(`req_done_${name}`, owner, { ...request, attempts }));
      await opened.record(running(`req_old_${name}`, owner, { ...request, at: minutesAgo(90) }));
    }
    const { store } = opened;
    const { top, series, attention } = await store.reports.overview("24h", NOW_MS);
    // The oldest first.
    expect(top.accounts.map(({ name }) => name)).toEqual(names);
    expect(top.keys.map(({ key }) => key)).toEqual(names.map((name) => `key_${name}`));
    expect(top.providers.map(({ name }) => name)).toEqual(
      inOrder.map((name) => `provider ${name}`),
    );
    for (const models of [
      top.models.map(({ name }) => name),
      series.models.map(({ model }) => model),
    ])
      expect(models).toEqual(inOrder.map((name) => `model ${name}`));
    expect(attention.failingProviders.map(({ provider }) => provider)).toEqual(
      inOrder.map((name) => `provider ${name}`),
    );
    expect(attention.oldHolds.map(({ account }) => account)).toEqual(names);
    expect(attention.lowAccounts.map(({ account }) => account)).toEqual(inOrder);
    const { providers } = await store.reports.providers("24h", NOW_MS);
    expect(providers.map(({ provider }) => provider)).toEqual(
      inOrder.map((name) => `provider ${name}`),
    );
    for (const { outcomes } of providers)
      expect(outcomes.map(({ outcome }) => outcome)).toEqual([
        "Status 503",
        "status 429",
        "timeout",
      ]);
    const listed = await store.reports.accounts({ limit: 10 }, NOW_MS);
    expect(listed.rows.map(({ name }) => name)).toEqual(inOrder);
    for (const by of ["account", "key", "model", "provider"] as const) {
      const prefix = { account: "", key: "key_", model: "model ", provider: "provider " }[by];
      const groups = (await store.usage.by(by, {})).map(({ group }) => group);
      expect(groups.filter((group) => group !== "")).toEqual(
        inOrder.map((name) => `${prefix}${name}`),
      );
    }
  });

  test("are exact where sums are larger than 64 bits", async () => {
    const price = 99_999_999_999_999_999n;
    const charge = 40n * price;
    const tokens = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0 };
    const request = {
      price: { ...endedPrice, output: price },
      hold: charge,
      charge,
      operatorCost: charge - 1n,
      cacheSaved: 0n,
      ...tokens,
    };
    const names = ["alice", "bob", "carol"];
    const owners = [];
    for (const name of names) owners.push(await opened.fund(name, 4n * 10n ** 18n));
    for (const [at, owner] of owners.entries()) {
      await opened.record(ended(`req_${at}`, owner, { ...request, at: minutesAgo(60) }));
      await opened.refund(`req_${at}`, charge - 2n);
    }
    await opened.record(
      ended("req_failed", owners[0] ?? { accountId: 0, keyId: 0, firstKeyId: 0 }, {
        ...unbilled,
        at: minutesAgo(60),
      }),
    );
    const all = {
      cost: 3n * charge,
      operatorCost: 3n * (charge - 1n),
      refunded: 3n * (charge - 2n),
    };
    const { store } = opened;
    for (const by of usageGroupings)
      for (const filter of [{}, { since: minutesAgo(90), until: minutesAgo(30) }]) {
        const rows = await store.usage.by(by, filter);
        const total = { cost: 0n, operatorCost: 0n, refunded: 0n };
        for (const row of rows) {
          total.cost += row.cost;
          total.operatorCost += row.operatorCost;
          total.refunded += row.refunded;
        }
        expect({ by, ...total }).toEqual({ by, ...all });
      }
    const { now } = await store.reports.overview("24h", NOW_MS);
    expect(now.figures).toMatchObject({
      requests: 4,
      failed: 1,
      charged: all.cost,
      operatorCost: all.operatorCost,
      refunded: all.refunded,
    });
    const before = await store.reports.overview("24h", NOW_MS + DAY_MS);
    expect(before.before.figures).toMatchObject({ charged: all.cost, refunded: all.refunded });
  });
});
