import { sql } from "drizzle-orm";
import {
  blob,
  check,
  customType,
  index,
  primaryKey,
  sqliteTable,
  text,
  uniqueIndex,
} from "drizzle-orm/sqlite-core";

/**
 * The connection reads every INTEGER as a bigint (safeIntegers), because a plain read rounds above
 * 2^53. These three column types say what each one is meant to be in code.
 */
const nano = customType<{ data: bigint; driverData: bigint }>({
  dataType: () => "integer",
  fromDriver: BigInt,
});
const count = customType<{ data: number; driverData: bigint | number }>({
  dataType: () => "integer",
  fromDriver: Number,
});
const flag = customType<{ data: boolean; driverData: bigint | number }>({
  dataType: () => "integer",
  fromDriver: (value) => Number(value) === 1,
  toDriver: (value) => (value ? 1 : 0),
});

/** The value of an `id` that SQLite is to assign. */
export const newRowId = sql`NULL`;

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
    budget: nano("budget"),
    spent: nano("spent")
      .notNull()
      .default(sql`0`),
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
  },
  (table) => [
    uniqueIndex("ledger_account_seq").on(table.accountId, table.seq),
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
    endpoint: text("endpoint", { enum: ["chat", "responses"] }).notNull(),
    model: text("model").notNull(),
    provider: text("provider"),
    stream: flag("stream").notNull(),
    status: text("status", {
      enum: ["running", "done", "failed", "cancelled", "interrupted"],
    }).notNull(),
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
    index("requests_running")
      .on(table.accountId)
      .where(sql`status = 'running'`),
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
  },
  (table) => [index("response_owner_expiry").on(table.expiresAt)],
);
