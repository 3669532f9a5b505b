import type { Endpoint, RequestStatus } from "../../contract/account/requestStatus.ts";

/** One attempt at a provider. `outcome` is `ok`, an error status such as `status 503`, or a cause such as `timeout`. */
export interface AttemptRecord {
  provider: string;
  outcome: string;
  /** The HTTP status, if the provider sent one. */
  status: number | null;
  durationMs: number;
}

/** Nano-roubles per token, and per web search. */
export interface RecordedPrices {
  readonly priceInput: bigint;
  readonly priceCachedInput: bigint;
  readonly priceCacheWrite: bigint;
  readonly priceCacheWrite1h: bigint;
  readonly priceOutput: bigint;
  readonly priceWebSearch: bigint;
}

/** What a request was admitted with. `hold` is nano-roubles. Model and prices may be others when it ends. */
export interface AdmittedRecord extends RecordedPrices {
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
}

/**
 * A request as its row shows it: while it runs, or when it has ended. `charge` and `writeOff` together are the exact price
 * of its usage.
 */
export interface RequestRecord extends AdmittedRecord {
  readonly status: RequestStatus;
  /** The row of the running request may be there already. */
  readonly mayHaveRow: boolean;
  readonly provider: string | null;
  readonly charge: bigint;
  readonly writeOff: bigint;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  readonly completionTokens: number;
  readonly webSearches: number;
  readonly estimated: boolean;
  readonly operatorCost: bigint | null;
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

/** The columns of a row that the gateway knows, in the order of `requests` in the schema. */
export const RECORD_COLUMNS = [
  "publicId",
  "at",
  "accountId",
  "keyId",
  "endpoint",
  "model",
  "provider",
  "stream",
  "status",
  "priceInput",
  "priceCachedInput",
  "priceCacheWrite",
  "priceCacheWrite1h",
  "priceOutput",
  "priceWebSearch",
  "hold",
  "charge",
  "writeOff",
  "promptTokens",
  "cachedTokens",
  "cacheWriteTokens",
  "cacheWrite1hTokens",
  "completionTokens",
  "webSearches",
  "estimated",
  "operatorCost",
  "attemptCount",
  "durationMs",
  "firstByteMs",
] as const;

/** The values of RECORD_COLUMNS in their order. */
type WireColumns = [
  publicId: string,
  at: number,
  accountId: number,
  keyId: number,
  endpoint: string,
  model: string,
  provider: string | null,
  stream: number,
  status: RequestStatus,
  priceInput: WireAmount,
  priceCachedInput: WireAmount,
  priceCacheWrite: WireAmount,
  priceCacheWrite1h: WireAmount,
  priceOutput: WireAmount,
  priceWebSearch: WireAmount,
  hold: WireAmount,
  charge: WireAmount,
  writeOff: WireAmount,
  promptTokens: number,
  cachedTokens: number,
  cacheWriteTokens: number,
  cacheWrite1hTokens: number,
  completionTokens: number,
  webSearches: number,
  estimated: number,
  operatorCost: WireAmount | null,
  attemptCount: number,
  durationMs: number | null,
  firstByteMs: number | null,
];

/** A record on its way to the writer. Positions instead of names: the writer binds them as they are. */
export interface WireRecord {
  readonly columns: WireColumns;
  readonly firstKeyId: number;
  readonly mayHaveRow: boolean;
  /** Empty for a single attempt that succeeded, because the row tells the same. */
  readonly attempts: readonly AttemptRecord[];
}

export function recordToWire(record: RequestRecord): WireRecord {
  const { attempts } = record;
  return {
    columns: [
      record.publicId,
      record.at,
      record.accountId,
      record.keyId,
      record.endpoint,
      record.model,
      record.provider,
      record.stream ? 1 : 0,
      record.status,
      amountToWire(record.priceInput),
      amountToWire(record.priceCachedInput),
      amountToWire(record.priceCacheWrite),
      amountToWire(record.priceCacheWrite1h),
      amountToWire(record.priceOutput),
      amountToWire(record.priceWebSearch),
      amountToWire(record.hold),
      amountToWire(record.charge),
      amountToWire(record.writeOff),
      record.promptTokens,
      record.cachedTokens,
      record.cacheWriteTokens,
      record.cacheWrite1hTokens,
      record.completionTokens,
      record.webSearches,
      record.estimated ? 1 : 0,
      record.operatorCost === null ? null : amountToWire(record.operatorCost),
      attempts.length,
      record.durationMs,
      record.firstByteMs,
    ],
    firstKeyId: record.firstKeyId,
    mayHaveRow: record.mayHaveRow,
    attempts: rowTellsAttempt(record) ? [] : attempts,
  };
}

/** A single attempt that succeeded, at the provider of the row. */
function rowTellsAttempt({ attempts: [first, ...others], provider }: RequestRecord): boolean {
  return others.length === 0 && first?.outcome === "ok" && first.provider === provider;
}
