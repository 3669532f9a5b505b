import { sql } from "drizzle-orm";
import {
  blob,
  check,
  index,
  sqliteTable,
  text,
  uniqueIndex,
  type AnySQLiteColumn,
  primaryKey,
} from "drizzle-orm/sqlite-core";
import { count, flag, nano } from "./columns.ts";
import { endpoints, requestStatuses } from "../../contract/account/requestStatus.ts";
import { NANO_ROUBLES_PER_ROUBLE } from "../../lib/money.ts";

/** Times are milliseconds since 1970, in UTC. Money is nano-roubles. */
export const accounts = sqliteTable(
  "accounts",
  {
    id: count("id").primaryKey(),
    name: text("name").notNull().unique(),
    balance: nano("balance")
      .notNull()
      .default(sql`0`),
    overdraft: nano("overdraft")
      .notNull()
      .default(sql`0`),
    ledgerSeq: count("ledger_seq")
      .notNull()
      .default(sql`0`),
    disabled: flag("disabled")
      .notNull()
      .default(sql`0`),
    createdAt: count("created_at").notNull(),
  },
  (table) => [
    check("accounts_promise", sql`${table.balance} + ${table.overdraft} >= 0`),
    check("accounts_overdraft", sql`${table.overdraft} >= 0`),
  ],
);

/** Of a key only its SHA-256 is kept. A limit that is NULL is the config's. */
export const keys = sqliteTable(
  "keys",
  {
    id: count("id").primaryKey(),
    publicId: text("public_id").notNull().unique(),
    accountId: count("account_id")
      .notNull()
      .references(() => accounts.id),
    hash: blob("hash", { mode: "buffer" }).notNull().unique(),
    prefix: text("prefix").notNull(),
    label: text("label"),
    createdAt: count("created_at").notNull(),
    expiresAt: count("expires_at"),
    revokedAt: count("revoked_at"),
    lastUsedAt: count("last_used_at"),
    requestsPerMinute: count("requests_per_minute"),
    tokensPerMinute: count("tokens_per_minute"),
    concurrentRequests: count("concurrent_requests"),
    /** A JSON array of model ids, where a `*` stands for any text; NULL: all models. */
    models: text("models"),
    /** For all keys of its line, where this is the first one; else nothing. */
    budget: nano("budget"),
    /** By all keys of its line, where this is the first one; else nothing. */
    spent: nano("spent")
      .notNull()
      .default(sql`0`),
    /** The first key of the line that a rotation continued; NULL: this is the first. */
    firstKeyId: count("first_key_id").references((): AnySQLiteColumn => keys.id),
  },
  (table) => [
    index("keys_account").on(table.accountId),
    check("keys_spent", sql`${table.spent} >= 0`),
  ],
);

/** Append-only; triggers see to it, and move the account's balance with each row. */
export const ledger = sqliteTable(
  "ledger",
  {
    id: count("id").primaryKey(),
    accountId: count("account_id")
      .notNull()
      .references(() => accounts.id),
    seq: count("seq").notNull(),
    kind: text("kind", { enum: ["credit", "debit", "charge", "refund"] }).notNull(),
    amount: nano("amount").notNull(),
    balanceAfter: nano("balance_after").notNull(),
    /** `req:<request id>` for a charge: a request can be charged only once. */
    ref: text("ref").unique(),
    actor: text("actor"),
    note: text("note"),
    at: count("at").notNull(),
    /** The charge that a refund gives back, or a part of it; NULL for the other kinds. */
    refundOf: count("refund_of").references((): AnySQLiteColumn => ledger.id),
  },
  (table) => [
    uniqueIndex("ledger_account_seq").on(table.accountId, table.seq),
    index("ledger_refunds")
      .on(table.refundOf)
      .where(sql`refund_of IS NOT NULL`),
    check("ledger_kind", sql`${table.kind} IN ('credit', 'debit', 'charge', 'refund')`),
    check(
      "ledger_sign",
      sql`CASE WHEN ${table.kind} IN ('debit', 'charge') THEN ${table.amount} <= 0 ELSE ${table.amount} > 0 END`,
    ),
    check(
      "ledger_charge_ref",
      sql`(${table.kind} = 'charge') = (coalesce(${table.ref}, '') GLOB 'req:*')`,
    ),
  ],
);

