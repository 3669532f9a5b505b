import { afterAll, beforeAll, expect, test } from "bun:test";
import { openStore, type SqliteStore } from "../../src/store/open.ts";
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
  await fund(storeFolder.store, "alice", 1_000_000n);
  watching = openStore({ path: storeFolder.path, durability: "process", serving: false });
});
afterAll(async () => {
  watching.closeNow();
  await storeFolder.close();
});

const changes: readonly (readonly [string, () => unknown])[] = [
  ["a command of another process", () => storeFolder.store.admin.createAccount(actor, "bob", 0n)],
  ["a request of the gateway", async () => storeFolder.record(ended("req_1", await aliceKey()))],
  ["the store's own change", () => watching.admin.setDisabled(actor, "bob", true)],
];

test.each(changes)("differs after %s, and only then", async (_, change) => {
  const before = await watching.changeSignal();
  expect(await watching.changeSignal()).toBe(before);
  await change();
  const after = await watching.changeSignal();
  expect(after).not.toBe(before);
  expect(await watching.changeSignal()).toBe(after);
});

async function aliceKey() {
  const { accountId, id } = await storeFolder.store.keys.findOrThrow("key_alice");
  return { accountId, keyId: id, firstKeyId: id };
}
