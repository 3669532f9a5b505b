import { afterEach, beforeEach, expect } from "bun:test";
import { openSampleLedger } from "./sampleLedger.ts";
import { databaseOf, openCopy, openStoreFolder, type StoreFolder } from "./storeFolder.ts";

/**
 * A store for each test of the file, closed after it: empty, or with what `fill` writes once for all of them. `audited`: the
 * audit must then find no problem.
 */
export function openStoreBefore({
  audited,
  fill,
}: {
  readonly audited: boolean;
  readonly fill?: (folder: StoreFolder) => Promise<void>;
}): StoreFolder {
  let filled: Promise<Uint8Array> | undefined;
  const open = async () =>
    fill === undefined
      ? await openStoreFolder()
      : await openCopy(await (filled ??= databaseOf(fill)));
  return openBefore(open, audited);
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
    const problems = audited ? (await current.store.auditHere()).problems : [];
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
    stopWriter: () => current.stopWriter(),
    close: () => current.close(),
  };
}
