import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hashKey } from "../../../src/auth/apiKey.ts";
import {
  type OpenedRequest,
  type RequestSettlement,
  type Store,
  type Writer,
  openStore,
  startWriter,
} from "../../../src/store/store.ts";

/** A store in a new folder, with the Writer of a serving gateway. */
export interface StoreFolder {
  readonly folder: string;
  readonly path: string;
  readonly store: Store;
  readonly writer: Writer;
  close(): Promise<void>;
}

export const actor = { name: "tester", at: 1_767_225_600_000 } as const;

/** Makes one; with `path` over the store that is there. Close it, also after a failure. */
export async function openStoreFolder(existing?: string): Promise<StoreFolder> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-store-"));
  const path = existing ?? join(folder, "tollgate.db");
  const store = openStore({ path, durability: "process", serving: true });
  const writer = startWriter({ path, durability: "process" }, (message) => {
    throw new Error(`the writer is broken: ${message}`);
  });
  return {
    folder,
    path,
    store,
    writer,
    async close() {
      await writer.close();
      store.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Credits an account and makes a key for it; returns the ids that requests need. */
export function fund(
  store: Store,
  name: string,
  balance: bigint,
  key: { name: string; budget: bigint | null } = { name, budget: null },
): { accountId: number; keyId: number } {
  const publicId = `key_${key.name}`;
  store.admin.createKey(actor, name, {
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
    store.admin.changeBalance(actor, booking);
  }
  const row = store.keys.find(publicId);
  if (row === undefined) throw new Error("the key that was just made is not there");
  return { accountId: row.accountId, keyId: row.id };
}

/** A request of a funded account: input at 25 and output at 200 nano-roubles a token. */
export function opened(
  publicId: string,
  owner: { accountId: number; keyId: number },
  changes: Partial<OpenedRequest> = {},
): OpenedRequest {
  return {
    publicId,
    at: actor.at,
    ...owner,
    endpoint: "chat",
    model: "small",
    stream: false,
    priceInput: 25n,
    priceCachedInput: 2n,
    priceCacheWrite: 30n,
    priceOutput: 200n,
    hold: 100_000n,
    heldTotal: changes.hold ?? 100_000n,
    ...changes,
  };
}

/** Its settlement with 100 prompt tokens, 10 of them cached and 5 written to the cache, and 40 completion tokens. */
export function ended(
  publicId: string,
  changes: Partial<RequestSettlement> = {},
): RequestSettlement {
  return {
    publicId,
    at: actor.at + 1000,
    status: "done",
    provider: "local",
    promptTokens: 100,
    cachedTokens: 10,
    cacheWriteTokens: 5,
    completionTokens: 40,
    cost: costOfEnded,
    estimated: false,
    operatorCost: 4000n,
    attempts: [
      { provider: "other", outcome: "status 503", status: 503, durationMs: 12 },
      { provider: "local", outcome: "ok", status: 200, durationMs: 345 },
    ],
    durationMs: 357,
    firstByteMs: 40,
    ...changes,
  };
}

/** 85 x 25 + 10 x 2 + 5 x 30 + 40 x 200. */
export const costOfEnded = 10_295n;

/** The changes for a free settlement. */
export const unbilled = {
  status: "failed",
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  completionTokens: 0,
  cost: 0n,
  operatorCost: null,
} as const;
