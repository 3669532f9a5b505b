import type { Endpoint, RequestStatus } from "../../contract/account/requestStatus.ts";
import { rowFigures, type Price, type Usage } from "../../contract/figures.ts";
import { surchargeOf } from "../../contract/figureParts.ts";
import { priceColumns, requestColumns, type requests } from "../schema/schema.ts";

/** One attempt at a provider. `outcome` is `ok`, an error status such as `status 503`, or a cause such as `timeout`. */
export interface AttemptRecord {
  provider: string;
  outcome: string;
  /** The HTTP status, if the provider sent one. */
  status: number | null;
  durationMs: number;
}

/** What a request was admitted with. `hold` is nano-roubles. Model and prices may be others when it ends. */
export interface AdmittedRecord {
  readonly publicId: string;
  readonly at: number;
  readonly accountId: number;
  readonly keyId: number;
  /** The first key of the rotation chain, which counts the spending. */
  readonly firstKeyId: number;
  readonly endpoint: Endpoint;
  readonly model: string;
  readonly stream: boolean;
  readonly hold: bigint;
  readonly price: Price;
}

/**
 * A request as its row shows it: while it runs, or when it has ended. `charge` and `writeOff` together are the exact price
 * of its usage.
 */
export interface RequestRecord extends AdmittedRecord, Readonly<Usage> {
  readonly status: RequestStatus;
  /** A `PricingNote` in JSON; null: nothing. */
  readonly pricing: string | null;
  /** The row of the running request may be there already. */
  readonly mayHaveRow: boolean;
  readonly provider: string | null;
  readonly charge: bigint;
  readonly writeOff: bigint;
  readonly estimated: boolean;
  readonly operatorCost: bigint | null;
  /** What the provider's prompt cache saved. Negative where its writes cost more. Null: not known. */
  readonly cacheSaved: bigint | null;
  readonly operatorSaved: bigint | null;
  readonly attempts: readonly AttemptRecord[];
  readonly durationMs: number | null;
  readonly firstByteMs: number | null;
}

/** An amount in JSON: a number where that is exact, else decimal digits. SQLite stores both as the same integer. */
export type WireAmount = number | string;

export function amountToWire(amount: bigint): WireAmount {
  const number = Number(amount);
  return Number.isSafeInteger(number) ? number : String(amount);
}

type Row = typeof requests.$inferSelect;
type Wire<Value> = Value extends bigint ? WireAmount : Value extends boolean ? number : Value;

/** What the gateway knows of a row of `requests`. A flag is 0 or 1. */
export type WireRow = {
  readonly [Name in Exclude<keyof Row, "id" | "ledgerSeq" | "balanceAfter">]: Wire<Row[Name]>;
};

/** A record on its way to the writer. */
export interface WireRecord {
  readonly row: WireRow;
  readonly firstKeyId: number;
  readonly mayHaveRow: boolean;
  /** Empty for a single attempt that succeeded, because the row tells the same. */
  readonly attempts: readonly AttemptRecord[];
  readonly figures: readonly RecordedFigure[];
}

/** A row of `request_figures`. `price` is nano-roubles of one. */
export interface RecordedFigure {
  readonly figure: string;
  readonly quantity: number;
  readonly price: WireAmount;
}

/** The columns of a row in one order, so that all rows have one shape in memory. Each has the price that it is, if any. */
const recordedColumns = requestColumns
  .filter((name) => name !== "ledgerSeq" && name !== "balanceAfter")
  .map((name) => ({ name, price: priceColumns.find(([column]) => column === name)?.[1] }));

export function recordToWire(record: RequestRecord): WireRecord {
  const { attempts, firstKeyId, mayHaveRow, price } = record;
  const figures: RecordedFigure[] = [];
  let figuresPrice = 0n;
  for (const figure of rowFigures) {
    const quantity = record[figure.name];
    if (quantity === 0) continue;
    const priced = price[figure.price.name];
    figures.push({ figure: figure.field, quantity, price: amountToWire(priced) });
    figuresPrice += BigInt(quantity) * surchargeOf(figure, price);
  }
  const hasFigures = figures.length > 0;
  const known = { ...record, attemptCount: attempts.length, hasFigures, figuresPrice };
  const row: Record<string, unknown> = {};
  for (const { name, price: priceName } of recordedColumns) {
    const value = priceName === undefined ? known[name as keyof typeof known] : price[priceName];
    // Amounts and flags have another form in JSON.
    if (typeof value === "bigint") row[name] = amountToWire(value);
    else row[name] = typeof value === "boolean" ? Number(value) : value;
  }
  return {
    row: row as WireRow,
    firstKeyId,
    mayHaveRow,
    attempts: rowTellsAttempt(record) ? [] : attempts,
    figures,
  };
}

/** A single attempt that succeeded, at the provider of the row. */
function rowTellsAttempt({ attempts: [first, ...others], provider }: RequestRecord): boolean {
  return others.length === 0 && first?.outcome === "ok" && first.provider === provider;
}
