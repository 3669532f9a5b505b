import { sql } from "drizzle-orm";
import {
  blob,
  check,
  index,
  sqliteTable,
  text,
  uniqueIndex,
  type AnySQLiteColumn,
} from "drizzle-orm/sqlite-core";
import { count, flag, nano } from "./columns.ts";

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
