import { and, eq, getTableColumns, sql, type SQL } from "drizzle-orm";
import type { AnySQLiteColumn } from "drizzle-orm/sqlite-core";
import {
  ofEachPrice,
  ofEachRowFigure,
  type Figure,
  type Price,
  type Usage,
} from "../../contract/figures.ts";
import type { PricingNote } from "../../contract/priceList.ts";
import type { Connection } from "../connection.ts";
import {
  accounts,
  keys,
  ledger,
  priceColumns,
  requestFigures,
  requests,
} from "../schema/schema.ts";
import type { AttemptRecord } from "../writer/requestRecord.ts";

type PriceColumn = (typeof priceColumns)[number][0];
type StoredOnly =
  | "pricing"
  | "id"
  | "publicId"
  | "accountId"
  | "keyId"
  | "hasFigures"
  | "figuresPrice";

/** `id` and `key` are public ids. Amounts are nano-roubles. */
export interface RequestRow
  extends Omit<typeof requests.$inferSelect, StoredOnly | PriceColumn>, Usage {
  price: Price;
  pricing: PricingNote | null;
  id: string;
  account: string;
  key: string;
}

/** A request with the sum of its refunds. */
export interface ReceiptRow extends RequestRow {
  /** Where lists have it. */
  rowId: number;
  accountId: number;
  refunded: bigint;
}

/** An attempt has no row of its own if it was the only one and succeeded: the request's row has its provider. */
export function onlyAttempt(request: ReceiptRow | undefined): AttemptRecord[] {
  if (request?.attemptCount !== 1) return [];
  const { provider, durationMs } = request;
  return [{ provider: provider ?? "", outcome: "ok", status: 200, durationMs: durationMs ?? 0 }];
}

/** A value of a row of `request_figures`, 0 if the request has no such row. */
function figureOf(field: string, column: AnySQLiteColumn): SQL {
  return sql`CASE WHEN ${requests.hasFigures} = 0 THEN 0 ELSE coalesce((SELECT ${column} FROM ${requestFigures} WHERE ${requestFigures.requestId} = ${requests.id} AND ${requestFigures.figure} = ${field}), 0) END`;
}

const columnOfPrice: ReadonlyMap<string, PriceColumn> = new Map(
  priceColumns.map(([column, name]) => [name, column]),
);

function priceOf({ price, field }: Figure): SQL<bigint> {
  const column = columnOfPrice.get(price.name);
  const stored =
    column === undefined ? figureOf(field, requestFigures.price) : sql`${requests[column]}`;
  return stored.mapWith(BigInt);
}

/** Undamaged by construction: the gateway writes it from its config. */
function noteOf(text: string): PricingNote {
  return JSON.parse(text) as PricingNote;
}

/** A query for rows as `ReceiptRow` has them. It needs a condition. */
export function receiptQuery(db: Connection["db"]) {
  const { publicId, accountId: _account, keyId: _key, ...columns } = getTableColumns(requests);
  const refunded = db
    .select({ sum: sql`coalesce(sum(${ledger.amount}), 0)` })
    .from(ledger)
    .where(and(eq(ledger.accountId, requests.accountId), eq(ledger.refundOf, requests.ledgerSeq)));
  return db
    .select({
      ...(columns as Omit<typeof columns, PriceColumn | "hasFigures" | "figuresPrice">),
      ...ofEachRowFigure(({ field }) => figureOf(field, requestFigures.quantity).mapWith(Number)),
      price: ofEachPrice(priceOf),
      pricing: sql<PricingNote | null>`${requests.pricing}`.mapWith(noteOf),
      id: publicId,
      account: accounts.name,
      key: keys.publicId,
      rowId: requests.id,
      accountId: requests.accountId,
      refunded: sql<bigint>`(${refunded})`.mapWith(BigInt),
    })
    .from(requests)
    .innerJoin(accounts, eq(requests.accountId, accounts.id))
    .innerJoin(keys, eq(requests.keyId, keys.id));
}
