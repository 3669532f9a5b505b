import { sql } from "drizzle-orm";
import {
  type AnyPgColumn,
  bigint,
  check,
  customType,
  index,
  pgTable,
  pgView,
  primaryKey,
  uniqueIndex,
} from "drizzle-orm/pg-core";
import type { Endpoint, RequestStatus } from "../../../contract/account/requestStatus.ts";

/**
 * Every integer is a `bigint` column, also flags, so that both engines compute alike. The connection reads it as a bigint.
 * These column types convert it: `nano` stays a bigint, `count` is a number, `flag` a boolean.
 */
const nano = customType<{ data: bigint; driverData: bigint }>({
  dataType: () => "bigint",
  fromDriver: BigInt,
});
const count = customType<{ data: number; driverData: bigint | number }>({
  dataType: () => "bigint",
  fromDriver: Number,
});
const flag = customType<{ data: boolean; driverData: bigint | number }>({
  dataType: () => "bigint",
  fromDriver: (value) => Number(value) !== 0,
  toDriver: (value) => (value ? 1 : 0),
});
const bytes = customType<{ data: Buffer; driverData: Uint8Array }>({
  dataType: () => "bytea",
  fromDriver: (value) => Buffer.from(value),
});
/** Compared and sorted by its bytes, as in SQLite, whatever the language of the database is. */
const text = customType<{ data: string; driverData: string }>({
  dataType: () => 'text COLLATE "C"',
});

/** An `id` that PostgreSQL assigns. */
const rowId = () => bigint("id", { mode: "number" }).primaryKey().generatedByDefaultAsIdentity();

/** Times are milliseconds since 1970, in UTC. Money is nano-roubles. */
export const accounts = pgTable(
  "accounts",
  {
    id: rowId(),
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
    /** What all replicas may hold for open requests: the sum of the account's rows in `reserves`. */
    reserved: nano("reserved")
      .notNull()
      .default(sql`0`),
    disabled: flag("disabled")
      .notNull()
      .default(sql`0`),
    createdAt: count("created_at").notNull(),
    /** Below this much money the account is low; NULL: the value of the config. */
    low: nano("low"),
    /** Where notices about the account go besides the operator's: an http, https or mailto URL. */
    notifyUrl: text("notify_url"),
  },
  (table) => [
    check("accounts_promise", sql`${table.balance} + ${table.overdraft} >= 0`),
    check("accounts_overdraft", sql`${table.overdraft} >= 0`),
    check(
      "accounts_reserve",
      sql`${table.reserved} BETWEEN 0 AND ${table.balance} + ${table.overdraft}`,
    ),
  ],
);

/** `hash` is the SHA-256 of the key. A limit that is NULL comes from the config. */
export const keys = pgTable(
  "keys",
  {
    id: rowId(),
    publicId: text("public_id").notNull().unique(),
    accountId: count("account_id")
      .notNull()
      .references(() => accounts.id),
    hash: bytes("hash").notNull().unique(),
    prefix: text("prefix").notNull(),
    label: text("label"),
    createdAt: count("created_at").notNull(),
    expiresAt: count("expires_at"),
    revokedAt: count("revoked_at"),
    lastUsedAt: count("last_used_at"),
    /** The client's address at the first recorded use and at the last one; NULL: addresses were not recorded. */
    firstAddress: text("first_address"),
    lastAddress: text("last_address"),
    requestsPerMinute: count("requests_per_minute"),
    tokensPerMinute: count("tokens_per_minute"),
    concurrentRequests: count("concurrent_requests"),
    /** A JSON array of model ids, in which `*` matches any text; NULL: all models. */
    models: text("models"),
    /** The budget of the rotation chain, on its first key only; else NULL. */
    budget: nano("budget"),
    /** What the rotation chain spent, on its first key only; else 0. */
    spent: nano("spent")
      .notNull()
      .default(sql`0`),
    /** The first key of the rotation chain; NULL: this key. */
    firstKeyId: count("first_key_id").references((): AnyPgColumn => keys.id),
  },
  (table) => [
    index("keys_account").on(table.accountId),
    check("keys_spent", sql`${table.spent} >= 0`),
  ],
);

type LedgerKind = "credit" | "debit" | "charge" | "refund";

/**
 * Credits, debits, refunds, and the charges of folded requests. Append-only. Triggers enforce that, and change the
 * account's balance with each row but a folded charge. The charge of a request that is kept is in `requests`.
 */
