import { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/time.ts";
import type { UsageFilter } from "../../src/store/store.ts";
import {
  actor,
  ended,
  fund,
  opened,
  openStoreFolder,
  type StoreFolder,
} from "../support/store/storeFolder.ts";

let storeFolder: StoreFolder;
beforeEach(async () => {
  storeFolder = await openStoreFolder();
});
afterEach(async () => {
  const { problems } = storeFolder.store.audit();
  await storeFolder.close();
  expect(problems).toEqual([]);
});

test("a fold by a clock that was ahead does not blur the requests that come after it", async () => {
  const alice = fund(storeFolder.store, "alice", 1_000_000_000n);
  const run = async (id: string, at: number): Promise<void> => {
    await storeFolder.writer.write({ kind: "openRequest", request: opened(id, alice, { at }) });
    await storeFolder.writer.write({ kind: "settleRequest", settlement: ended(id) });
  };
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
  // An earlier version noted the time to which it was to fold, however far ahead that was.
  change("UPDATE retention SET kept_since = kept_since + 365 * 86400000");
  expect(count({ since: noon + 1 })).toBe(1);
  await run("req_next_day", noon + DAY_MS);
  expect(storeFolder.store.audit().problems).toEqual([]);
  change(
    "UPDATE daily_totals SET failed = failed + 1 WHERE day = (SELECT max(day) FROM daily_totals)",
  );
  expect(storeFolder.store.audit().problems).toEqual([
    expect.stringContaining("are not the sum of their requests"),
  ]);
  change(
    "UPDATE daily_totals SET failed = failed - 1 WHERE day = (SELECT max(day) FROM daily_totals)",
  );
});

test("a request that ends long after its fellows were folded does not put the time back since which all are kept", async () => {
  const alice = fund(storeFolder.store, "alice", 1_000_000_000n);
  const open = (id: string, at: number) =>
    storeFolder.writer.write({ kind: "openRequest", request: opened(id, alice, { at }) });
  const end = (id: string) =>
    storeFolder.writer.write({ kind: "settleRequest", settlement: ended(id) });
  const fold = () => storeFolder.writer.write({ kind: "fold", before: actor.at + 1 });
  await open("req_slow", actor.at - DAY_MS);
  await open("req_1", actor.at);
  await end("req_1");
  for (const id of ["req_slow", undefined]) {
    expect((await fold()).folded).toBe(1);
    expect(asked("SELECT kept_since AS found FROM retention")).toBe(actor.at + 1);
    if (id !== undefined) await end(id);
  }
});

function asked(query: string): unknown {
  const sqlite = new Database(storeFolder.path);
  const row = sqlite.query<{ found: unknown }, []>(query).get();
  sqlite.close();
  return row?.found;
}

function change(statement: string): void {
  const sqlite = new Database(storeFolder.path);
  sqlite.run(statement);
  sqlite.close();
}
