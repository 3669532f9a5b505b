import { expect, test } from "bun:test";
import {
  createWalSizeWarning,
  WAL_BYTES_MAX,
  walSizeBytes,
} from "../../src/store/sqlite/sqlite.ts";
import { fund } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const storeFolder = openStoreBefore({ audited: false });

test("the log's size is that of the file beside the database, and 0 where there is none", async () => {
  const before = walSizeBytes(storeFolder.path);
  await fund(storeFolder.store, "alice", 1n);
  expect(walSizeBytes(storeFolder.path)).toBeGreaterThan(before);
  expect(walSizeBytes(`${storeFolder.path}.nowhere`)).toBe(0);
});

test("reports a WAL that grows too large once, and again when it is small", () => {
  const told: number[] = [];
  let bytes = WAL_BYTES_MAX;
  const look = createWalSizeWarning(
    () => bytes,
    (size) => told.push(size),
  );
  const sizes = [0, 1, 2, 1, 0, 3];
  for (const more of sizes) {
    bytes = WAL_BYTES_MAX + more;
    look();
  }
  expect(told).toEqual([WAL_BYTES_MAX + 1, WAL_BYTES_MAX + 3]);
});
