import { and, eq, gte, inArray, lt, lte, sql, desc, type SQL } from "drizzle-orm";
import type { RequestStatus } from "../../contract/account/requestStatus.ts";
import { accounts, keys, requests } from "../schema/schema.ts";
import type { Connection, Dialect } from "../connection.ts";
import type { Steps } from "../steps.ts";
import { requestColumns, type RequestRow } from "../tables/requests.ts";
import { idsOf } from "./latency.ts";

/**
 * What a request must have. `key` is a public id. `since` is inclusive, `until` is exclusive, in milliseconds since 1970.
 * Charges are nano-roubles, both ends inclusive.
 */
export interface RequestConditions {
  readonly account?: string | undefined;
  readonly key?: string | undefined;
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
  readonly status?: RequestStatus | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly chargeMin?: bigint | undefined;
  readonly chargeMax?: bigint | undefined;
  readonly isEstimated?: true | undefined;
  readonly isWrittenOff?: true | undefined;
}

export interface RequestSearch extends RequestConditions {
  readonly limit: number;
  /** Only rows with a smaller row id: the `next` of the answer before. */
  readonly before?: number | undefined;
}

/** `next` continues the search; undefined at its end. */
export interface FoundRequests {
  /** The one recorded last first. */
  readonly rows: readonly RequestRow[];
  readonly next: number | undefined;
  /** The search stopped at this admission time, because it had looked at requests for long enough. */
  readonly searchedTo: number | undefined;
}

/** Rows that one step looks at. */
const STEP_ROWS = 20_000;
/** An account with more than this share of all requests is busy. */
const BUSY_SHARE = 0.04;
/** After this time the search stops. A page shows what was found, and can continue. */
const SEARCH_MS = 150;

/**
 * Searches from the newest row on. Of one account, or with a rare status, only the rows of that account or status are
 * looked at. No index fits other filters, so the search reads row by row, and stops after `searchMs`.
 */
export function* searchRequests(
  connection: Connection,
  search: RequestSearch,
  searchMs = SEARCH_MS,
): Steps<FoundRequests> {
  const { db, dialect } = connection;
  const window = yield* idWindow(connection, search);
  const candidates = yield* candidateIds(connection, search, window.newest);
  const ids: number[] = [];
  const stopAtMs = performance.now() + searchMs;
  let below = window.below;
  while (below > window.first) {
    const step: Step | undefined = yield* nextStep(connection, candidates, below, window.first);
    if (step === undefined) break;
    const found: readonly { readonly id: number }[] = yield* connection.all(
      db
        .select({ id: requests.id })
        .from(requests)
        .where(and(step.rows, conditionsOf(dialect, search)))
        .orderBy(desc(requests.id))
        .limit(search.limit + 1 - ids.length),
    );
    ids.push(...found.map(({ id }) => id));
    if (ids.length > search.limit) {
      const page = ids.slice(0, search.limit);
      return { rows: yield* rowsOf(connection, page), next: page.at(-1), searchedTo: undefined };
    }
    below = step.from;
    if (performance.now() > stopAtMs && below > window.first) {
      const searchedTo = yield* timeOf(connection, below);
      return { rows: yield* rowsOf(connection, ids), next: below, searchedTo };
    }
  }
  return { rows: yield* rowsOf(connection, ids), next: undefined, searchedTo: undefined };
}

/** The rows of one step, and where the next step begins: at row ids below `from`. */
interface Step {
  readonly rows: SQL | undefined;
  readonly from: number;
}

/** A query for row ids, with its values. */
interface Candidates {
  readonly query: string;
  readonly values: { readonly text?: string };
}

function* nextStep(
  connection: Connection,
  candidates: Candidates | undefined,
  below: number,
  first: number,
): Steps<Step | undefined> {
  if (candidates === undefined) {
    const from = Math.max(below - STEP_ROWS, first);
    return { rows: and(gte(requests.id, from), lt(requests.id, below)), from };
  }
  const rowId = connection.dialect.idBesideIndex;
  const found = yield* connection.rows<{ id: bigint }>(
    `SELECT id FROM (${candidates.query}) AS candidates
      WHERE ${rowId} < $below AND ${rowId} >= $first ORDER BY ${rowId} DESC LIMIT ${STEP_ROWS}`,
    { ...candidates.values, below, first },
  );
  const ids = found.map(({ id }) => Number(id));
  const oldest = ids.at(-1);
  if (oldest === undefined) return undefined;
  const rows = connection.dialect.isIn(sql`${requests.id}`, sql`${JSON.stringify(ids)}`);
  return { rows, from: ids.length < STEP_ROWS ? first : oldest };
}

/**
 * A query for the row ids of one account, or of a rare status, by an index alone. Undefined: all rows. An account with
 * many requests needs no index: the newest rows of all accounts have enough of its rows.
 */
