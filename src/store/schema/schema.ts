import { getTableColumns, sql, type SQL } from "drizzle-orm";
import {
  blob,
  check,
  customType,
  index,
  type SQLiteTable,
  sqliteTable,
  sqliteView,
  text as texts,
  uniqueIndex,
  type AnySQLiteColumn,
  primaryKey,
} from "drizzle-orm/sqlite-core";
import { endpoints, requestStatuses } from "../../contract/account/requestStatus.ts";
import { columnFigures, type ColumnFigure, type Figure } from "../../contract/figures.ts";

/**
 * The connections read every integer as a bigint, because a plain read rounds above 2^53. These column types convert it:
 * `nano` stays a bigint, `count` is a number, `flag` a boolean.
 */
const nanos = customType<{ data: bigint; driverData: bigint }>({
  dataType: () => "integer",
  fromDriver: BigInt,
});
const counts = customType<{ data: number; driverData: bigint | number }>({
  dataType: () => "integer",
  fromDriver: Number,
});
const flags = customType<{ data: boolean; driverData: bigint | number }>({
  dataType: () => "integer",
  fromDriver: (value) => Number(value) !== 0,
  toDriver: (value) => (value ? 1 : 0),
});

/** A column is NOT NULL, unless `nullable` makes it. The names with `Sum` have the default 0. */
const nano = (name: string) => nanos(name).notNull();
const count = (name: string) => counts(name).notNull();
const flag = (name: string) => flags(name).notNull();
const text = (name: string) => texts(name).notNull();
const nanoSum = (name: string) => nano(name).default(sql`0`);
const countSum = (name: string) => count(name).default(sql`0`);
const flagSum = (name: string) => flag(name).default(sql`0`);
const nullable = { nano: nanos, count: counts, text: (name: string) => texts(name) };
/** The database assigns it. */
const rowId = () => counts("id").primaryKey();

/** The value of an `id` that SQLite assigns. */
export const newRowId = sql`NULL`;

/** A placeholder for each of these columns, with the column's name. The value of a `flag` is 0 or 1 there. */
export function placeholders<Name extends string>(names: readonly Name[]): Record<Name, SQL> {
  const entries = names.map((name) => [name, sql`${sql.placeholder(name)}`]);
  return Object.fromEntries(entries) as Record<Name, SQL>;
}

/** The names of a table's columns in the code. */
export function columnsOf<Name extends string, Left extends string = never>(
  table: { readonly _: { readonly columns: Record<Name, unknown> } },
  without: readonly Left[] = [],
): readonly Exclude<Name, Left>[] {
  const names = Object.keys(getTableColumns(table as unknown as SQLiteTable));
  return names.filter((name) => !without.includes(name as Left)) as Exclude<Name, Left>[];
}