/** Who ran which changing command. Append-only; never a secret. */
export const adminLog = sqliteTable("admin_log", {
  id: count("id").primaryKey(),
  at: count("at").notNull(),
  actor: text("actor").notNull(),
  command: text("command").notNull(),
  subject: text("subject").notNull(),
  detail: text("detail"),
});

/** Which account may name a stored response, and which provider made it; ids only as SHA-256. */
export const responseOwner = sqliteTable(
  "response_owner",
  {
    hash: blob("hash", { mode: "buffer" }).primaryKey(),
    accountId: count("account_id")
      .notNull()
      .references(() => accounts.id),
    provider: text("provider").notNull(),
    /** Negative: its id was given to two accounts, and nobody may name it until then. */
    expiresAt: count("expires_at").notNull(),
    /** What a response that continues this one has in its prompt before its own input; 0: not known. */
    historyTokens: count("history_tokens").notNull().default(0),
  },
  (table) => [index("response_owner_expiry").on(table.expiresAt)],
);

/** One row for each request that passed every check and was held, with the prices of its admission. */
export const requests = sqliteTable(
  "requests",
  {
    id: count("id").primaryKey(),
    publicId: text("public_id").notNull().unique(),
    at: count("at").notNull(),
    accountId: count("account_id")
      .notNull()
      .references(() => accounts.id),
    keyId: count("key_id")
      .notNull()
      .references(() => keys.id),
    endpoint: text("endpoint", { enum: endpoints }).notNull(),
    model: text("model").notNull(),
    provider: text("provider"),
    stream: flag("stream").notNull(),
    status: text("status", { enum: requestStatuses }).notNull(),
    priceInput: nano("price_input").notNull(),
    priceCachedInput: nano("price_cached_input").notNull(),
    priceCacheWrite: nano("price_cache_write").notNull(),
    priceOutput: nano("price_output").notNull(),
    hold: nano("hold").notNull(),
    charge: nano("charge")
      .notNull()
      .default(sql`0`),
    writeOff: nano("write_off")
      .notNull()
      .default(sql`0`),
    promptTokens: count("prompt_tokens")
      .notNull()
      .default(sql`0`),
    cachedTokens: count("cached_tokens")
      .notNull()
      .default(sql`0`),
    cacheWriteTokens: count("cache_write_tokens")
      .notNull()
      .default(sql`0`),
    completionTokens: count("completion_tokens")
      .notNull()
      .default(sql`0`),
    estimated: flag("estimated")
      .notNull()
      .default(sql`0`),
    /** What the operator pays the provider by the route's own prices; NULL where none are configured. */
    operatorCost: nano("operator_cost"),
    attemptCount: count("attempt_count")
      .notNull()
      .default(sql`0`),
    durationMs: count("duration_ms"),
    firstByteMs: count("first_byte_ms"),
  },
  (table) => [
    index("requests_at").on(table.at),
    index("requests_account").on(table.accountId),
    // The few that are not done: open holds, and the ones that somebody looks for.
    index("requests_not_done")
      .on(table.status, table.accountId)
      .where(sql`status <> 'done'`),
    check(
      "requests_status",
      sql`${table.status} IN ('running', 'done', 'failed', 'cancelled', 'interrupted')`,
    ),
    check(
      "requests_amounts",
      sql`${table.hold} >= 0 AND ${table.charge} >= 0 AND ${table.writeOff} >= 0 AND ${table.promptTokens} >= 0 AND ${table.cachedTokens} >= 0 AND ${table.cacheWriteTokens} >= 0 AND ${table.completionTokens} >= 0 AND ${table.cachedTokens} + ${table.cacheWriteTokens} <= ${table.promptTokens}`,
    ),
    check(
      "requests_price",
      sql`${table.charge} + ${table.writeOff} = (${table.promptTokens} - ${table.cachedTokens} - ${table.cacheWriteTokens}) * ${table.priceInput} + ${table.cachedTokens} * ${table.priceCachedInput} + ${table.cacheWriteTokens} * ${table.priceCacheWrite} + ${table.completionTokens} * ${table.priceOutput}`,
    ),
    check(
      "requests_unbilled",
      sql`${table.status} IN ('done', 'cancelled') OR ${table.charge} + ${table.writeOff} = 0`,
    ),
  ],
);

