import { asc, eq, isNull, sql, and } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { lazy } from "../lib/lazy.ts";
import { newRowId, plannedOnce } from "./columns.ts";
import { requests } from "./requestSchema.ts";
import { accounts, keys } from "./schema.ts";
import type { Connection } from "./sqlite.ts";

/** A limit that is null is the config's. `models` null: all models. */
export interface KeyRow {
  id: number;
  publicId: string;
  accountId: number;
  account: string;
  accountDisabled: boolean;
  prefix: string;
  label: string | null;
  createdAt: number;
  expiresAt: number | null;
  revokedAt: number | null;
  lastUsedAt: number | null;
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
  concurrentRequests: number | null;
  models: readonly string[] | null;
  budget: bigint | null;
  /** By all keys of its line. */
  spent: bigint;
  /** The first key of its line, whose budget all of them spend: itself, unless it came by a rotation. */
  firstKeyId: number;
}

/** What of a key is for people to see. */
type Shown = "prefix" | "label" | "createdAt" | "budget" | "spent";

/** A key as authentication finds it, with the digest to compare. */
export interface KeySecretRow extends Omit<KeyRow, Shown> {
  hash: Uint8Array;
}

export interface NewKey {
  publicId: string;
  accountId: number;
  hash: Uint8Array;
  prefix: string;
  label: string | null;
  createdAt: number;
  expiresAt: number | null;
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
  concurrentRequests: number | null;
  models: readonly string[] | null;
  budget: bigint | null;
}

/** What admission decides by, read afresh for each request; nano-roubles. */
export interface Funds {
  balance: bigint;
  overdraft: bigint;
  budget: bigint | null;
  spent: bigint;
}

/** The money of a moment, and which of the requests that were asked about had ended by then. */
export interface SettledFunds extends Funds {
  endedIds: readonly string[];
}

export interface KeyTable {
  insert(key: NewKey): void;
  /** By the SHA-256 of the whole key: one point read. */
  findByHash(hash: Uint8Array): KeySecretRow | undefined;
  find(publicId: string): KeyRow | undefined;
  list(account: string | undefined): KeyRow[];
  /** Marks the key revoked, once; false when it was before. */
  revoke(id: number, at: number): boolean;
  /** The account's and the key's money at this moment: one point read. */
  funds(keyId: number): Funds | undefined;
  /** The same, and which of these requests have ended: one snapshot of the store. */
  fundsBeside(keyId: number, requestIds: readonly string[]): SettledFunds | undefined;
}

export function keyTable({ db }: Connection): KeyTable {
  const first = alias(keys, "first");
  const spentByFirst = db
    .select({ spent: first.spent })
    .from(first)
    .where(eq(first.id, keys.firstKeyId));
  const spent = sql<bigint>`coalesce((${spentByFirst}), ${keys.spent})`.mapWith(BigInt);
  /** What each request is decided by. */
  const asked = {
    id: keys.id,
    publicId: keys.publicId,
    accountId: keys.accountId,
    account: accounts.name,
    accountDisabled: accounts.disabled,
    expiresAt: keys.expiresAt,
    revokedAt: keys.revokedAt,
    lastUsedAt: keys.lastUsedAt,
    requestsPerMinute: keys.requestsPerMinute,
    tokensPerMinute: keys.tokensPerMinute,
    concurrentRequests: keys.concurrentRequests,
    models: sql<readonly string[] | null>`${keys.models}`.mapWith(textsFromJson),
    firstKeyId: sql<number>`coalesce(${keys.firstKeyId}, ${keys.id})`.mapWith(Number),
  };
  const all = {
    ...asked,
    prefix: keys.prefix,
    label: keys.label,
    createdAt: keys.createdAt,
    budget: keys.budget,
    spent,
  };
  const joined = <T extends typeof asked>(columns: T) =>
    db.select(columns).from(keys).innerJoin(accounts, eq(keys.accountId, accounts.id));
  const byHash = joined({ ...asked, hash: keys.hash })
    .where(eq(keys.hash, plannedOnce("hash")))
    .prepare();
  const byPublicId = lazy(() =>
    joined(all)
      .where(eq(keys.publicId, plannedOnce("publicId")))
      .prepare(),
  );
  const money = {
    balance: accounts.balance,
    overdraft: accounts.overdraft,
    budget: keys.budget,
    spent,
  };
  const funds = db
    .select(money)
    .from(keys)
    .innerJoin(accounts, eq(keys.accountId, accounts.id))
    .where(eq(keys.id, plannedOnce("keyId")))
    .prepare();
  const endedIds = sql<readonly string[]>`(
    SELECT json_group_array(${requests.publicId}) FROM ${requests}
    WHERE ${requests.publicId} IN (SELECT value FROM json_each(${sql.placeholder("requestIds")}))
      AND ${requests.status} <> 'running')`.mapWith(textsFromJson);
  const fundsBeside = db
    .select({ ...money, endedIds })
    .from(keys)
    .innerJoin(accounts, eq(keys.accountId, accounts.id))
    .where(eq(keys.id, plannedOnce("keyId")))
    .prepare();
  return {
    insert(key) {
      const models = key.models && JSON.stringify(key.models);
      db.insert(keys)
        .values({ ...key, id: newRowId, hash: Buffer.from(key.hash), models })
        .run();
    },
    findByHash: (hash) => byHash.get({ hash }),
    find: (publicId) => byPublicId().get({ publicId }),
    list: (account) =>
      joined(all)
        .where(account === undefined ? undefined : eq(accounts.name, account))
        .orderBy(asc(keys.id))
        .all(),
    revoke: (id, at) =>
      db
        .update(keys)
        .set({ revokedAt: at })
        .where(and(eq(keys.id, id), isNull(keys.revokedAt)))
        .returning({ id: keys.id })
        .get() !== undefined,
    funds: (keyId) => funds.get({ keyId }),
    fundsBeside: (keyId, requestIds) =>
      fundsBeside.get({ keyId, requestIds: JSON.stringify(requestIds) }),
  };
}

/** Drizzle maps NULL by itself; only text reaches this. */
function textsFromJson(text: string): readonly string[] {
  return JSON.parse(text) as string[];
}
