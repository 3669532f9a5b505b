import { SQL } from "bun";
import { Database } from "bun:sqlite";

/** The rows of the database file. Money is nano-roubles; every number is a bigint, row ids too. */
export interface DatabaseRows {
  readonly accounts: readonly AccountRow[];
  readonly keys: readonly KeyRow[];
  /** Credits, debits, refunds, and the charges of folded requests. */
  readonly ledger: readonly LedgerRow[];
  readonly requests: readonly RequestRow[];
  readonly attempts: readonly AttemptRow[];
  readonly totals: readonly TotalsRow[];
  /** The rows of the counter of changes. */
  readonly changes: readonly { readonly seq: bigint }[];
  /** Milliseconds since 1970: requests admitted before this may be folded. */
  readonly retentionStart: bigint;
  readonly vouchers: readonly VoucherRow[];
  /** The last row of the ledger before refs of vouchers were reserved. */
  readonly voucherStart: bigint;
}

export interface VoucherRow {
  readonly publicId: string;
  readonly amount: bigint;
  readonly expiresAt: bigint | null;
  readonly revokedAt: bigint | null;
  readonly redeemedAt: bigint | null;
  readonly redeemedBy: bigint | null;
}

export interface AccountRow {
  readonly id: bigint;
  readonly name: string;
  readonly balance: bigint;
  readonly overdraft: bigint;
  readonly reserved: bigint;
  readonly seq: bigint;
}

export interface KeyRow {
  readonly id: bigint;
  readonly publicId: string;
  readonly account: bigint;
  readonly spent: bigint;
  /** The first key of the line that a rotation continued. */
  readonly first: bigint | null;
}

export interface LedgerRow {
  /** Null for the charge of a request that is kept. */
  readonly id: bigint | null;
  readonly account: bigint;
  readonly seq: bigint;
  readonly kind: string;
  readonly amount: bigint;
  readonly balanceAfter: bigint;
  readonly ref: string | null;
  /** The number of the refunded charge in the account. */
  readonly refundOf: bigint | null;
}

export interface RequestRow {
  readonly id: bigint;
  readonly publicId: string;
  readonly at: bigint;
  readonly account: bigint;
  readonly key: bigint;
  readonly endpoint: string;
  readonly model: string;
  readonly provider: string | null;
  readonly status: string;
  readonly priceInput: bigint;
  readonly priceCached: bigint;
  readonly priceWritten: bigint;
  readonly priceHour: bigint;
  readonly priceOutput: bigint;
  readonly priceSearch: bigint;
  readonly hold: bigint;
  readonly charge: bigint;
  readonly writeOff: bigint;
  readonly prompt: bigint;
  readonly cached: bigint;
  readonly written: bigint;
  readonly hour: bigint;
  readonly completion: bigint;
  readonly searches: bigint;
  readonly hasFigures: bigint;
  /** What its searches and the rest add to the price of its tokens; without any it has no meaning. */
  readonly figuresPrice: bigint;
  /** What the rest adds: a part of the tokens of prompt or answer adds the difference of both prices. */
  readonly rest: bigint;
  /** Cached tokens of audio. */
  readonly cachedAudio: bigint;
  readonly estimated: bigint;
  readonly operatorCost: bigint | null;
  readonly cacheSaved: bigint | null;
  readonly operatorSaved: bigint | null;
  readonly attemptCount: bigint;
  /** The number of its charge in the account; null: nothing was charged. */
  readonly seq: bigint | null;
  readonly balanceAfter: bigint | null;
}

export interface AttemptRow {
  readonly request: bigint;
  readonly n: bigint;
  readonly outcome: string;
}

/** The columns of the daily totals. */
export const figures = [
  "requests",
  "failed",
  "charged",
  "prompt",
  "cached",
  "written",
  "hour",
  "completion",
  "searches",
  "charge",
  "refunded",
  "writeOff",
  "operatorCost",
  "cacheSaved",
  "operatorSaved",
] as const;

export interface TotalsRow extends Readonly<Record<(typeof figures)[number], bigint>> {
  readonly day: bigint;
  readonly account: bigint;
  readonly key: bigint;
  readonly model: string;
  readonly provider: string;
  readonly endpoint: string;
}

/** All changes of balances, by account and number: the rows of the ledger, and the charges of the requests that are kept. */
export function historyOf({ ledger, requests }: DatabaseRows): LedgerRow[] {
  const charges = requests.flatMap(({ publicId, account, seq, charge, balanceAfter }) =>
    seq === null
      ? []
      : {
          id: null,
          account,
          seq,
          kind: "charge",
          amount: -charge,
          balanceAfter: balanceAfter ?? 0n,
          ref: `req:${publicId}`,
          refundOf: null,
        },
  );
  return [...ledger, ...charges].sort(
    (a, b) => Number(a.account - b.account) || Number(a.seq - b.seq),
  );
}

/** Names a row of an account's history. */
export function placeOf({ account, seq }: { account: bigint; seq: bigint | null }): string {
  return `${account}:${seq}`;
}

/** Where a gateway has its database: a SQLite file, or the URL of a PostgreSQL database. */
export type DatabasePlace = { readonly path: string } | { readonly url: string };

const busyTimeoutMs = 5000;

