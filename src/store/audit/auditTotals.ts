import type { Connection, Dialect } from "../connection.ts";
import { auditSpending } from "./auditSpending.ts";
import type { AuditSteps, Problems } from "./auditProgress.ts";

const DAY_MS = 86_400_000n;
const INT64_MAX = 9_223_372_036_854_775_807n;

/** The columns of the totals. The last four stay at INT64_MAX if their sum exceeds it. */
const FIGURES = [
  "requests",
  "failed",
  "charged",
  "prompt_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "cache_write_1h_tokens",
  "completion_tokens",
  "charge",
  "refunded",
  "write_off",
  "operator_cost",
  "cache_saved",
  "operator_saved",
] as const;
type Figures = Record<(typeof FIGURES)[number], bigint>;
/** What folded requests have of these may be less than 0. */
const SIGNED: ReadonlySet<keyof Figures> = new Set(["cache_saved", "operator_saved"]);

/** The key of a row of the totals, without the day. */
interface Group {
  account: bigint;
  key: bigint;
  model: string;
  provider: string;
  endpoint: string;
}

/** The settled requests of a day, in the columns of the totals. */
const REQUESTS = `SELECT account_id AS account, key_id AS key, model, coalesce(provider, '') AS provider, endpoint,
    1 AS requests, CASE WHEN status IN ('failed', 'interrupted') THEN 1 ELSE 0 END AS failed,
    CASE WHEN status = 'done' OR charge > 0 THEN 1 ELSE 0 END AS charged,
    prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens,
    charge, 0 AS refunded, write_off,
    coalesce(operator_cost, 0) AS operator_cost,
    coalesce(cache_saved, 0) AS cache_saved, coalesce(operator_saved, 0) AS operator_saved
  FROM requests WHERE at BETWEEN $first AND $last AND status <> 'running'`;
const TOTALS = `SELECT account_id AS account, key_id AS key, model, provider, endpoint, ${FIGURES.join(", ")}
  FROM daily_totals WHERE day = $day`;
/** Refunds are in the ledger, not in the requests. */
const SUMS = FIGURES.filter((at) => at !== "refunded");

/**
 * Whether the totals of a day without folds and refunds are the sums of its requests. Fails if a sum exceeds 64 bits.
 * Grouped by the key first: it is a number, and distinguishes most groups.
 */
const IS_DAY_CORRECT = `SELECT
    CASE WHEN count(*) = (SELECT count(*) FROM daily_totals WHERE day = $day) AND
      count(*) FILTER (WHERE t.refunded IS NOT DISTINCT FROM 0
        AND ${SUMS.map((at) => `t.${at} IS NOT DISTINCT FROM r.${at}`).join(" AND ")}) = count(*)
    THEN 1 ELSE 0 END AS "isCorrect"
  FROM (SELECT account, key, model, provider, endpoint, ${SUMS.map((at) => `sum(${at}) AS ${at}`).join(", ")}
      FROM (${REQUESTS}) AS requests GROUP BY key, account, model, provider, endpoint) r
  LEFT JOIN daily_totals t ON t.day = $day AND t.account_id = r.account AND t.key_id = r.key
    AND t.model = r.model AND t.provider = r.provider AND t.endpoint = r.endpoint`;
const REFUNDS = `SELECT r.at / 86400000 AS day, r.account_id AS account, r.key_id AS key, r.model,
    coalesce(r.provider, '') AS provider, r.endpoint, f.amount
  FROM ledger f JOIN requests r ON r.account_id = f.account_id AND r.ledger_seq = f.refund_of
  WHERE f.refund_of IS NOT NULL AND f.kind = 'refund'`;
const nextDay = ({ lesser }: Dialect): string =>
  `SELECT ${lesser(
    "coalesce((SELECT min(day) FROM daily_totals WHERE day > $day), $end)",
    "coalesce((SELECT min(at) / 86400000 FROM requests WHERE at > $last), $end)",
  )} AS day`;

/**
 * About how many requests were admitted before a time. The number is not exact, because rows have the order in which
 * requests ended.
 */
const REQUESTS_UNTIL = `SELECT (SELECT id FROM requests WHERE at < $first ORDER BY at DESC LIMIT 1)
    - (SELECT min(id) FROM requests) AS rows`;

/** Before and after all days that a row can have. */
const FIRST_DAY = -100_000_000_000n;
const LAST_DAY = INT64_MAX;

/**
 * Compares the totals of each day with its requests, one day at a time. If requests of a day were folded, the totals may
 * count more. The totals of all days must agree with the ledger.
 */
export async function auditTotals(
  connection: Connection,
  problems: Problems,
  steps: AuditSteps,
): Promise<void> {
  const refunds = await refundsByDay(connection);
  const retention = await connection.row<{ since: bigint }>(
    "SELECT kept_since AS since FROM retention",
  );
  for (let day = FIRST_DAY; ;) {
    day = await dayAfter(connection, day);
    if (day === LAST_DAY) break;
    const { first } = timesOf(day);
    const before = await connection.row<{ rows: bigint | null }>(REQUESTS_UNTIL, { first });
    steps.reached(Number(before?.rows ?? 0));
    const mayBeFolded = day * DAY_MS < (retention?.since ?? 0n);
    // One query proves most days. The others are compared group by group.
    if (mayBeFolded || refunds.has(day) || !(await isCorrect(connection, day)))
      await compareDay(connection, problems, { day, mayBeFolded, refunds });
  }
  await auditSpending(connection, problems);
}

