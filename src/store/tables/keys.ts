import { and, asc, desc, eq, isNull, sql, type SQL } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { assert } from "../../lib/assert.ts";
import { lazy } from "../../lib/lazy.ts";
import type { Connection } from "../connection.ts";
import { accounts, keys } from "../schema/schema.ts";
import { NotFoundError } from "../storeError.ts";

/** The settings of a key. A limit that is null comes from the config. `models`: null means all; an empty list is damaged and allows none. */
export interface KeySettings {
  label: string | null;
  expiresAt: number | null;
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
  concurrentRequests: number | null;
  models: readonly string[] | null;
  /** The most that its rotation chain may spend in its lifetime, in nano-roubles; null: no limit. */
  budget: bigint | null;
}

/** The settings to change. An undefined one stays as it is. */
export type KeyChanges = { readonly [Name in keyof KeySettings]?: KeySettings[Name] | undefined };

export interface KeyRow extends KeySettings {
  id: number;
  publicId: string;
  accountId: number;
  account: string;
  accountDisabled: boolean;
  /** The price plan of the account; null: none. */
  plan: string | null;
  prefix: string;
  createdAt: number;
  revokedAt: number | null;
  lastUsedAt: number | null;
  /** The client's address at the first recorded use and at the last one. */
  firstAddress: string | null;
  lastAddress: string | null;
  /** What its rotation chain spent. */
  spent: bigint;
  /** The first key of its rotation chain: itself, if it did not come from a rotation. */
  firstKeyId: number;
}

/** Columns for output only. Authentication does not read them. */
type OutputColumn =
  | "prefix"
  | "label"
  | "createdAt"
  | "firstAddress"
  | "lastAddress"
  | "budget"
  | "spent";

/** A key as authentication reads it, with its hash. */
export interface KeySecretRow extends Omit<KeyRow, OutputColumn> {
  hash: Uint8Array;
}

/** An absent setting becomes null. */
export interface NewKey extends KeyChanges {
  publicId: string;
  accountId: number;
  hash: Uint8Array;
  prefix: string;
  createdAt: number;
}

export type KeyTable = ReturnType<typeof keyTable>;

export function keyTable(connection: Connection) {
  const { db, dialect } = connection;
  const first = alias(keys, "first");
  /** Budget and spending of a rotation chain are stored at its first key. */
  const ofChain = (name: "budget" | "spent"): SQL => {
    const firstValue = db
      .select({ value: first[name] })
      .from(first)
      .where(eq(first.id, keys.firstKeyId));
    return sql`CASE WHEN ${keys.firstKeyId} IS NULL THEN ${keys[name]} ELSE (${firstValue}) END`;
  };
  const money = {
    budget: sql<bigint | null>`${ofChain("budget")}`.mapWith(BigInt),
    spent: sql<bigint>`${ofChain("spent")}`.mapWith(BigInt),
  };
  const firstOfChain = sql<number>`coalesce(${keys.firstKeyId}, ${keys.id})`.mapWith(Number);
  const requestColumns = {
    id: keys.id,
    publicId: keys.publicId,
    accountId: keys.accountId,
    account: accounts.name,
    accountDisabled: accounts.disabled,
    plan: accounts.plan,
    expiresAt: keys.expiresAt,
    revokedAt: keys.revokedAt,
    lastUsedAt: keys.lastUsedAt,
    requestsPerMinute: keys.requestsPerMinute,
    tokensPerMinute: keys.tokensPerMinute,
    concurrentRequests: keys.concurrentRequests,
    models: sql<readonly string[] | null>`${keys.models}`.mapWith(modelsFromJson),
    firstKeyId: firstOfChain,
  };
  const all = {
    ...requestColumns,
    prefix: keys.prefix,
    label: keys.label,
    createdAt: keys.createdAt,
    firstAddress: keys.firstAddress,
    lastAddress: keys.lastAddress,
    ...money,
  };
  const selectJoined = <T extends typeof requestColumns>(columns: T) =>
    db.select(columns).from(keys).innerJoin(accounts, eq(keys.accountId, accounts.id));
  const byHash = lazy(() =>
    connection.prepare(
      selectJoined({ ...requestColumns, hash: keys.hash }).where(
        eq(keys.hash, sql.placeholder("hash")),
      ),
    ),
  );
  const byPublicId = lazy(() =>
    connection.prepare(selectJoined(all).where(eq(keys.publicId, sql.placeholder("publicId")))),
  );
  const find = (publicId: string): Promise<KeyRow | undefined> => byPublicId().first({ publicId });
  return {
    /** `firstKeyId`: the rotation chain to which the key belongs, if it is not the first key of one. */
    insert(key: NewKey, firstKeyId?: number): Promise<void> {
      const models = key.models && JSON.stringify(key.models);
      const budget = firstKeyId === undefined ? key.budget : null;
      const hash = Buffer.from(key.hash);
      const values = { ...key, id: dialect.newRowId, hash, models, budget, firstKeyId };
      return connection.run(db.insert(keys).values(values));
    },
    findByHash: (hash: Uint8Array): Promise<KeySecretRow | undefined> =>
      byHash().first({ hash: Buffer.from(hash) }),
    find,
    async findOrThrow(publicId: string): Promise<KeyRow> {
      const key = await find(publicId);
      if (key !== undefined) return key;
      throw new NotFoundError(
        `there is no key ${JSON.stringify(publicId)}: tollgate keys list shows them`,
      );
    },
    list: (account: string | undefined): Promise<KeyRow[]> =>
      connection.all(
        selectJoined(all)
          .where(account === undefined ? undefined : eq(accounts.name, account))
          .orderBy(asc(keys.id)),
      ),
    /** Keys that meet a condition on keys and accounts, the newest first. */
    newest: (condition: SQL | undefined, limit: number): Promise<KeyRow[]> =>
      connection.all(selectJoined(all).where(condition).orderBy(desc(keys.id)).limit(limit)),
    /** A budget applies to the whole rotation chain. */
    async change(
      key: Pick<KeyRow, "id" | "firstKeyId">,
      { budget, models, ...changes }: KeyChanges,
    ) {
      // In the order of the ids, as every transaction locks keys.
      if (budget !== undefined)
        await connection.run(db.update(keys).set({ budget }).where(eq(keys.id, key.firstKeyId)));
      const keyChanges = { ...changes, models: models && JSON.stringify(models) };
      if (Object.values(keyChanges).some((value) => value !== undefined))
        await connection.run(db.update(keys).set(keyChanges).where(eq(keys.id, key.id)));
    },
    async newestOfChain(key: Pick<KeyRow, "accountId" | "firstKeyId">): Promise<KeyRow> {
      const row = await connection.first(
        selectJoined(all)
          .where(and(eq(keys.accountId, key.accountId), eq(firstOfChain, key.firstKeyId)))
          .orderBy(desc(keys.id))
          .limit(1),
      );
      assert(row !== undefined, "a rotation chain without a key");
      return row;
    },
    /** Returns false if the key was revoked before. */
    async revoke(id: number, at: number): Promise<boolean> {
      const revoked = await connection.first(
        db
          .update(keys)
          .set({ revokedAt: at })
          .where(and(eq(keys.id, id), isNull(keys.revokedAt)))
          .returning({ id: keys.id }),
      );
      return revoked !== undefined;
    },
  };
}

/** A damaged list becomes an empty one: the key may use no model until the operator sets the list again. */
export function modelsFromJson(text: string): readonly string[] {
  try {
    const models: unknown = JSON.parse(text);
    const isList = Array.isArray(models) && models.every((model) => typeof model === "string");
    return isList ? models : [];
  } catch {
    return [];
  }
}