/** The second half lets SQLite use the index of what is not done. */
export const isRunning = sql`${requests.status} = 'running' AND ${requests.status} <> 'done'`;

/**
 * What some requests hold together. An account of an earlier version may have been promised more than 64 bits hold;
 * SQLite refuses to sum that up, and tells it nearly so by whole roubles.
 */
export const heldSum = sql<bigint>`coalesce(
  sum(${requests.hold} / ${NANO_ROUBLES_PER_ROUBLE}) * ${NANO_ROUBLES_PER_ROUBLE}
    + sum(${requests.hold} % ${NANO_ROUBLES_PER_ROUBLE}), 0)`.mapWith(BigInt);

/** Each try at a provider, for the operator's own reconciliation. */
export const attempts = sqliteTable(
  "attempts",
  {
    requestId: count("request_id")
      .notNull()
      .references(() => requests.id),
    n: count("n").notNull(),
    provider: text("provider").notNull(),
    outcome: text("outcome").notNull(),
    status: count("status"),
    durationMs: count("duration_ms").notNull(),
  },
  (table) => [primaryKey({ columns: [table.requestId, table.n] })],
);

/**
 * Sums over the ended requests of one day, key, model, provider and endpoint; a trigger counts each
 * request in as it ends. They stay when the requests themselves are folded.
 */
export const dailyTotals = sqliteTable(
  "daily_totals",
  {
    /** Of the requests' admission: whole days since 1970, in UTC. */
    day: count("day").notNull(),
    accountId: count("account_id")
      .notNull()
      .references(() => accounts.id),
    keyId: count("key_id")
      .notNull()
      .references(() => keys.id),
    model: text("model").notNull(),
    /** Empty where no provider answered. */
    provider: text("provider").notNull(),
    endpoint: text("endpoint", { enum: endpoints }).notNull(),
    requests: count("requests").notNull(),
    /** How many of them failed or were interrupted. */
    failed: count("failed").notNull(),
    /** How many of them have a charge in the ledger, also of 0. */
    charged: count("charged").notNull(),
    promptTokens: count("prompt_tokens").notNull(),
    cachedTokens: count("cached_tokens").notNull(),
    cacheWriteTokens: count("cache_write_tokens").notNull(),
    completionTokens: count("completion_tokens").notNull(),
    charge: nano("charge").notNull(),
    /** What was given back of the charge later, whenever that was. */
    refunded: nano("refunded")
      .notNull()
      .default(sql`0`),
    /** This and the next stay at the largest number that 64 bits hold, should their sum leave it. */
    writeOff: nano("write_off").notNull(),
    operatorCost: nano("operator_cost").notNull(),
  },
  (table) => [
    primaryKey({
      columns: [
        table.day,
        table.accountId,
        table.keyId,
        table.model,
        table.provider,
        table.endpoint,
      ],
    }),
  ],
);

/** One row. */
export const retention = sqliteTable("retention", {
  id: count("id").primaryKey(),
  /** Of the ended requests that were admitted before this, only the daily totals are sure to be there. It only grows. */
  retentionStart: count("kept_since").notNull(),
});

/** Who does it and when, for the admin log. */
export interface Actor {
  name: string;
  at: number;
}
