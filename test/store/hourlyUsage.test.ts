import { describe, expect, test } from "bun:test";
import { DAY_MS, HOUR_MS } from "../../src/lib/clock.ts";
import type { RequestRecord } from "../../src/store/store.ts";
import { seededRandom } from "../support/seededRandom.ts";
import {
  actor,
  costOfEnded,
  ended,
  fund,
  recordMany,
  running,
  unbilled,
  type Owner,
} from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const firstDay = actor.at / DAY_MS;
const DAYS = 4;

const storeFolder = openStoreBefore({ audited: true });

type Hours = ReturnType<typeof storeFolder.store.hourlyUsageOfAccount>;
type Sums = Record<string, number | bigint>;

function begin({ accountId }: Owner, from = 0, to = DAYS): Hours {
  const days = { from: firstDay + from, to: firstDay + to };
  return storeFolder.store.hourlyUsageOfAccount(accountId, days);
}

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

/** What is left of a report, by hour and model, or by the first characters of the hour and model. */
function read(hours: Hours, characters = "2026-01-01T00".length): Record<string, Sums> {
  return added(
    [...hours].flat().map(({ hour, sums }) => [`${hour.slice(0, characters)} ${sums.group}`, sums]),
  );
}

function readDays({ accountId }: Owner, from = 0, to = DAYS): Record<string, Sums> {
  const days = { from: firstDay + from, to: firstDay + to };
  return added(
    [...storeFolder.store.usageOfAccount(accountId, days)].flatMap(({ date, models }) =>
      models.map((sums) => [`${date} ${sums.group}`, sums] as const),
    ),
  );
}

const BY_DAY = "2026-01-01".length;

describe("the usage by hour", () => {
  test("adds up to the report by day, with refunds and with what still runs", async () => {
    const { below, pick, chance } = seededRandom(9);
    const owners = [
      fund(storeFolder.store, "alice", 10n ** 10n),
      fund(storeFolder.store, "bob", 10n ** 10n),
    ];
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
        await storeFolder.record(running(record.publicId, owner, request));
        open.push(record);
      } else await storeFolder.record(record);
      if (owner === owners[0]) {
        const key = `${new Date(at).toISOString().slice(0, 13)} ${request.model}`;
        expected[key] = (expected[key] ?? 0) + 1;
      }
      const late = open[below(3 * open.length + 1)];
      if (late !== undefined) {
        await storeFolder.record(late);
        open.splice(open.indexOf(late), 1);
      }
      const charged = late ?? (open.includes(record) ? undefined : record);
      if (charged !== undefined && charged.charge > 0n && chance(0.3))
        storeFolder.store.admin.refund(actor, {
          request: charged.publicId,
          amount: chance(0.5) ? 1000n : costOfEnded,
          ref: null,
          note: null,
        });
    }
    const [alice] = owners;
    if (alice === undefined) throw new Error("no account");
    const counts = Object.entries(read(begin(alice))).map(([key, sums]) => [key, sums["requests"]]);
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
        expect(read(begin(owner, from, to), BY_DAY)).toEqual(readDays(owner, from, to));
  }, 60_000);

  test("is that of its first step, whatever arrives and ends between the steps", async () => {
    const alice = fund(storeFolder.store, "alice", 10n ** 10n);
    const many = (prefix: string) => Array.from({ length: 600 }, (_, at) => `req_${prefix}${at}`);
    await recordMany(storeFolder, alice, many("a"));
    const open = ["done", "failed", "open"].map((id) => `req_${id}`);
    for (const id of open) await storeFolder.record(running(id, alice));
    await storeFolder.record(ended("req_b", alice, unbilled));
    const hours = begin(alice);
    const first = hours.next().value ?? [];
    expect(first).toHaveLength(open.length);
    await recordMany(storeFolder, alice, many("c"));
    await storeFolder.record(ended("req_done", alice));
    await storeFolder.record(ended("req_failed", alice, unbilled));
    await storeFolder.record(ended("req_d", alice, unbilled));
    const sums = Object.values(
      added([...first, ...[...hours].flat()].map((part) => ["all", part.sums])),
    );
    expect(sums).toMatchObject([{ requests: 604, failed: 1, cost: 600n * costOfEnded }]);
    expect(Object.values(read(begin(alice)))).toMatchObject([
      { requests: 1205, failed: 3, cost: 1201n * costOfEnded },
    ]);
  });

  test("reads no further than the newest requests of the span, and leaves out folded ones", async () => {
    const alice = fund(storeFolder.store, "alice", 10n ** 10n);
    for (let hour = 0; hour < 4; hour += 1)
      await storeFolder.record(ended(`req_${hour}`, alice, { at: actor.at + hour * HOUR_MS }));
    for (let n = 0; n < 3; n += 1)
      await recordMany(
        storeFolder,
        alice,
        Array.from({ length: 250 }, (_, at) => `req_old_${n}_${at}`),
      );
    await storeFolder.record(ended("req_new", alice, { at: actor.at + 2 * DAY_MS }));
    expect([...begin(alice, 2, 3)]).toHaveLength(2);
    await storeFolder.writer.write({ kind: "fold", before: actor.at + 2 * DAY_MS });
    const [hours, days] = [read(begin(alice), BY_DAY), readDays(alice)];
    const [firstHour] = Object.values(hours);
    const [firstSums] = Object.values(days);
    expect(firstSums).toMatchObject({ requests: 754 });
    expect(firstHour).toMatchObject({ requests: 704 });
  });

  test("is exact where a double is not", async () => {
    const alice = fund(storeFolder.store, "alice", 4n * 10n ** 18n);
    const price = 10_000_000_000_000_001n;
    const tokens = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0 };
    const request = { priceOutput: price, hold: 100n * price, charge: 40n * price, ...tokens };
    for (const id of ["req_1", "req_2", "req_3"])
      await storeFolder.record(ended(id, alice, request));
    expect(Object.values(read(begin(alice)))).toMatchObject([{ requests: 3, cost: 120n * price }]);
  });
});