/** Times are milliseconds since 1970, in UTC. Money is nano-roubles. */
export const accounts = sqliteTable(
  "accounts",
  {
    id: rowId(),
    name: text("name").unique(),
    balance: nanoSum("balance"),
    overdraft: nanoSum("overdraft"),
    ledgerSeq: countSum("ledger_seq"),
    /** What the serving gateway may hold for open requests. A start sets it to 0. */
    reserved: nanoSum("reserved"),
    disabled: flagSum("disabled"),
    createdAt: count("created_at"),
    /** Below this much money the account is low; NULL: the value of the config. */
    low: nullable.nano("low"),
    /** Where notices about the account go besides the operator's: an http, https or mailto URL. */
    notifyUrl: nullable.text("notify_url"),
    /** The price plan of the config that the account has; NULL: none. */
    plan: nullable.text("plan"),
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
export const keys = sqliteTable(
  "keys",
  {
    id: rowId(),
    publicId: text("public_id").unique(),
    accountId: count("account_id").references(() => accounts.id),
    hash: blob("hash", { mode: "buffer" }).notNull().unique(),
    prefix: text("prefix"),
    label: nullable.text("label"),
    createdAt: count("created_at"),
    expiresAt: nullable.count("expires_at"),
    revokedAt: nullable.count("revoked_at"),
    lastUsedAt: nullable.count("last_used_at"),
    /** The client's address at the first recorded use and at the last one; NULL: addresses were not recorded. */
    firstAddress: nullable.text("first_address"),
    lastAddress: nullable.text("last_address"),
    requestsPerMinute: nullable.count("requests_per_minute"),
    tokensPerMinute: nullable.count("tokens_per_minute"),
    concurrentRequests: nullable.count("concurrent_requests"),
    /** A JSON array of model ids, in which `*` matches any text; NULL: all models. */
    models: nullable.text("models"),
    /** The budget of the rotation chain, on its first key only; else NULL. */
    budget: nullable.nano("budget"),
    /** What the rotation chain spent, on its first key only; else 0. */
    spent: nanoSum("spent"),
    /** The first key of the rotation chain; NULL: this key. */
    firstKeyId: nullable.count("first_key_id").references((): AnySQLiteColumn => keys.id),
  },
  (table) => [
    index("keys_account").on(table.accountId),
    check("keys_spent", sql`${table.spent} >= 0`),
  ],
);

const ledgerKinds = ["credit", "debit", "charge", "refund"] as const;

/**
 * Credits, debits, refunds, and the charges of folded requests. Append-only. Triggers enforce that, and change the
 * account's balance with each row but a folded charge. The charge of a request that is kept is in `requests`.
 */
export const ledger = sqliteTable(
  "ledger",
  {
    id: rowId(),
    accountId: count("account_id").references(() => accounts.id),
    seq: count("seq"),
    kind: texts("kind", { enum: ledgerKinds }).notNull(),
    amount: nano("amount"),
    balanceAfter: nano("balance_after"),
    /** `req:<request id>` for a charge, so that a request is charged only once. */
    ref: nullable.text("ref").unique(),
    actor: nullable.text("actor"),
    note: nullable.text("note"),
    at: count("at"),
    /** The `seq` of the charge that a refund gives back in full or in part; NULL for the other kinds. */
    refundOf: nullable.count("refund_of"),
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
      sql`(${table.kind} = 'charge') = (coalesce(${table.ref}, '') GLOB 'req:*')`,
    ),
  ],
);

/** What a writer gives the credit of a redemption. Its kind is `credit`. */
export const creditColumns = columnsOf(ledger, ["id", "kind", "note", "refundOf"]);

/**
 * Codes that credit an account once. `hash` is the SHA-256 of the code. Triggers let a voucher end once, redeemed or
 * revoked, and let it be redeemed only together with its credit in the ledger, whose ref is `voucher:<public id>`.
 */
export const vouchers = sqliteTable(
  "vouchers",
  {
    id: rowId(),
    publicId: text("public_id").unique(),
    hash: blob("hash", { mode: "buffer" }).notNull().unique(),
    /** The first characters of the code. */
    prefix: text("prefix"),
    amount: nano("amount"),
    note: nullable.text("note"),
    createdAt: count("created_at"),
    expiresAt: nullable.count("expires_at"),
    revokedAt: nullable.count("revoked_at"),
    redeemedAt: nullable.count("redeemed_at"),
    redeemedBy: nullable.count("redeemed_by").references(() => accounts.id),
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
export const voucherStart = sqliteTable("voucher_start", {
  id: rowId(),
  ledgerId: count("ledger_id"),
});

/**
 * Conditions that a person is told about, by type and subject: an account, a key, a provider. A row whose condition has
 * ended stays for an hour at least, so that a person hears of one cause once an hour at most.
 */
export const notices = sqliteTable(
  "notices",
  {
    type: text("type"),
    subject: text("subject"),
    /** Whether the condition holds. */
    open: flag("open"),
    /** Whether a recipient took a notice since the condition holds. */
    told: flag("told"),
    /** When a gateway began to send the last notice; 0: never. */
    claimedAt: count("claimed_at"),
  },
  (table) => [primaryKey({ columns: [table.type, table.subject] })],
);

/** Who ran which command that changed something. Append-only. Contains no secret. */
export const adminLog = sqliteTable("admin_log", {
  id: rowId(),
  at: count("at"),
  actor: text("actor"),
  command: text("command"),
  subject: text("subject"),
  detail: nullable.text("detail"),
});

/** The account and the provider of each stored object. `hash` is the SHA-256 of its id. */
export const responseOwner = sqliteTable(
  "response_owner",
  {
    hash: blob("hash", { mode: "buffer" }).primaryKey(),
    accountId: count("account_id").references(() => accounts.id),
    provider: text("provider"),
    /** Negative: a provider gave the id to two accounts, and neither may use it until then. */
    expiresAt: count("expires_at"),
    /** The prompt tokens that this object adds to a request that names it; 0: unknown. */
    historyTokens: count("history_tokens").default(0),
  },
  (table) => [index("response_owner_expiry").on(table.expiresAt)],
);

type PriceColumn = `price${Capitalize<ColumnFigure["price"]["name"]>}`;

/** The prices in the row of a request: the names of the columns here, and those in `Price`. */
export const priceColumns = columnFigures.map(
  ({ price: { name } }) => [priceColumnOf(name), name] as const,
);

function priceColumnOf(name: ColumnFigure["price"]["name"]): PriceColumn {
  return `price${name.slice(0, 1).toUpperCase()}${name.slice(1)}` as PriceColumn;
}

function priceColumnsOf() {
  const columns = columnFigures.map(({ price, priceColumn }) => [
    priceColumnOf(price.name),
    nano(priceColumn),
  ]);
  return Object.fromEntries(columns) as Record<PriceColumn, ReturnType<typeof nano>>;
}

/** `hasDefault`: whether rows may be written without the figure. */
function tokenColumnsOf(hasDefault: (figure: Figure) => boolean) {
  const columns = columnFigures.map((figure) => [
    figure.name,
    (hasDefault(figure) ? countSum : count)(figure.field),
  ]);
  return Object.fromEntries(columns) as Record<ColumnFigure["name"], ReturnType<typeof countSum>>;
}

/** What a figure of a request costs: its count without the parts that have prices of their own. */
function pricedTokens(
  table: Record<ColumnFigure["name"] | PriceColumn, AnySQLiteColumn>,
  { name, price }: ColumnFigure,
): SQL {
  const parts = columnFigures.filter((one) => "within" in one && one.within === name);
  const ofOne = table[priceColumnOf(price.name)];
  if (parts.length === 0) return sql`${table[name]} * ${ofOne}`;
  const counts = [name, ...parts.map((part) => part.name)].map((one) => sql`${table[one]}`);
  return sql`(${sql.join(counts, sql` - `)}) * ${ofOne}`;
}

/**
 * One row for each request with a hold, with the model that answered and its prices: those at the admission. It is
 * written when the request ends, or when it is still open after a second, then with the model that was asked for. A
 * charge has its place in the account's ledger here.
 */
export const requests = sqliteTable(
  "requests",
  {
    id: rowId(),
    publicId: text("public_id").unique(),
    at: count("at"),
    accountId: count("account_id").references(() => accounts.id),
    keyId: count("key_id").references(() => keys.id),
    endpoint: texts("endpoint", { enum: endpoints }).notNull(),
    model: text("model"),
    provider: nullable.text("provider"),
    stream: flag("stream"),
    status: texts("status", { enum: requestStatuses }).notNull(),
    ...priceColumnsOf(),
    /** Why the request has these prices: a `PricingNote` in JSON; NULL: those of the model in its first tier. */
    pricing: nullable.text("pricing"),
    hold: nano("hold"),
    charge: nanoSum("charge"),
    writeOff: nanoSum("write_off"),
    ...tokenColumnsOf(() => true),
    /**
     * Whether `request_figures` has rows of the request. `figuresPrice` is what they add to the price of the columns: a row
     * that is part of a column counts there too, so it adds the difference of both prices.
     */
    hasFigures: flagSum("has_figures"),
    figuresPrice: nano("figures_price"),
    estimated: flagSum("estimated"),
    /** What the operator pays the provider, by the prices of the route; NULL if it has none. */
    operatorCost: nullable.nano("operator_cost"),
    /**
     * What the provider's prompt cache saves of the price, and of the operator's cost: less than 0 where its writes cost more.
     * NULL: not recorded, and of the operator's cost also if it is not known.
     */
    cacheSaved: nullable.nano("cache_saved"),
    operatorSaved: nullable.nano("operator_saved"),
    attemptCount: countSum("attempt_count"),
    durationMs: nullable.count("duration_ms"),
    firstByteMs: nullable.count("first_byte_ms"),
    /** The number of the charge in the account's ledger, and the balance after it; NULL without a charge. */
    ledgerSeq: nullable.count("ledger_seq"),
    balanceAfter: nullable.nano("balance_after"),
  },
  (table) => [
    index("requests_at").on(table.at),
    // SQLite has the id in each index, so the rows of an account are in their order.
    index("requests_account").on(table.accountId),
    uniqueIndex("requests_account_seq")
      .on(table.accountId, table.ledgerSeq)
      .where(sql`ledger_seq IS NOT NULL`),
    // Few rows: running requests, and those that operators search for.
    index("requests_not_done")
      .on(table.status, table.accountId)
      .where(sql`status <> 'done'`),
    check(
      "requests_status",
      sql`${table.status} IN ('running', 'done', 'failed', 'cancelled', 'interrupted')`,
    ),
    check(
      "requests_amounts",
      sql`${table.hold} >= 0 AND ${table.charge} >= 0 AND ${table.writeOff} >= 0 AND ${table.promptTokens} >= 0 AND ${table.cachedTokens} >= 0 AND ${table.cacheWriteTokens} >= 0 AND ${table.completionTokens} >= 0 AND ${table.hasFigures} >= 0 AND ${table.cachedTokens} + ${table.cacheWriteTokens} <= ${table.promptTokens} AND ${table.cacheWrite1hTokens} BETWEEN 0 AND ${table.cacheWriteTokens}`,
    ),
    check(
      "requests_price",
      sql`${table.charge} + ${table.writeOff} = ${sql.join(
        columnFigures.map((figure) => pricedTokens(table, figure)),
        sql` + `,
      )} + ${table.hasFigures} * ${table.figuresPrice}`,
    ),
    check(
      "requests_unbilled",
      sql`${table.status} IN ('done', 'cancelled') OR ${table.charge} + ${table.writeOff} = 0`,
    ),
    // A `done` request has a charge, also of 0.
    check(
      "requests_charge",
      sql`(${table.ledgerSeq} IS NOT NULL) = (${table.status} = 'done' OR ${table.charge} > 0) AND (${table.balanceAfter} IS NULL) = (${table.ledgerSeq} IS NULL)`,
    ),
  ],
);

/**
 * What of a request is in no column: one row for each such figure, with its name in documents. `price` is nano-roubles of
 * one.
 */
export const requestFigures = sqliteTable(
  "request_figures",
  {
    requestId: count("request_id").references(() => requests.id),
    figure: text("figure"),
    quantity: count("quantity"),
    price: nano("price"),
  },
  (table) => [
    primaryKey({ columns: [table.requestId, table.figure] }),
    check("request_figures_amounts", sql`${table.quantity} > 0 AND ${table.price} >= 0`),
  ],
);

/** What a writer gives each row of a request. */
export const requestColumns = columnsOf(requests, ["id"]);
/** What a writer gives the row of a running request at its end. The hold stays. Another model may have answered. */
export const endColumns = columnsOf(requests, [
  "id",
  "publicId",
  "at",
  "accountId",
  "keyId",
  "endpoint",
  "stream",
  "hold",
]);

/** The second condition lets SQLite use the index `requests_not_done`. */
export const isRunning = sql`${requests.status} = 'running' AND ${requests.status} <> 'done'`;

/**
 * Each attempt at a provider, for the operator's reconciliation. A request with one attempt that succeeded has none: its
 * own row tells the same.
 */
export const attempts = sqliteTable(
  "attempts",
  {
    requestId: count("request_id").references(() => requests.id),
    n: count("n"),
    provider: text("provider"),
    outcome: text("outcome"),
    status: nullable.count("status"),
    durationMs: count("duration_ms"),
  },
  (table) => [primaryKey({ columns: [table.requestId, table.n] })],
);

function groupColumns() {
  return {
    /** The day of admission: days since 1970, in UTC. */
    day: count("day"),
    accountId: count("account_id").references(() => accounts.id),
    keyId: count("key_id").references(() => keys.id),
    model: text("model"),
    /** Empty where no provider answered. */
    provider: text("provider"),
    endpoint: texts("endpoint", { enum: endpoints }).notNull(),
  };
}

/**
 * Sums over the settled requests of one day, key, model, provider and endpoint. The writer adds each group of requests. The
 * sums stay when the requests are folded.
 */
export const dailyTotals = sqliteTable(
  "daily_totals",
  {
    ...groupColumns(),
    requests: count("requests"),
    /** Requests that failed or were interrupted. */
    failed: count("failed"),
    /** Requests with a charge in the ledger, also a charge of 0. */
    charged: count("charged"),
    ...tokenColumnsOf(({ isExtra }) => isExtra === true),
    charge: nano("charge"),
    /** Refunds of these charges, at any later time. */
    refunded: nanoSum("refunded"),
    writeOff: nano("write_off"),
    operatorCost: nano("operator_cost"),
    cacheSaved: nanoSum("cache_saved"),
    operatorSaved: nanoSum("operator_saved"),
  },
  (table) => [primaryKey({ columns: groupOf(table) })],
);

/** What the rows of `request_figures` add to the totals of a day. */
export const dailyFigures = sqliteTable(
  "daily_figures",
  { ...groupColumns(), figure: text("figure"), quantity: count("quantity") },
  (table) => [primaryKey({ columns: [...groupOf(table), table.figure] })],
);

export const totalGroup = ["day", "accountId", "keyId", "model", "provider", "endpoint"] as const;
function groupOf(
  table: Readonly<Record<(typeof totalGroup)[number], AnySQLiteColumn>>,
): [AnySQLiteColumn, ...AnySQLiteColumn[]] {
  const [first, ...others] = totalGroup;
  return [table[first], ...others.map((name) => table[name])];
}

/** What a writer adds. Triggers add `refunded`. */
export const totalSums = columnsOf(dailyTotals, [...totalGroup, "refunded"]);
/** Sums that stay at the largest 64-bit integer where they would exceed it. */
export const cappedSums: readonly string[] = [
  "writeOff",
  "operatorCost",
  "cacheSaved",
  "operatorSaved",
];
export const INT64_MAX = 9_223_372_036_854_775_807n;

/** One row. */
export const retention = sqliteTable("retention", {
  id: rowId(),
  /** Settled requests that were admitted before this time may be folded. It only grows. */
  retentionStart: count("kept_since"),
});

/**
 * The history of each account: all rows of the ledger and the charges of all requests that are kept. `at` of a charge is
 * the end of its request.
 */
export const history = sqliteView("history", {
  accountId: count("account_id"),
  seq: count("seq"),
  kind: texts("kind", { enum: ledgerKinds }).notNull(),
  amount: nano("amount"),
  balanceAfter: nano("balance_after"),
  ref: nullable.text("ref"),
  actor: nullable.text("actor"),
  note: nullable.text("note"),
  at: count("at"),
  refundOf: nullable.count("refund_of"),
}).existing();

/**
 * One row. Triggers add 1 to `seq` for each change of keys, accounts and ledger that the serving gateway has not made
 * itself. The gateway reads the row to find out whether its memory is up to date.
 */
export const changes = sqliteTable("changes", {
  id: rowId(),
  seq: count("seq"),
});

/** The tables with one row, which the migrations make. */
export const oneRow: readonly SQLiteTable[] = [retention, changes, voucherStart];

/** Who makes a change, by which operation and when, for the admin log. */
export interface Actor {
  name: string;
  /** The name of the operation, such as `balance credit`. */
  command: string;
  at: number;
}
