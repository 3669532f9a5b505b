import { afterAll, beforeAll, expect, test } from "bun:test";
import { openStore, type SqliteStore } from "../../src/store/store.ts";
import {
  actor,
  ended,
  fund,
  openStoreFolder,
  type StoreFolder,
} from "../support/store/storeFolder.ts";

let storeFolder: StoreFolder;
let watching: SqliteStore;

beforeAll(async () => {
  storeFolder = await openStoreFolder();
  fund(storeFolder.store, "alice", 1_000_000n);
  watching = openStore({ path: storeFolder.path, durability: "process", serving: false });
});
afterAll(async () => {
  watching.close();
  await storeFolder.close();
});

const changes: readonly (readonly [string, () => unknown])[] = [
  ["a command of another process", () => storeFolder.store.admin.createAccount(actor, "bob", 0n)],
  ["a request of the gateway", () => storeFolder.record(ended("req_1", aliceKey()))],
  ["the store's own change", () => watching.admin.setDisabled(actor, "bob", true)],
];

test.each(changes)("differs after %s, and only then", async (_, change) => {
  const before = watching.changeSignal();
  expect(watching.changeSignal()).toBe(before);
  await change();
  const after = watching.changeSignal();
  expect(after).not.toBe(before);
  expect(watching.changeSignal()).toBe(after);
});

function aliceKey() {
  const { accountId, id } = storeFolder.store.keys.findOrThrow("key_alice");
  return { accountId, keyId: id, firstKeyId: id };
}