export const ledger = pgTable(
  "ledger",
  {
    id: rowId(),
    accountId: count("account_id")
      .notNull()
      .references(() => accounts.id),
    seq: count("seq").notNull(),
    kind: text("kind").$type<LedgerKind>().notNull(),
    amount: nano("amount").notNull(),
    balanceAfter: nano("balance_after").notNull(),
    /** `req:<request id>` for a charge, so that a request is charged only once. */
    ref: text("ref").unique(),
    actor: text("actor"),
    note: text("note"),
    at: count("at").notNull(),
    /** The `seq` of the charge that a refund gives back in full or in part; NULL for the other kinds. */
    refundOf: count("refund_of"),
  },
  (table) => [
    uniqueIndex("ledger_account_seq").on(table.accountId, table.seq),
    index("ledger_refunds")
      .on(table.accountId, table.refundOf)
      .where(sql`refund_of IS NOT NULL`),
    check("ledger_kind", sql`${table.kind} IN ('credit', 'debit', 'charge', 'refund')`),
    check(
      "ledger_sign",
      sql`CASE WHEN ${table.kind} IN ('debit', 'charge') THEN ${table.amount} <= 0 ELSE ${table.amount} > 0 END`,
    ),
    check(
      "ledger_charge_ref",
      sql`(${table.kind} = 'charge') = (coalesce(${table.ref}, '') LIKE 'req:%')`,
    ),
  ],
);

/**
 * Codes that credit an account once. `hash` is the SHA-256 of the code. Triggers let a voucher end once, redeemed or
 * revoked, and let it be redeemed only together with its credit in the ledger, whose ref is `voucher:<public id>`.
 */
export const vouchers = pgTable(
  "vouchers",
  {
    id: rowId(),
    publicId: text("public_id").notNull().unique(),
    hash: bytes("hash").notNull().unique(),
    /** The first characters of the code. */
    prefix: text("prefix").notNull(),
    amount: nano("amount").notNull(),
    note: text("note"),
    createdAt: count("created_at").notNull(),
    expiresAt: count("expires_at"),
    revokedAt: count("revoked_at"),
    redeemedAt: count("redeemed_at"),
    redeemedBy: count("redeemed_by").references(() => accounts.id),
  },
  (table) => [
    check("vouchers_amount", sql`${table.amount} > 0`),
    check(
      "vouchers_end",
      sql`(${table.redeemedAt} IS NULL) = (${table.redeemedBy} IS NULL) AND (${table.redeemedAt} IS NULL OR ${table.revokedAt} IS NULL)`,
    ),
  ],
);

/**
 * One row: the last row of the ledger from before the prefix `voucher:` was reserved, 0 without one. Operators may have
 * chosen such refs until then.
 */
export const voucherStart = pgTable("voucher_start", {
  id: count("id").primaryKey(),
  ledgerId: count("ledger_id").notNull(),
});

/**
 * Conditions that a person is told about, by type and subject: an account, a key, a provider. A row whose condition has
 * ended stays for an hour at least, so that a person hears of one cause once an hour at most.
 */
