import type { Price } from "../../../src/contract/figures.ts";
import { writeFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hashKey } from "../../../src/auth/apiKey.ts";
import { type SqliteStore, openStore, startWriter } from "../../../src/store/open.ts";
import type { RequestRecord, Writer } from "../../../src/store/store.ts";

import {
  freePrice,
  recordRequest,
  requestRecord,
  reserve,
  runningRecord,
} from "./recordedRequest.ts";

/** A store in a new folder, with the Writer of a serving gateway. */
export interface StoreFolder {
  readonly folder: string;
  readonly path: string;
  readonly store: SqliteStore;
  readonly writer: Writer;
  /** Reserves the charge of a request, and then writes its row. */
  record(record: RequestRecord): Promise<void>;
  /** Sets what the gateway may hold for open requests of an account. */
  reserve(accountId: number, amount: bigint): Promise<void>;
  /** Stops the Writer, as the gateway's end does, if it has started. */
  stopWriter(): Promise<void>;
  close(): Promise<void>;
}

export const actor = { name: "tester", command: "test", at: 1_767_225_600_000 } as const;

/** Makes one; with `path` over the store that is there. Close it, also after a failure. */
export async function openStoreFolder(existing?: string): Promise<StoreFolder> {
  if (existing === undefined) return await openCopy(await (empty ??= databaseOf()));
  return openIn(await mkdtemp(join(tmpdir(), "tollgate-store-")), existing);
}

/** Makes one with a copy of a database of `databaseOf`. */
export async function openCopy(database: Uint8Array): Promise<StoreFolder> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-store-"));
  const path = join(folder, "tollgate.db");
  writeDatabase(path, database);
  return openIn(folder, path);
}

/** The file of a database that was filled by these. To copy it for a test costs a tenth of making it. */
export async function databaseOf(
  ...fill: readonly ((folder: StoreFolder) => Promise<void>)[]
): Promise<Uint8Array> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-database-"));
  const path = join(folder, "tollgate.db");
  try {
    const storeFolder = await openStoreFolder(path);
    try {
      for (const step of fill) await step(storeFolder);
    } finally {
      await storeFolder.close();
    }
    return await readFile(path);
  } finally {
    await rm(folder, { recursive: true });
  }
}

export function writeDatabase(path: string, database: Uint8Array): void {
  writeFileSync(path, database, { mode: 0o600 });
}

let empty: Promise<Uint8Array> | undefined;

function openIn(folder: string, path: string): StoreFolder {
  const store = openStore({ path, durability: "process", serving: true });
  let started: Writer | undefined;
  // Its Worker costs more than all the rest, and many tests write nothing.
  const writer = (): Writer =>
    (started ??= startWriter({ path, durability: "process" }, (message) => {
      throw new Error(`the writer is broken: ${message}`);
    }));
  return {
    folder,
    path,
    store,
    get writer() {
      return writer();
    },
    record: (record) => recordRequest(writer(), record),
    reserve: (accountId, amount) => reserve(writer(), accountId, amount),
    async stopWriter() {
      await started?.close();
      started = undefined;
    },
    async close() {
      await started?.close();
      store.closeNow();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The row ids of an account and a key. `firstKeyId`: the first key of the rotation chain. */
export interface Owner {
  readonly accountId: number;
  readonly keyId: number;
  readonly firstKeyId: number;
}

/** Credits an account and makes a key for it; returns the ids that requests need. */
export async function fund(
  store: SqliteStore,
  name: string,
  balance: bigint,
  key: { name: string; budget: bigint | null } = { name, budget: null },
): Promise<Owner> {
  const publicId = `key_${key.name}`;
  await store.admin.createKey(actor, name, {
    publicId,
    hash: hashKey(key.name),
    prefix: "sk-tg-000000",
    createdAt: actor.at,
    budget: key.budget,
  });
  if (balance > 0n) {
    const booking = {
      account: name,
      kind: "credit",
      amount: balance,
      ref: null,
      note: null,
    } as const;
    await store.admin.changeBalance(actor, booking);
  }
  const row = await store.keys.find(publicId);
  if (row === undefined) throw new Error("the key that was just made is not there");
  return { accountId: row.accountId, keyId: row.id, firstKeyId: row.id };
}

/** In nano-roubles of one. */
export const endedPrice: Price = {
  ...freePrice,
  input: 25n,
  cachedInput: 2n,
  cacheWrite: 30n,
  cacheWrite1h: 50n,
  output: 200n,
  webSearch: 5000n,
};

const admitted = {
  at: actor.at,
  price: endedPrice,
  hold: 100_000n,
  mayHaveRow: true,
} as const;

/** A running request of a funded account. */
export function running(
  publicId: string,
  owner: Owner,
  changes: Partial<RequestRecord> = {},
): RequestRecord {
  return runningRecord({ publicId, ...owner, ...admitted, ...changes });
}

/** The same at its end, with 100 prompt tokens, 10 of them cached and 5 written to the cache, and 40 completion tokens. */
export function ended(
  publicId: string,
  owner: Owner,
  changes: Partial<RequestRecord> = {},
): RequestRecord {
  return requestRecord({
    publicId,
    ...owner,
    ...admitted,
    promptTokens: 100,
    cachedTokens: 10,
    cacheWriteTokens: 5,
    completionTokens: 40,
    charge: costOfEnded,
    operatorCost: 4000n,
    cacheSaved: savedByEnded,
    operatorSaved: 600n,
    attempts: [
      { provider: "other", outcome: "status 503", status: 503, durationMs: 12 },
      { provider: "local", outcome: "ok", status: 200, durationMs: 345 },
    ],
    durationMs: 357,
    firstByteMs: 40,
    ...changes,
  });
}

/** Records many done requests of one account in a few groups. */
export async function recordMany(
  storeFolder: StoreFolder,
  owner: Owner,
  ids: readonly string[],
): Promise<void> {
  await storeFolder.reserve(owner.accountId, costOfEnded * BigInt(ids.length));
  const write = (id: string): Promise<unknown> =>
    storeFolder.writer.write({ kind: "recordRequest", record: ended(id, owner) });
  await Promise.all(ids.map(write));
}

/** 85 x 25 + 10 x 2 + 5 x 30 + 40 x 200. */
export const costOfEnded = 10_295n;

/** 10 x (25 - 2) - 5 x (30 - 25). */
const savedByEnded = 205n;

/** The changes for an end that costs nothing. */
export const unbilled = {
  status: "failed",
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  completionTokens: 0,
  charge: 0n,
  writeOff: 0n,
  operatorCost: null,
  cacheSaved: 0n,
  operatorSaved: null,
} as const;
