import { sql, type SQL } from "drizzle-orm";
import {
  bigint,
  check,
  customType,
  type ExtraConfigColumn,
  foreignKey,
  index,
  type PgColumnBuilderBase,
  type PgTable,
  pgTable,
  type PgTableExtraConfigValue,
  pgView,
  primaryKey,
  uniqueIndex,
} from "drizzle-orm/pg-core";
import { getTableConfig, type SQLiteColumn, type SQLiteTable } from "drizzle-orm/sqlite-core";
import { assert } from "../../../lib/assert.ts";
import * as declared from "../../schema/schema.ts";

/**
 * The tables on PostgreSQL, for `bun run migration`. Each is made from its declaration, and has here what differs. Every
 * integer is a `bigint`, also flags, so that both engines compute alike.
 */
const integer = customType<{ data: unknown }>({ dataType: () => "bigint" });
const bytes = customType<{ data: unknown }>({ dataType: () => "bytea" });
/** Compared and sorted by its bytes, as in SQLite, whatever the language of the database is. */
const text = customType<{ data: unknown }>({ dataType: () => 'text COLLATE "C"' });
const types = { integer, blob: bytes, text } as const;

/** An `id` that PostgreSQL assigns. */
const rowId = () => bigint("id", { mode: "number" }).primaryKey().generatedByDefaultAsIdentity();

type Columns = Record<string, ExtraConfigColumn>;

/** What a table has here besides its declaration, and the names of what it has not or has in another form. */
interface Differences {
  readonly columns?: Record<string, PgColumnBuilderBase>;
  readonly without?: readonly string[];
  readonly constraints?: (columns: Columns) => PgTableExtraConfigValue[];
}

const made = new Map<SQLiteTable, PgTable>();

function postgresTable(table: SQLiteTable, differences: Differences = {}): PgTable {
  const { name, columns, indexes, checks, foreignKeys, primaryKeys } = getTableConfig(table);
  const { columns: own, without = [], constraints = () => [] } = differences;
  const isKept = (one: string) => !without.includes(one);
  const isOneRow = declared.oneRow.includes(table);
  const result = pgTable(
    name,
    {
      ...Object.fromEntries(
        columns.map((column: SQLiteColumn) => [column.name, columnOf(column, isOneRow)]),
      ),
      ...own,
    },
    (all: Columns) => [
      ...indexes
        .filter(({ config }) => isKept(config.name))
        .map(({ config }) => {
          const begun = config.unique ? uniqueIndex(config.name) : index(config.name);
          const [first, ...more] = config.columns.map((one) => indexed(all, one));
          assert(first !== undefined, "an index has a column");
          const on = begun.on(first, ...more);
          return config.where === undefined ? on : on.where(config.where);
        }),
      ...checks.filter((one) => isKept(one.name)).map((one) => check(one.name, one.value)),
      ...primaryKeys.map((key) => {
        const [first, ...more] = key.columns.map((column) => columnIn(all, column.name));
        assert(first !== undefined, "a primary key has a column");
        return primaryKey({ columns: [first, ...more] });
      }),
      ...foreignKeys
        .filter(() => isKept("foreign keys"))
        .map((key) => {
          const { columns: from, foreignTable, foreignColumns } = key.reference();
          const target = foreignTable === table ? all : made.get(foreignTable);
          const pick = (place: object | undefined, [column]: readonly SQLiteColumn[]) =>
            columnIn(place as Columns, column?.name ?? "");
          return foreignKey({
            columns: [pick(all, from)],
            foreignColumns: [pick(target, foreignColumns)],
          });
        }),
      ...constraints(all),
    ],
  );
  made.set(table, result);
  return result;
}

function columnOf(column: SQLiteColumn, isOneRow: boolean): PgColumnBuilderBase {
  const type = column.getSQLType();
  assert(type === "integer" || type === "blob" || type === "text", "a column has a type here");
  if (column.primary && type === "integer" && !isOneRow) return rowId();
  const begun = types[type](column.name);
  const required = column.primary ? begun.primaryKey() : column.notNull ? begun.notNull() : begun;
  const named = column.isUnique ? required.unique() : required;
  return column.hasDefault ? named.default(column.default) : named;
}