/** The first and the last millisecond of a day. A damaged row can have a day whose times leave 64 bits. */
function timesOf(day: bigint): { readonly first: bigint; readonly last: bigint } {
  const within = (ms: bigint): bigint =>
    ms > INT64_MAX ? INT64_MAX : ms < -INT64_MAX ? -INT64_MAX : ms;
  return { first: within(day * DAY_MS), last: within((day + 1n) * DAY_MS - 1n) };
}

/** The next day with totals or requests. */
async function dayAfter(connection: Connection, day: bigint): Promise<bigint> {
  const row = await connection.row<{ day: bigint }>(nextDay(connection.dialect), {
    day,
    end: LAST_DAY,
    last: timesOf(day).last,
  });
  return row?.day ?? LAST_DAY;
}

async function isCorrect(connection: Connection, day: bigint): Promise<boolean> {
  try {
    const row = await connection.row<{ isCorrect: bigint | number }>(IS_DAY_CORRECT, {
      ...timesOf(day),
      day,
    });
    return Number(row?.isCorrect) === 1;
  } catch (error) {
    if (connection.dialect.engine !== "sqlite") throw error;
    // A sum exceeds 64 bits. Any other error occurs again in the comparison by group.
    return false;
  }
}

/** Compares the totals of one day with the sums of its requests, group by group. */
async function compareDay(
  connection: Connection,
  problems: Problems,
  { day, mayBeFolded, refunds }: { day: bigint; mayBeFolded: boolean; refunds: Refunds },
): Promise<void> {
  const kept = new Map<string, Group & Figures>();
  await connection.forEach<Group & Record<keyof Figures, bigint | number>>(
    REQUESTS,
    timesOf(day),
    (request) => {
      const id = groupId(request);
      const sums = kept.get(id);
      if (sums) for (const at of FIGURES) sums[at] += BigInt(request[at]);
      else kept.set(id, exact(request, refunds.get(day)?.get(id) ?? 0n));
    },
  );
  await connection.forEach<Group & Figures>(TOTALS, { day }, (total) => {
    const id = groupId(total);
    const foldedPart = foldedFigures(total, kept.get(id));
    kept.delete(id);
    const fits = FIGURES.every((at) =>
      mayBeFolded ? foldedPart[at] >= 0n || SIGNED.has(at) : foldedPart[at] === 0n,
    );
    if (!fits) problems.add(subjectOf(day, total), "are not the sum of their requests");
  });
  for (const group of kept.values())
    problems.add(subjectOf(day, group), "leave out requests that are there");
}

/** SQLite may return a constant of a query as a number. */
function exact(
  request: Group & Record<keyof Figures, bigint | number>,
  refunded: bigint,
): Group & Figures {
  const sums = FIGURES.map((at) => [at, BigInt(request[at])] as const);
  return { ...request, ...(Object.fromEntries(sums) as unknown as Figures), refunded };
}

/** Refunds of existing requests by day and group. Commands make them, so they are few. */
type Refunds = ReadonlyMap<bigint, ReadonlyMap<string, bigint>>;

async function refundsByDay(connection: Connection): Promise<Refunds> {
  const days = new Map<bigint, Map<string, bigint>>();
  await connection.forEach<Group & { day: bigint; amount: bigint }>(REFUNDS, {}, (refund) => {
    const sums = days.get(refund.day) ?? new Map<string, bigint>();
    days.set(refund.day, sums);
    const id = groupId(refund);
    sums.set(id, (sums.get(id) ?? 0n) + refund.amount);
  });
  return days;
}

function foldedFigures(total: Figures, kept: Figures | undefined): Figures {
  const foldedPart = { ...total };
  for (const at of FIGURES) foldedPart[at] -= kept?.[at] ?? 0n;
  for (const at of ["write_off", "operator_cost", "cache_saved", "operator_saved"] as const)
    if (total[at] === INT64_MAX) foldedPart[at] = 0n;
  return foldedPart;
}

function groupId({ account, key, endpoint, provider, model }: Group): string {
  return `${account} ${key} ${endpoint} ${provider}\u0000${model}`;
}

function subjectOf(day: bigint, { key, model, provider, endpoint }: Group): string {
  const group = [`key row ${key}`, endpoint, model, provider]
    .filter((part) => part !== "")
    .join(", ");
  return `totals of ${dateOf(day)} (${group})`;
}

/** A damaged row can have a day that is no date. */
function dateOf(day: bigint): string {
  const date = new Date(Number(day * DAY_MS));
  return Number.isNaN(date.getTime()) ? `day ${day}` : date.toISOString().slice(0, 10);
}