function* candidateIds(
  connection: Connection,
  { account, key, status }: RequestSearch,
  newest: number,
): Steps<Candidates | undefined> {
  const { using } = connection.dialect;
  const notDone = `SELECT id FROM requests ${using("requests_not_done")} WHERE status <> 'done' AND`;
  const ofStatus = status === undefined || status === "done" ? "" : `AND status = '${status}'`;
  const value = key ?? account;
  if (value === undefined)
    return ofStatus === "" ? undefined : { query: `${notDone} true ${ofStatus}`, values: {} };
  const owner =
    key === undefined
      ? "SELECT id FROM accounts WHERE name = $text"
      : "SELECT account_id FROM keys WHERE public_id = $text";
  const charged = `SELECT id FROM requests ${using("requests_account_seq")}
    WHERE account_id = (${owner}) AND ledger_seq IS NOT NULL`;
  const others = `${notDone} account_id = (${owner})
    ${ofStatus || "AND status IN ('running', 'failed', 'cancelled', 'interrupted')"}`;
  const values = { text: value };
  if (ofStatus !== "") return { query: others, values };
  const rows = yield* connection.row<{ rows: bigint }>(
    `SELECT ledger_seq AS rows FROM accounts WHERE id = (${owner})`,
    values,
  );
  if (Number(rows?.rows ?? 0) > newest * BUSY_SHARE) return undefined;
  return { query: status === "done" ? charged : `${charged} UNION ${others}`, values };
}

/** Row ids from `first` on and below `below`. A span of time narrows them. */
function* idWindow(
  connection: Connection,
  { since, until, before }: RequestSearch,
): Steps<{ readonly first: number; readonly below: number; readonly newest: number }> {
  const bounded = since !== undefined || until !== undefined;
  const ids = yield* idsOf(connection, { from: since ?? 0, to: until ?? Number.MAX_SAFE_INTEGER });
  if (ids === undefined) return { first: 1, below: 1, newest: 0 };
  const end = bounded ? ids.last + 1 : Number.MAX_SAFE_INTEGER;
  const last = yield* connection.row<{ id: bigint | null }>("SELECT max(id) AS id FROM requests");
  const newest = Number(last?.id ?? 0);
  return {
    first: since === undefined ? 1 : ids.first,
    below: Math.min(before ?? Number.MAX_SAFE_INTEGER, end, newest + 1),
    newest,
  };
}

function conditionsOf(dialect: Dialect, search: RequestSearch): SQL | undefined {
  const { account, key, model, provider, status, since, until, chargeMin, chargeMax } = search;
  const given = <T>(value: T | undefined, condition: (value: T) => SQL | undefined) =>
    value === undefined ? undefined : condition(value);
  // The rows are chosen by their ids.
  const plain = (column: SQL): SQL => dialect.withoutIndexOf(column);
  return and(
    given(
      account,
      (name) =>
        sql`${plain(sql`${requests.accountId}`)} = (SELECT ${accounts.id} FROM ${accounts} WHERE ${accounts.name} = ${name})`,
    ),
    given(
      key,
      (id) =>
        sql`${plain(sql`${requests.keyId}`)} = (SELECT ${keys.id} FROM ${keys} WHERE ${keys.publicId} = ${id})`,
    ),
    given(model, (id) => eq(requests.model, id)),
    given(provider, (id) => eq(requests.provider, id)),
    given(status, (one) => sql`${plain(sql`${requests.status}`)} = ${one}`),
    given(since, (at) => sql`${plain(sql`${requests.at}`)} >= ${at}`),
    given(until, (at) => sql`${plain(sql`${requests.at}`)} < ${at}`),
    given(chargeMin, (amount) => gte(requests.charge, amount)),
    given(chargeMax, (amount) => lte(requests.charge, amount)),
    given(search.isEstimated, () => sql`${requests.estimated} <> 0`),
    given(search.isWrittenOff, () => sql`${requests.writeOff} > 0`),
  );
}

function* rowsOf(connection: Connection, ids: number[]): Steps<RequestRow[]> {
  if (ids.length === 0) return [];
  return yield* connection.all(
    connection.db
      .select(requestColumns())
      .from(requests)
      .innerJoin(accounts, eq(requests.accountId, accounts.id))
      .innerJoin(keys, eq(requests.keyId, keys.id))
      .where(inArray(requests.id, ids))
      .orderBy(desc(requests.id)),
  );
}

/** The admission time of the first row with this id or a higher one. */
function* timeOf(connection: Connection, id: number): Steps<number | undefined> {
  const row = yield* connection.first(
    connection.db
      .select({ at: requests.at })
      .from(requests)
      .where(gte(requests.id, id))
      .orderBy(requests.id)
      .limit(1),
  );
  return row?.at;
}
