import { and, eq, getTableColumns, sql } from "drizzle-orm";
import type { Price, PriceName } from "../../contract/figures.ts";
import type { Connection } from "../connection.ts";
import { accounts, keys, ledger, priceColumns, requests } from "../schema/schema.ts";
import type { AttemptRecord } from "../writer/requestRecord.ts";

type PriceColumn = (typeof priceColumns)[number][0];

/** `id` and `key` are public ids. Amounts are nano-roubles. */
export interface RequestRow extends Omit<
  typeof requests.$inferSelect,
  "id" | "publicId" | "accountId" | "keyId" | PriceColumn
> {
  price: Price;
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

/** A query for rows as `ReceiptRow` has them. It needs a condition. */
export function receiptQuery(db: Connection["db"]) {
  const { publicId, accountId: _account, keyId: _key, ...columns } = getTableColumns(requests);
  const refunded = db
    .select({ sum: sql`coalesce(sum(${ledger.amount}), 0)` })
    .from(ledger)
    .where(and(eq(ledger.accountId, requests.accountId), eq(ledger.refundOf, requests.ledgerSeq)));
  return db
    .select({
      ...(columns as Omit<typeof columns, PriceColumn>),
      price: Object.fromEntries(
        priceColumns.map(([column, name]) => [name, requests[column]]),
      ) as Record<PriceName, (typeof requests)[PriceColumn]>,
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