function indexed(all: Columns, column: SQLiteColumn | SQL): ExtraConfigColumn | SQL {
  return "name" in column ? columnIn(all, column.name) : column;
}

function columnIn(all: Columns, name: string): ExtraConfigColumn {
  const column = all[name];
  assert(column !== undefined, `there is the column ${name}`);
  return column;
}

export const accounts = postgresTable(declared.accounts);
export const keys = postgresTable(declared.keys);
export const ledger = postgresTable(declared.ledger, {
  without: ["ledger_charge_ref"],
  constraints: () => [
    check(
      "ledger_charge_ref",
      sql`(${declared.ledger.kind} = 'charge') = (coalesce(${declared.ledger.ref}, '') LIKE 'req:%')`,
    ),
  ],
});
export const vouchers = postgresTable(declared.vouchers);
export const voucherStart = postgresTable(declared.voucherStart);
export const notices = postgresTable(declared.notices);
export const adminLog = postgresTable(declared.adminLog);
export const responseOwner = postgresTable(declared.responseOwner);
/** A trigger instead of foreign keys finds account, key and replica: it looks once for each statement, and not for each row. */
export const requests = postgresTable(declared.requests, {
  /** The replica that runs the request; NULL at its end. */
  columns: { replica_id: integer("replica_id") },
  without: ["foreign keys", "requests_account", "requests_not_done"],
  constraints: (columns) => [
    // SQLite has the id in each index. The sign of `id` keeps the planner from reading all rows in the order of their
    // ids. The sign of `account_id` keeps the index out of plans for account and ledger_seq: a plan that was made for a
    // nearly empty table would read all rows of the account for each charge.
    index("requests_account").on(sql`(+account_id)`, sql`(+id)`),
    index("requests_not_done")
      .on(columnIn(columns, "status"), columnIn(columns, "account_id"), sql`(+id)`)
      .where(sql`status <> 'done'`),
    check(
      "requests_replica",
      sql`(${columns["status"]} = 'running') = (${columns["replica_id"]} IS NOT NULL)`,
    ),
  ],
});
export const attempts = postgresTable(declared.attempts);
export const requestFigures = postgresTable(declared.requestFigures);
export const dailyTotals = postgresTable(declared.dailyTotals);
export const dailyFigures = postgresTable(declared.dailyFigures);
export const retention = postgresTable(declared.retention);
export const changes = postgresTable(declared.changes);
export const history = pgView("history", {}).existing();

/** One row for each time that a gateway has joined: its lease. Times are those of the clock of the database. */
export const replicas = pgTable("replicas", {
  id: rowId(),
  name: text("name").notNull(),
  version: text("version").notNull(),
  started_at: integer("started_at").notNull(),
  /** The last heartbeat. */
  seen_at: integer("seen_at").notNull(),
  /** From then on the lease is refused. */
  ended_at: integer("ended_at"),
  /** The number of the last batch that was committed. */
  last_batch: integer("last_batch").notNull(),
});

/** The blocks that replicas have reserved: of the money of an account, or of the budget of a rotation chain. */
export const reserves = pgTable(
  "reserves",
  {
    replica_id: integer("replica_id")
      .notNull()
      .references(() => replicas.id),
    account_id: integer("account_id").notNull(),
    /** The first key of the chain; 0 for the account itself. */
    key_id: integer("key_id").notNull(),
    amount: integer("amount").notNull(),
  },
  (table) => [
    foreignKey({
      columns: [table.account_id],
      foreignColumns: [columnIn(accounts as unknown as Columns, "id")],
    }),
    primaryKey({ columns: [table.replica_id, table.account_id, table.key_id] }),
    index("reserves_account").on(table.account_id),
    check("reserves_amount", sql`${table.amount} > 0`),
  ],
);
