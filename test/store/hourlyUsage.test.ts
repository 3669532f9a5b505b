import { expect, test } from "bun:test";
import { DAY_MS, HOUR_MS } from "../../src/lib/clock.ts";
import type { Pause, PeriodUsage, RequestRecord } from "../../src/store/store.ts";
import { seededRandom } from "../support/seededRandom.ts";
import {
  actor,
  costOfEnded,
  ended,
  endedPrice,
  running,
  unbilled,
  type Owner,
} from "../support/store/storeFolder.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";

const firstDay = actor.at / DAY_MS;
const DAYS = 4;

type Sums = Record<string, number | bigint>;

/** The sums of each group. */
function added(parts: Iterable<readonly [string, object]>): Record<string, Sums> {
  const groups: Record<string, Sums> = {};
  for (const [key, { group: _, ...sums }] of parts as Iterable<
    [string, Sums & { group?: string }]
  >) {
    const before = (groups[key] ??= {});
    for (const [name, value] of Object.entries(sums)) {
      const known = before[name] ?? (typeof value === "bigint" ? 0n : 0);
      before[name] = (known as number) + (value as number);
    }
  }
  return groups;
}

const BY_DAY = "2026-01-01".length;

describeStores("the usage by hour", (opened) => {
  const daysOf = (from: number, to: number) => ({ from: firstDay + from, to: firstDay + to });

  const begin = (owner: Owner, from = 0, to = DAYS, pause: Pause = async () => {}) =>
    opened.store.usage.ofAccountByHour(owner.accountId, daysOf(from, to), pause);

  /** A report by hour and model, or by the first characters of the hour and model. */
  const read = async (
    periods: Promise<readonly PeriodUsage[]>,
    characters = "2026-01-01T00".length,
  ) =>
    added(
      (await periods).map(({ period, sums }) => [
        `${period.slice(0, characters)} ${sums.group}`,
        sums,
      ]),
    );

  const readDays = ({ accountId }: Owner, from = 0, to = DAYS) =>
    read(opened.store.usage.ofAccountByDay(accountId, daysOf(from, to), async () => {}));

  test("adds up to the report by day, with refunds and with what still runs", async () => {
    const { below, pick, chance } = seededRandom(9);
    const owners = [await opened.fund("alice", 10n ** 10n), await opened.fund("bob", 10n ** 10n)];
    const expected: Record<string, number> = {};
    const open: RequestRecord[] = [];
    for (let n = 0; n < 700; n += 1) {
      const owner = pick(owners);
      const at = actor.at + below(DAYS * DAY_MS);
      const request = { at, model: pick(["small", "large"]) };
      const bill = pick([
        {},
        {},
        { status: "cancelled" },
        { ...unbilled, status: "cancelled" },
        { ...unbilled, status: "interrupted" },
        unbilled,
      ] as const);
      const record = ended(`req_${n}`, owner, { ...request, ...bill });
      if (chance(0.3)) {
        await opened.record(running(record.publicId, owner, request));
        open.push(record);
      } else await opened.record(record);
      if (owner === owners[0]) {
        const key = `${new Date(at).toISOString().slice(0, 13)} ${request.model}`;
        expected[key] = (expected[key] ?? 0) + 1;
      }
      const late = open[below(3 * open.length + 1)];
      if (late !== undefined) {
        await opened.record(late);
        open.splice(open.indexOf(late), 1);
      }
      const charged = late ?? (open.includes(record) ? undefined : record);
      if (charged !== undefined && charged.charge > 0n && chance(0.3))
        await opened.refund(charged.publicId, chance(0.5) ? 1000n : costOfEnded);
    }
    const [alice] = owners;
    if (alice === undefined) throw new Error("no account");
    const counts = Object.entries(await read(begin(alice))).map(([key, sums]) => [
      key,
      sums["requests"],
    ]);
    expect(Object.fromEntries(counts)).toEqual(expected);
    for (const owner of owners)
      for (const [from, to] of [
        [0, DAYS],
        [0, 1],
        [1, 3],
        [3, 4],
        [-1, 0],
        [DAYS, DAYS + 2],
      ] as const)
        expect(await read(begin(owner, from, to), BY_DAY)).toEqual(await readDays(owner, from, to));
  }, 60_000);

  test("counts once what is there at its first step, whatever arrives and ends between the steps", async () => {
    const alice = await opened.fund("alice", 10n ** 10n);
    const many = (prefix: string) => Array.from({ length: 600 }, (_, at) => `req_${prefix}${at}`);
    await opened.recordMany(alice, many("a"));
    const open = ["done", "failed", "open"].map((id) => `req_${id}`);
    for (const id of open) await opened.record(running(id, alice));
    await opened.record(ended("req_b", alice, unbilled));
    let pauses = 0;
    const periods = await begin(alice, 0, DAYS, async () => {
      pauses += 1;
      if (pauses > 1) return;
      await opened.recordMany(alice, many("c"));
      await opened.record(ended("req_done", alice));
      await opened.record(ended("req_failed", alice, unbilled));
      await opened.record(ended("req_d", alice, unbilled));
    });
    expect(pauses).toBe(3);
    expect(periods[0]).toMatchObject({ sums: { requests: 250, failed: 1 } });
    const sums = Object.values(added(periods.map((part) => ["all", part.sums] as const)));
    expect(sums).toMatchObject([{ requests: 604, failed: 1, cost: 600n * costOfEnded }]);
    expect(Object.values(await read(begin(alice)))).toMatchObject([
      { requests: 1205, failed: 3, cost: 1201n * costOfEnded },
    ]);
  });

  test("reads no further than the newest requests of the span, and leaves out folded ones", async () => {
    const alice = await opened.fund("alice", 10n ** 10n);
    for (let hour = 0; hour < 4; hour += 1)
      await opened.record(ended(`req_${hour}`, alice, { at: actor.at + hour * HOUR_MS }));
    for (let n = 0; n < 3; n += 1)
      await opened.recordMany(
        alice,
        Array.from({ length: 250 }, (_, at) => `req_old_${n}_${at}`),
      );
    await opened.record(ended("req_new", alice, { at: actor.at + 2 * DAY_MS }));
    let pauses = 0;
    await begin(alice, 2, 3, async () => void (pauses += 1));
    expect(pauses).toBe(1);
    await opened.writer.write({ kind: "fold", before: actor.at + 2 * DAY_MS });
    const [hours, days] = [await read(begin(alice), BY_DAY), await readDays(alice)];
    const [firstHour] = Object.values(hours);
    const [firstSums] = Object.values(days);
    expect(firstSums).toMatchObject({ requests: 754 });
    expect(firstHour).toMatchObject({ requests: 704 });
  });

  test("is exact where a double is not", async () => {
    const alice = await opened.fund("alice", 4n * 10n ** 18n);
    const price = 10_000_000_000_000_001n;
    const tokens = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0, cacheSaved: 0n };
    const prices = { ...endedPrice, output: price };
    const request = { price: prices, hold: 100n * price, charge: 40n * price, ...tokens };
    for (const id of ["req_1", "req_2", "req_3"]) await opened.record(ended(id, alice, request));
    expect(Object.values(await read(begin(alice)))).toMatchObject([
      { requests: 3, cost: 120n * price },
    ]);
  });
});
