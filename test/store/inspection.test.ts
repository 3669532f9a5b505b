import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { inspectStore } from "../../src/store/open.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";
import { actor, ended, fund } from "../support/store/storeFolder.ts";

const PAGE_BYTES = 4096;
const WHOLE_CHECK_BYTES_MAX = 32 * 1024 * 1024;

const storeFolder = openStoreBefore({ audited: false });

function run(...statements: readonly string[]): void {
  const sqlite = new Database(storeFolder.path);
  for (const statement of statements) sqlite.run(statement);
  sqlite.run("PRAGMA wal_checkpoint(TRUNCATE)");
  sqlite.close();
}

const fill = [
  "CREATE TABLE filler (content BLOB)",
  `INSERT INTO filler VALUES (zeroblob(${WHOLE_CHECK_BYTES_MAX}))`,
];

describe("an inspection of a store", () => {
  test("of a small file asks all that SQLite can ask of it", async () => {
    run();
    expect(await inspectStore(storeFolder.path)).toMatchObject({
      isFullyChecked: true,
      problems: [],
    });
  });

  test("of a big file says that it asked less, and finds a damaged page even so", async () => {
    run(...fill);
    expect(await inspectStore(storeFolder.path)).toMatchObject({
      isFullyChecked: false,
      problems: [],
    });
    const bytes = readFileSync(storeFolder.path);
    // The chain of the big value's pages: each begins with the number of the next.
    bytes.writeUInt32BE(1, bytes.length - 100 * PAGE_BYTES);
    writeFileSync(storeFolder.path, bytes);
    expect((await inspectStore(storeFolder.path))?.problems).not.toEqual([]);
  });

  test("names the time of the last entry, which is no charge that was folded later", async () => {
    const last = async () => (await inspectStore(storeFolder.path))?.lastEntryMs;
    const alice = await fund(storeFolder.store, "alice", 1_000_000n);
    expect(await last()).toBe(actor.at);
    await storeFolder.record(ended("req_old", alice, { at: actor.at - DAY_MS, durationMs: 5 }));
    await storeFolder.writer.write({ kind: "fold", before: actor.at });
    expect(await last()).toBe(actor.at);
    await storeFolder.record(ended("req_new", alice, { at: actor.at, durationMs: 5 }));
    expect(await last()).toBe(actor.at + 5);
  });

  test("of a file that has nothing in it yet finds no schema and no entry", async () => {
    const path = `${storeFolder.path}.empty`;
    writeFileSync(path, "");
    expect(await inspectStore(path)).toMatchObject({
      schema: { applied: 0 },
      problems: [],
      lastEntryMs: undefined,
      isGatewayRunning: false,
    });
  });
});
