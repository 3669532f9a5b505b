import { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { lastRows, rowsNewerThan } from "../../src/store/backup/verifiedCopy.ts";
import { openAuditedBooks } from "../support/store/auditedBooks.ts";
import { actor, ended, opened, type StoreFolder } from "../support/store/storeFolder.ts";

let storeFolder: StoreFolder;
beforeEach(async () => {
  storeFolder = await openAuditedBooks();
});
afterEach(() => storeFolder.close());

test("a request that was folded after it was charged still counts as newer, and an older one does not", async () => {
  const { store, writer, path } = storeFolder;
  const [alice] = store.keys.list("alice");
  const owner = { accountId: alice?.accountId ?? 0, keyId: alice?.id ?? 0 };
  const sqlite = new Database(path, { readonly: true, safeIntegers: true, strict: true });
  const end = lastRows(sqlite);
  for (const [id, at] of [
    ["req_folded", actor.at],
    ["req_kept", actor.at + 5000],
  ] as const) {
    await writer.write({ kind: "openRequest", request: opened(id, owner, { at }) });
    await writer.write({ kind: "settleRequest", settlement: ended(id) });
  }
  expect(rowsNewerThan(sqlite, end)).toEqual({ requests: 2, ledgerRows: 2, adminLogRows: 0 });
  await writer.write({ kind: "fold", before: actor.at + 1 });
  expect(store.requests.find("req_folded")).toBeUndefined();
  expect(rowsNewerThan(sqlite, end)).toEqual({ requests: 2, ledgerRows: 2, adminLogRows: 0 });
  expect(store.audit().problems).toEqual([]);
  sqlite.close();
});
