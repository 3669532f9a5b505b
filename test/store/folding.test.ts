import { describe, expect, test } from "bun:test";
import { Database } from "bun:sqlite";
import { DAY_MS } from "../../src/lib/clock.ts";
import { FOLD_BATCH, FOLD_PAUSE_MS } from "../../src/store/writer/folding.ts";
import { startFolding } from "../../src/store/open.ts";
import { WriteError, type UsageFilter, type Writer } from "../../src/store/store.ts";
import { actor, costOfEnded, ended, fund, running } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const start = actor.at;

const storeFolder = openStoreBefore({ audited: true });

describe("while a gateway serves, folding", () => {
  const COUNT = 250;

  /** Ends so many requests, admitted one a second from `start` on, and lets another one in at this time. */
  async function run(newestAt: number): Promise<void> {
    const alice = await fund(storeFolder.store, "alice", 1_000_000_000n);
    await storeFolder.reserve(alice.accountId, BigInt(COUNT) * costOfEnded);
    await Promise.all(
      Array.from({ length: COUNT }, (_, at) => {
        const record = ended(`req_${at}`, alice, { at: start + at * 1000 });
        return storeFolder.writer.write({ kind: "recordRequest", record });
      }),
    );
    await storeFolder.record(running("req_newest", alice, { at: newestAt }));
  }

  const told = (onFolded: (count: number) => void = () => {}) => ({
    onFolded,
    onClockDoubt: () => {},
  });

  async function kept(): Promise<number> {
    return (await storeFolder.store.requests.list({ status: "done" }, { limit: COUNT })).rows
      .length;
  }

  test("removes what is older than is kept by its clock, all of it and no more", async () => {
    const nowMs = start + DAY_MS + 220_000;
    await run(nowMs);
    const clock = { epochMs: () => nowMs, monotonicMs: () => 0 };
    const { promise, resolve } = Promise.withResolvers<number>();
    const folding = startFolding(storeFolder, clock, DAY_MS, told(resolve));
    expect(await promise).toBe(220);
    expect(await kept()).toBe(COUNT - 220);
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
    const folding = startFolding({ ...storeFolder, writer }, clock, DAY_MS, told());
    await promise;
    folding.stop();
    expect([batches, await kept()]).toEqual([[0], COUNT]);
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
    const folding = startFolding({ ...storeFolder, writer }, clock, DAY_MS, told(resolve));
    expect(await promise).toBe(2 * FOLD_BATCH);
    expect(batches).toEqual([FOLD_BATCH, FOLD_BATCH]);
    expect(await kept()).toBe(COUNT - 2 * FOLD_BATCH);
  });

  test("gives up for now when the store can take nothing", async () => {
    await run(start);
    let asked = 0;
    const writer = writerThat(() => {
      asked += 1;
      return Promise.reject(new WriteError("full", "no room"));
    });
    const counts: number[] = [];
    const clock = { epochMs: () => start, monotonicMs: () => 0 };
    const onFolded = (count: number) => counts.push(count);
    const folding = startFolding({ ...storeFolder, writer }, clock, DAY_MS, told(onFolded));
    // The next batch would come behind the pause, and nothing else tells that there is none.
    await Bun.sleep(10 * FOLD_PAUSE_MS);
    expect([asked, counts]).toEqual([1, []]);
    folding.stop();
  });

  function writerThat(write: Writer["write"]): Writer {
    return {
      planner: undefined,
      blockedBy: undefined,
      commitWithinMs: 0,
      stopping: () => undefined,
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
  const alice = await fund(storeFolder.store, "alice", 1_000_000_000n);
  const run = (id: string, at: number) => storeFolder.record(ended(id, alice, { at }));
  const count = async (filter: UsageFilter): Promise<number> =>
    (await storeFolder.store.usage.by("model", filter)).reduce(
      (sum, { requests }) => sum + requests,
      0,
    );
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
  expect(await count({ since: noon + 1 })).toBe(1);
  expect(await count({})).toBe(3);
});

test("a request that ends long after its fellows were folded does not put the time back since which all are kept", async () => {
  const alice = await fund(storeFolder.store, "alice", 1_000_000_000n);
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
