import type { Database } from "bun:sqlite";
import { getTableColumns, getTableName } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { sha256 } from "../../lib/sha256.ts";
import type { Connection } from "../connection.ts";
import { StoreError } from "../storeError.ts";
import { isConnectionLoss } from "./pool.ts";
import { messageOf, sqlState } from "./writer/failures.ts";

/** A table while it is copied from a SQLite file. */
export interface CopiedTable {
  readonly name: string;
  /** In the file. */
  readonly rows: number;
  readonly hasMoney: boolean;
  /**
   * Copies all rows, and compares both sides. `copied` is told how many rows each step has written. Throws StoreError if they
   * differ, or if the server refuses a row.
   */
  readonly copy: (target: Connection, copied: (rows: number) => void) => Promise<CopiedRows>;
}

/** What the rows of a table are, for the comparison. */
interface CopiedRows {
  readonly rows: bigint;
  /** The sum of the column with the money of the table; 0 without one. */
  readonly amount: bigint;
  /** A sum over all rows, which differs if any value of any row differs. */
  readonly fingerprint: bigint;
}

interface Column {
  readonly name: string;
  readonly type: "text" | "bigint" | "bytea";
}

/** Integers are decimal digits, and bytes are hexadecimal digits. */
type Row = Record<string, string | null>;

const ROWS_PER_STATEMENT = 2000;
/** Between the values of a row, and for NULL. */
const [BETWEEN, NULL] = ["\u0001", "\u0002"];
const FINGERPRINT_DIGITS = 15;

/** `money`: the column with the money of the table. `changed`: a row as it is copied. */
export function copiedTable(
  sqlite: Database,
  table: SQLiteTable,
  money: string | undefined,
  changed: (row: Row) => Row,
): CopiedTable {
  const name = getTableName(table);
  const columns = columnsOf(table);
  const size = sqlite.query<{ rows: bigint }, []>(`SELECT count(*) AS rows FROM ${name}`);
  return {
    name,
    rows: Number(size.get()?.rows),
    hasMoney: money !== undefined,
    async copy(target, copied) {
      const read = { rows: 0n, amount: 0n, fingerprint: 0n };
      for (const batch of batchesOf(sqlite, name, columns)) {
        const rows = batch.map(changed);
        for (const row of rows) {
          read.rows += 1n;
          read.amount += money === undefined ? 0n : BigInt(row[money] ?? 0);
          read.fingerprint += fingerprintOf(columns, row);
        }
        await insert(target, name, columns, rows);
        copied(rows.length);
      }
      const written = await rowsOf(target, table, money);
      if (!isSame(read, written))
        throw new StoreError(
          `nothing was copied: the copy of the table ${name} differs from the file`,
        );
      return read;
    },
  };
}

function isSame(one: CopiedRows, other: CopiedRows): boolean {
  return (
    one.rows === other.rows && one.amount === other.amount && one.fingerprint === other.fingerprint
  );
}

/** What the table has in PostgreSQL. */
async function rowsOf(
  target: Connection,
  table: SQLiteTable,
  money: string | undefined,
): Promise<CopiedRows> {
  const text = columnsOf(table)
    .map(({ name, type }) => {
      const value = type === "bytea" ? `encode(${name}, 'hex')` : `CAST(${name} AS text)`;
      return `coalesce(${value}, chr(2))`;
    })
    .join(", ");
  const hash = `encode(sha256(convert_to(concat_ws(chr(1), ${text}), 'UTF8')), 'hex')`;
  const row = await target.row<Record<keyof CopiedRows, string>>(`SELECT
      CAST(count(*) AS text) AS rows,
      CAST(coalesce(sum(${money ?? "0"}), 0) AS text) AS amount,
      CAST(coalesce(sum(CAST(CAST('x' || substr(${hash}, 1, ${FINGERPRINT_DIGITS}) AS bit(60)) AS bigint)), 0) AS text) AS fingerprint
    FROM ${getTableName(table)}`);
  return {
    rows: BigInt(row?.rows ?? 0),
    amount: BigInt(row?.amount ?? 0),
    fingerprint: BigInt(row?.fingerprint ?? 0),
  };
}

/** The columns with their types on PostgreSQL. */
function columnsOf(table: SQLiteTable): readonly Column[] {
  return Object.values(getTableColumns(table)).map((column) => {
    const type = column.getSQLType();
    return {
      name: column.name,
      type: type === "integer" ? "bigint" : type === "blob" ? "bytea" : "text",
    };
  });
}

function* batchesOf(
  sqlite: Database,
  name: string,
  columns: readonly Column[],
): Generator<readonly Row[], void> {
  // A key comes after the first one of its chain.
  const order = columns.some((column) => column.name === "id") ? " ORDER BY id" : "";
  const query = `SELECT ${columns.map(selected).join(", ")} FROM ${name}${order}`;
  let batch: Row[] = [];
  for (const row of sqlite.query<Row, []>(query).iterate()) {
    batch.push(row);
    if (batch.length < ROWS_PER_STATEMENT) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

function selected({ name, type }: Column): string {
  if (type === "bytea") return `lower(hex(${name})) AS ${name}`;
  return type === "bigint" ? `CAST(${name} AS text) AS ${name}` : name;
}

async function insert(
  target: Connection,
  table: string,
  columns: readonly Column[],
  rows: readonly Row[],
): Promise<void> {
  const names = columns.map(({ name }) => name).join(", ");
  const values = columns.map(({ name, type }) =>
    type === "bytea" ? `decode(v.${name}, 'hex')` : `v.${name}`,
  );
  const types = columns.map(({ name, type }) => `${name} ${type === "bytea" ? "text" : type}`);
  try {
    await target.rows(
      `INSERT INTO ${table} (${names}) SELECT ${values.join(", ")}
        FROM jsonb_to_recordset($rows::jsonb) AS v(${types.join(", ")})`,
      { rows: JSON.stringify(rows) },
    );
  } catch (error) {
    const state = sqlState(error) ?? "";
    // A rule of the table, or a value that PostgreSQL has not, such as a text with the character 0.
    if (isConnectionLoss(error) || !/^2[23]/.test(state)) throw error;
    throw new StoreError(
      `nothing was copied: the server refuses a row of the table ${table}: ${messageOf(error)}`,
      { cause: error },
    );
  }
}

function fingerprintOf(columns: readonly Column[], row: Row): bigint {
  const text = columns.map(({ name }) => row[name] ?? NULL).join(BETWEEN);
  const hex = Buffer.from(sha256(text)).toString("hex", 0, 8).slice(0, FINGERPRINT_DIGITS);
  return BigInt(`0x${hex}`);
}
