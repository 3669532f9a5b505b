import { and, asc, desc, eq, isNull, sql, type SQL } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { assert } from "../../lib/assert.ts";
import { lazy } from "../../lib/lazy.ts";
import { accounts, keys, newRowId, plannedOnce, requests } from "../schema/schema.ts";
import { StoreError, type Connection } from "../sqlite.ts";

/** What a person says of a key. A limit that is null is the config's. `models` null: all models; empty: the list is damaged, and it may use none. */
export interface KeySettings {
  label: string | null;
  expiresAt: number | null;
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
  concurrentRequests: number | null;
  models: readonly string[] | null;
  /** The most that all keys of its line may spend in their lives, in nano-roubles; null: no such limit. */
  budget: bigint | null;
}

/** Of the settings those that are to change; undefined: this one stays. */
export type KeyChanges = { readonly [Name in keyof KeySettings]?: KeySettings[Name] | undefined };

export interface KeyRow extends KeySettings {
  id: number;
  publicId: string;
  accountId: number;
  account: string;
  accountDisabled: boolean;
  prefix: string;
  createdAt: number;
  revokedAt: number | null;
  lastUsedAt: number | null;
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

/** A setting that is absent is null. */
export interface NewKey extends KeyChanges {
  publicId: string;
  accountId: number;
  hash: Uint8Array;
  prefix: string;
  createdAt: number;
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
  settledIds: readonly string[];
}

export interface KeyTable {
  /** `firstKeyId`: of the line that it continues, whose budget and spending are its own then. */
  insert(key: NewKey, firstKeyId?: number): void;
  /** By the SHA-256 of the whole key: one point read. */
  findByHash(hash: Uint8Array): KeySecretRow | undefined;
  find(publicId: string): KeyRow | undefined;
  /** The key of this id. Throws StoreError where there is none. */
  findOrThrow(publicId: string): KeyRow;
  list(account: string | undefined): KeyRow[];
  /** Changes settings of this key; a budget for all keys of its line, which have one between them. */
  change(key: Pick<KeyRow, "id" | "firstKeyId">, changes: KeyChanges): void;
  /** The key that continues all others of this one's line; itself, where nothing does. */
  newestOfChain(key: Pick<KeyRow, "accountId" | "firstKeyId">): KeyRow;
  /** Marks the key revoked, once; false when it was before. */
  revoke(id: number, at: number): boolean;
  /** The account's and the key's money at this moment: one point read. */
  funds(keyId: number): Funds | undefined;
  /** The same, and which of these requests have ended: one snapshot of the store. */
  fundsWithSettled(keyId: number, requestIds: readonly string[]): SettledFunds | undefined;
}

export function keyTable({ db }: Connection): KeyTable {
  const first = alias(keys, "first");
  /** What its line has between its keys stands at the first of them, so that no two can ever differ in it. */
  const ofLine = (name: "budget" | "spent"): SQL => {
    const ofFirst = db
      .select({ value: first[name] })
      .from(first)
      .where(eq(first.id, keys.firstKeyId));
    return sql`iif(${keys.firstKeyId} IS NULL, ${keys[name]}, (${ofFirst}))`;
  };
  const money = {
    budget: sql<bigint | null>`${ofLine("budget")}`.mapWith(BigInt),
    spent: sql<bigint>`${ofLine("spent")}`.mapWith(BigInt),
  };
  const firstOfLine = sql<number>`coalesce(${keys.firstKeyId}, ${keys.id})`.mapWith(Number);
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
    models: sql<readonly string[] | null>`${keys.models}`.mapWith(modelsFromJson),
    firstKeyId: firstOfLine,
  };
  const all = {
    ...asked,
    prefix: keys.prefix,
    label: keys.label,
    createdAt: keys.createdAt,
    ...money,
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
  const fundsColumns = { balance: accounts.balance, overdraft: accounts.overdraft, ...money };
  const funds = db
    .select(fundsColumns)
    .from(keys)
    .innerJoin(accounts, eq(keys.accountId, accounts.id))
    .where(eq(keys.id, plannedOnce("keyId")))
    .prepare();
  const settledIds = sql<readonly string[]>`(
    SELECT json_group_array(${requests.publicId}) FROM ${requests}
    WHERE ${requests.publicId} IN (SELECT value FROM json_each(${sql.placeholder("requestIds")}))
      AND ${requests.status} <> 'running')`.mapWith(textsFromJson);
  const fundsWithSettled = db
    .select({ ...fundsColumns, settledIds })
    .from(keys)
    .innerJoin(accounts, eq(keys.accountId, accounts.id))
    .where(eq(keys.id, plannedOnce("keyId")))
    .prepare();
  const find = (publicId: string): KeyRow | undefined => byPublicId().get({ publicId });
  return {
    insert(key, firstKeyId) {
      const models = key.models && JSON.stringify(key.models);
      const budget = firstKeyId === undefined ? key.budget : null;
      db.insert(keys)
        .values({ ...key, id: newRowId, hash: Buffer.from(key.hash), models, budget, firstKeyId })
        .run();
    },
    findByHash: (hash) => byHash.get({ hash }),
    find,
    findOrThrow(publicId) {
      const key = find(publicId);
      if (key !== undefined) return key;
      throw new StoreError(
        `there is no key ${JSON.stringify(publicId)}: tollgate keys list shows them`,
      );
    },
    list: (account) =>
      joined(all)
        .where(account === undefined ? undefined : eq(accounts.name, account))
        .orderBy(asc(keys.id))
        .all(),
    change(key, { budget, models, ...changes }) {
      const own = { ...changes, models: models && JSON.stringify(models) };
      if (Object.values(own).some((value) => value !== undefined))
        db.update(keys).set(own).where(eq(keys.id, key.id)).run();
      if (budget !== undefined)
        db.update(keys).set({ budget }).where(eq(keys.id, key.firstKeyId)).run();
    },
    newestOfChain(key) {
      const row = joined(all)
        .where(and(eq(keys.accountId, key.accountId), eq(firstOfLine, key.firstKeyId)))
        .orderBy(desc(keys.id))
        .limit(1)
        .get();
      assert(row !== undefined, "a line without a key");
      return row;
    },
    revoke: (id, at) =>
      db
        .update(keys)
        .set({ revokedAt: at })
        .where(and(eq(keys.id, id), isNull(keys.revokedAt)))
        .returning({ id: keys.id })
        .get() !== undefined,
    funds: (keyId) => funds.get({ keyId }),
    fundsWithSettled: (keyId, requestIds) =>
      fundsWithSettled.get({ keyId, requestIds: JSON.stringify(requestIds) }),
  };
}

/** A list that is damaged is an empty one: its key may use no model until it is set anew, and all others are told as ever. */
function modelsFromJson(text: string): readonly string[] {
  try {
    const models: unknown = JSON.parse(text);
    const isList = Array.isArray(models) && models.every((model) => typeof model === "string");
    return isList ? models : [];
  } catch {
    return [];
  }
}

/** Drizzle maps NULL by itself; only text reaches this. */
function textsFromJson(text: string): readonly string[] {
  return JSON.parse(text) as string[];
}