export const notices = pgTable(
  "notices",
  {
    type: text("type").notNull(),
    subject: text("subject").notNull(),
    /** Whether the condition holds. */
    open: flag("open").notNull(),
    /** Whether a recipient took a notice since the condition holds. */
    told: flag("told").notNull(),
    /** When a gateway began to send the last notice; 0: never. */
    claimedAt: count("claimed_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.type, table.subject] })],
);

/** Who ran which command that changed something. Append-only. Contains no secret. */
export const adminLog = pgTable("admin_log", {
  id: rowId(),
  at: count("at").notNull(),
  actor: text("actor").notNull(),
  command: text("command").notNull(),
  subject: text("subject").notNull(),
  detail: text("detail"),
});

/** The account and the provider of each stored object. `hash` is the SHA-256 of its id. */
export const responseOwner = pgTable(
  "response_owner",
  {
    hash: bytes("hash").primaryKey(),
    accountId: count("account_id")
      .notNull()
      .references(() => accounts.id),
    provider: text("provider").notNull(),
    /** Negative: a provider gave the id to two accounts, and neither may use it until then. */
    expiresAt: count("expires_at").notNull(),
    /** The prompt tokens that this object adds to a request that names it; 0: unknown. */
    historyTokens: count("history_tokens").notNull().default(0),
  },
  (table) => [index("response_owner_expiry").on(table.expiresAt)],
);

/**
 * One row for each request with a hold, with the model that answered and its prices: those at the admission. It is
 * written when the request ends, or when it is still open after a second, then with the model that was asked for. A
 * charge has its place in the account's ledger here. A trigger instead of foreign keys finds account, key and replica: it
 * looks once for each statement, and not for each row.
 */
export const requests = pgTable(
  "requests",
  {
    id: rowId(),
    publicId: text("public_id").notNull().unique(),
    at: count("at").notNull(),
    accountId: count("account_id").notNull(),
    keyId: count("key_id").notNull(),
    endpoint: text("endpoint").$type<Endpoint>().notNull(),
    model: text("model").notNull(),
    provider: text("provider"),
    stream: flag("stream").notNull(),
    status: text("status").$type<RequestStatus>().notNull(),
    priceInput: nano("price_input").notNull(),
    priceCachedInput: nano("price_cached_input").notNull(),
    priceCacheWrite: nano("price_cache_write").notNull(),
    priceCacheWrite1h: nano("price_cache_write_1h").notNull(),
    priceOutput: nano("price_output").notNull(),
    priceWebSearch: nano("price_web_search").notNull(),
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
    /** The part of the cache-write tokens that the provider keeps for an hour. */
    cacheWrite1hTokens: count("cache_write_1h_tokens")
      .notNull()
      .default(sql`0`),
    completionTokens: count("completion_tokens")
      .notNull()
      .default(sql`0`),
    webSearches: count("web_searches")
      .notNull()
      .default(sql`0`),
    estimated: flag("estimated")
      .notNull()
      .default(sql`0`),
    /** What the operator pays the provider, by the prices of the route; NULL if it has none. */
    operatorCost: nano("operator_cost"),
    attemptCount: count("attempt_count")
      .notNull()
      .default(sql`0`),
    durationMs: count("duration_ms"),
    firstByteMs: count("first_byte_ms"),
    /** The number of the charge in the account's ledger, and the balance after it; NULL without a charge. */
    ledgerSeq: count("ledger_seq"),
    balanceAfter: nano("balance_after"),
    /** The replica that runs the request; NULL at its end. */
    replicaId: count("replica_id"),
  },
  (table) => [
    index("requests_at").on(table.at),
    uniqueIndex("requests_account_seq")
      .on(table.accountId, table.ledgerSeq)
      .where(sql`ledger_seq IS NOT NULL`),
    // Few rows: running requests, and those that operators search for. SQLite has the id in each index. The
    // sign keeps the planner from another way to the order of the ids: by all rows.
    index("requests_not_done")
      .on(table.status, table.accountId, sql`(+id)`)
      .where(sql`status <> 'done'`),
    check(
      "requests_status",
      sql`${table.status} IN ('running', 'done', 'failed', 'cancelled', 'interrupted')`,
    ),
    check(
      "requests_amounts",
      sql`${table.hold} >= 0 AND ${table.charge} >= 0 AND ${table.writeOff} >= 0 AND ${table.promptTokens} >= 0 AND ${table.cachedTokens} >= 0 AND ${table.cacheWriteTokens} >= 0 AND ${table.completionTokens} >= 0 AND ${table.webSearches} >= 0 AND ${table.cachedTokens} + ${table.cacheWriteTokens} <= ${table.promptTokens} AND ${table.cacheWrite1hTokens} BETWEEN 0 AND ${table.cacheWriteTokens}`,
    ),
    check(
      "requests_price",
      sql`${table.charge} + ${table.writeOff} = (${table.promptTokens} - ${table.cachedTokens} - ${table.cacheWriteTokens}) * ${table.priceInput} + ${table.cachedTokens} * ${table.priceCachedInput} + (${table.cacheWriteTokens} - ${table.cacheWrite1hTokens}) * ${table.priceCacheWrite} + ${table.cacheWrite1hTokens} * ${table.priceCacheWrite1h} + ${table.completionTokens} * ${table.priceOutput} + ${table.webSearches} * ${table.priceWebSearch}`,
    ),
    check(
      "requests_unbilled",
      sql`${table.status} IN ('done', 'cancelled') OR ${table.charge} + ${table.writeOff} = 0`,
    ),
    check(
      "requests_replica",
      sql`(${table.status} = 'running') = (${table.replicaId} IS NOT NULL)`,
    ),
    // A `done` request has a charge, also of 0.
    check(
      "requests_charge",
      sql`(${table.ledgerSeq} IS NOT NULL) = (${table.status} = 'done' OR ${table.charge} > 0) AND (${table.balanceAfter} IS NULL) = (${table.ledgerSeq} IS NULL)`,
    ),
  ],
);

/**
 * Each attempt at a provider, for the operator's reconciliation. A request with one attempt that succeeded has none: its
 * own row tells the same.
 */
export const attempts = pgTable(
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
 * Sums over the settled requests of one day, key, model, provider and endpoint. The writer adds each group of requests. The
 * sums stay when the requests are folded.
 */
export const dailyTotals = pgTable(
  "daily_totals",
  {
    /** The day of admission: days since 1970, in UTC. */
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
    endpoint: text("endpoint").$type<Endpoint>().notNull(),
    requests: count("requests").notNull(),
    /** Requests that failed or were interrupted. */
    failed: count("failed").notNull(),
    /** Requests with a charge in the ledger, also a charge of 0. */
    charged: count("charged").notNull(),
    promptTokens: count("prompt_tokens").notNull(),
    cachedTokens: count("cached_tokens").notNull(),
    cacheWriteTokens: count("cache_write_tokens").notNull(),
    completionTokens: count("completion_tokens").notNull(),
    charge: nano("charge").notNull(),
    /** Refunds of these charges, at any later time. */
    refunded: nano("refunded")
      .notNull()
      .default(sql`0`),
    /** This and `operatorCost` stay at the largest 64-bit integer if their sum exceeds it. */
    writeOff: nano("write_off").notNull(),
    operatorCost: nano("operator_cost").notNull(),
    cacheWrite1hTokens: count("cache_write_1h_tokens")
      .notNull()
      .default(sql`0`),
    webSearches: count("web_searches")
      .notNull()
      .default(sql`0`),
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
export const retention = pgTable("retention", {
  id: count("id").primaryKey(),
  /** Settled requests that were admitted before this time may be folded. It only grows. */
  retentionStart: count("kept_since").notNull(),
});

/**
 * The history of each account: all rows of the ledger and the charges of all requests that are kept. `at` of a charge is
 * the end of its request.
 */
export const history = pgView("history", {
  accountId: count("account_id").notNull(),
  seq: count("seq").notNull(),
  kind: text("kind").$type<LedgerKind>().notNull(),
  amount: nano("amount").notNull(),
  balanceAfter: nano("balance_after").notNull(),
  ref: text("ref"),
  actor: text("actor"),
  note: text("note"),
  at: count("at").notNull(),
  refundOf: count("refund_of"),
}).existing();

/**
 * One row. Triggers add to `seq` in each transaction that changes keys, accounts or ledger otherwise than the writers of
 * replicas do, and notify `tollgate_changed` of the account. Each replica reads the row to find out whether what it keeps
 * in memory is up to date.
 */
export const changes = pgTable("changes", {
  id: count("id").primaryKey(),
  seq: count("seq").notNull(),
});

/** One row for each time that a gateway has joined: its lease. Times are those of the clock of the database. */
export const replicas = pgTable("replicas", {
  id: rowId(),
  name: text("name").notNull(),
  version: text("version").notNull(),
  startedAt: count("started_at").notNull(),
  /** The last heartbeat. */
  seenAt: count("seen_at").notNull(),
  /** From then on the lease is refused. */
  endedAt: count("ended_at"),
  /** The number of the last batch that was committed. */
  lastBatch: count("last_batch").notNull(),
});

/** The blocks that replicas have reserved: of the money of an account, or of the budget of a rotation chain. */
export const reserves = pgTable(
  "reserves",
  {
    replicaId: count("replica_id")
      .notNull()
      .references(() => replicas.id),
    accountId: count("account_id")
      .notNull()
      .references(() => accounts.id),
    /** The first key of the chain; 0 for the account itself. */
    keyId: count("key_id").notNull(),
    amount: nano("amount").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.replicaId, table.accountId, table.keyId] }),
    index("reserves_account").on(table.accountId),
    check("reserves_amount", sql`${table.amount} > 0`),
  ],
);