/** Reads one snapshot of a database, which may be in use. Rejects where it is no database of the gateway. */
export async function readDatabaseAt(place: DatabasePlace): Promise<DatabaseRows> {
  return "path" in place ? readDatabase(place.path) : await readServerDatabase(place.url);
}

/** The same of the file at `path`, at once. */
export function readDatabase(path: string): DatabaseRows {
  const file = new Database(path, { readonly: true, safeIntegers: true });
  try {
    file.run(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    const all = (query: string): unknown[] => file.query(query).all();
    return file.transaction(() => rowsOf(queries.map(all)))();
  } finally {
    file.close();
  }
}

async function readServerDatabase(url: string): Promise<DatabaseRows> {
  const sql = new SQL(url, { max: 1, bigint: true });
  try {
    return await sql.begin("isolation level repeatable read read only", async (snapshot) => {
      const found: unknown[][] = [];
      for (const query of queries) found.push([...(await snapshot.unsafe<unknown[]>(query))]);
      return rowsOf(found);
    });
  } finally {
    await sql.close();
  }
}

/** A column of the row of searches that a request has; 0 if it has none. */
function figureOf(column: string): string {
  return `coalesce((SELECT ${column} FROM request_figures WHERE request_id = requests.id AND figure = 'web_searches'), 0)`;
}

/** What all figures but searches add to the price of the tokens of a request. */
const restPrice = `coalesce((SELECT CAST(sum(quantity * (price - CASE figure
  WHEN 'audio_input_tokens' THEN price_input
  WHEN 'image_input_tokens' THEN price_input
  WHEN 'cached_audio_input_tokens' THEN price_cached_input
  WHEN 'audio_output_tokens' THEN price_output
  WHEN 'image_output_tokens' THEN price_output
  ELSE 0 END)) AS bigint) FROM request_figures WHERE request_id = requests.id AND figure <> 'web_searches'), 0)`;

const cachedAudio = `coalesce((SELECT quantity FROM request_figures WHERE request_id = requests.id AND figure = 'cached_audio_input_tokens'), 0)`;

/** The same on both engines: one for each part of DatabaseRows. */
const queries = [
  `SELECT id, name, balance, overdraft, reserved, ledger_seq AS seq FROM accounts`,
  `SELECT id, public_id AS "publicId", account_id AS account, spent, first_key_id AS first FROM keys`,
  `SELECT id, account_id AS account, seq, kind, amount, balance_after AS "balanceAfter", ref, refund_of AS "refundOf" FROM ledger ORDER BY id`,
  `SELECT id, public_id AS "publicId", at, account_id AS account, key_id AS key, endpoint, model, provider, status, price_input AS "priceInput", price_cached_input AS "priceCached", price_cache_write AS "priceWritten", price_cache_write_1h AS "priceHour", price_output AS "priceOutput", ${figureOf("price")} AS "priceSearch", hold, charge, write_off AS "writeOff", prompt_tokens AS prompt, cached_tokens AS cached, cache_write_tokens AS written, cache_write_1h_tokens AS hour, completion_tokens AS completion, ${figureOf("quantity")} AS searches, has_figures AS "hasFigures", figures_price AS "figuresPrice", ${restPrice} AS rest, ${cachedAudio} AS "cachedAudio", estimated, operator_cost AS "operatorCost", cache_saved AS "cacheSaved", operator_saved AS "operatorSaved", attempt_count AS "attemptCount", ledger_seq AS seq, balance_after AS "balanceAfter" FROM requests ORDER BY id`,
  `SELECT request_id AS request, n, outcome FROM attempts ORDER BY request_id, n`,
  `SELECT day, account_id AS account, key_id AS key, model, provider, endpoint, requests, failed, charged, prompt_tokens AS prompt, cached_tokens AS cached, cache_write_tokens AS written, cache_write_1h_tokens AS hour, completion_tokens AS completion, coalesce((SELECT quantity FROM daily_figures f WHERE f.day = t.day AND f.account_id = t.account_id AND f.key_id = t.key_id AND f.model = t.model AND f.provider = t.provider AND f.endpoint = t.endpoint AND f.figure = 'web_searches'), 0) AS searches, charge, refunded, write_off AS "writeOff", operator_cost AS "operatorCost", cache_saved AS "cacheSaved", operator_saved AS "operatorSaved" FROM daily_totals t`,
  `SELECT seq FROM changes`,
  `SELECT public_id AS "publicId", amount, expires_at AS "expiresAt", revoked_at AS "revokedAt", redeemed_at AS "redeemedAt", redeemed_by AS "redeemedBy" FROM vouchers`,
  `SELECT ledger_id AS ledger FROM voucher_start`,
  `SELECT kept_since AS since FROM retention`,
];

/** `found`: the rows of each query. */
function rowsOf(found: readonly unknown[][]): DatabaseRows {
  const [accounts, keys, ledger, requests, attempts, totals, changes, vouchers, start, retention] =
    found;
  const parts = { accounts, keys, ledger, requests, attempts, totals, changes, vouchers };
  const [first] = start as { ledger: bigint }[];
  const [kept] = retention as { since: bigint }[];
  return {
    ...(parts as unknown as Omit<DatabaseRows, "voucherStart" | "retentionStart">),
    voucherStart: first?.ledger ?? 0n,
    retentionStart: kept?.since ?? 0n,
  };
}
