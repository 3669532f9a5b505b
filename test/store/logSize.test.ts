import { afterEach, beforeEach, expect, test } from "bun:test";
import { createLogAlarm, LOG_BYTES_MAX, logSizeBytes } from "../../src/store/logSize.ts";
import { fund, openStoreFolder, type StoreFolder } from "../support/storeFolder.ts";

let books: StoreFolder;
beforeEach(async () => {
  books = await openStoreFolder();
});
afterEach(() => books.close());

test("the log's size is that of the file beside the database, and 0 where there is none", () => {
  const before = logSizeBytes(books.path);
  fund(books.store, "alice", 1n);
  expect(logSizeBytes(books.path)).toBeGreaterThan(before);
  expect(logSizeBytes(`${books.path}.nowhere`)).toBe(0);
});

test("a log that grows too large is told of once, and again when it comes back", () => {
  const told: number[] = [];
  let bytes = LOG_BYTES_MAX;
  const look = createLogAlarm(
    () => bytes,
    (size) => told.push(size),
  );
  const sizes = [0, 1, 2, 1, 0, 3];
  for (const more of sizes) {
    bytes = LOG_BYTES_MAX + more;
    look();
  }
  expect(told).toEqual([LOG_BYTES_MAX + 1, LOG_BYTES_MAX + 3]);
});
