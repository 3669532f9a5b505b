import { afterEach, beforeEach, expect } from "bun:test";
import { openSampleLedger } from "./sampleLedger.ts";
import { openStoreFolder, type StoreFolder } from "./storeFolder.ts";

/** An empty store for each test of the file, closed after it. `audited`: the audit must then find no problem. */
export function openStoreBefore({ audited }: { audited: boolean }): StoreFolder {
  return openBefore(() => openStoreFolder(), audited);
}

/** The same with the sample ledger, which a test may damage. */
export function openSampleLedgerBefore(): StoreFolder {
  return openBefore(openSampleLedger, false);
}

function openBefore(open: () => Promise<StoreFolder>, audited: boolean): StoreFolder {
  let current: StoreFolder;
  beforeEach(async () => {
    current = await open();
  });
  afterEach(async () => {
    const problems = audited ? current.store.audit().problems : [];
    await current.close();
    expect(problems).toEqual([]);
  });
  return {
    get folder() {
      return current.folder;
    },
    get path() {
      return current.path;
    },
    get store() {
      return current.store;
    },
    get writer() {
      return current.writer;
    },
    record: (record) => current.record(record),
    reserve: (accountId, amount) => current.reserve(accountId, amount),
    close: () => current.close(),
  };
}
