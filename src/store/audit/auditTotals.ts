import type { Database } from "bun:sqlite";
import { auditSpending } from "./auditSpending.ts";
import { retentionStart } from "../tables/usage.ts";
import type { AuditSteps } from "./auditProgress.ts";
import type { Problems } from "../sqlite/audit/integrity.ts";

const DAY_MS = 86_400_000n;
const INT64_MAX = 9_223_372_036_854_775_807n;

/** The columns of the totals. The last two stay at INT64_MAX if their sum exceeds it. */
const FIGURES = [
  "requests",
  "failed",
  "charged",
  "prompt_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "cache_write_1h_tokens",
  "completion_tokens",
  "web_searches",
  "charge",
  "refunded",
  "write_off",
  "operator_cost",
] as const;
type Figures = Record<(typeof FIGURES)[number], bigint>;

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
    1 AS requests, status IN ('failed', 'interrupted') AS failed, status = 'done' OR charge > 0 AS charged,
    prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, web_searches,
    charge, 0 AS refunded, write_off,
    coalesce(operator_cost, 0) AS operator_cost
  FROM requests INDEXED BY requests_at WHERE at >= ?1 AND at < ?1 + 86400000 AND status <> 'running'`;
const TOTALS = `SELECT account_id AS account, key_id AS key, model, provider, endpoint, ${FIGURES.join(", ")}
  FROM daily_totals WHERE day = ?1`;
/** Refunds are in the ledger, not in the requests. */
const SUMS = FIGURES.filter((at) => at !== "refunded");

/**
 * Whether the totals of a day without folds and refunds are the sums of its requests. Fails if a sum exceeds 64 bits.
 * Grouped by the key first: it is a number, and distinguishes most groups.
 */
const IS_DAY_CORRECT = `SELECT count(*) = (SELECT count(*) FROM daily_totals WHERE day = ?2)
    AND coalesce(min(t.refunded IS 0 AND ${SUMS.map((at) => `t.${at} IS r.${at}`).join(" AND ")}), 1) AS isCorrect
  FROM (SELECT account, key, model, provider, endpoint, ${SUMS.map((at) => `sum(${at}) AS ${at}`).join(", ")}
      FROM (${REQUESTS}) GROUP BY key, account, model, provider, endpoint) r
  LEFT JOIN daily_totals t ON t.day = ?2 AND t.account_id = r.account AND t.key_id = r.key
    AND t.model = r.model AND t.provider = r.provider AND t.endpoint = r.endpoint`;
const REFUNDS = `SELECT r.at / 86400000 AS day, r.account_id AS account, r.key_id AS key, r.model,
    coalesce(r.provider, '') AS provider, r.endpoint, f.amount
  FROM ledger f JOIN requests r ON r.account_id = f.account_id AND r.ledger_seq = f.refund_of
  WHERE f.refund_of IS NOT NULL AND f.kind = 'refund'`;
const NEXT_DAY = `SELECT min(
    coalesce((SELECT min(day) FROM daily_totals WHERE day > ?1), ?2),
    coalesce((SELECT min(at) / 86400000 FROM requests WHERE at >= (?1 + 1) * 86400000), ?2)) AS day`;

/** About as many requests were admitted until a time: rows are in the order of their ends. */
const REQUESTS_UNTIL = `SELECT (SELECT id FROM requests WHERE at < ?1 ORDER BY at DESC LIMIT 1)
    - (SELECT min(id) FROM requests) AS rows`;

/** Before and after all days that a row can have. */
const FIRST_DAY = -100_000_000_000n;
const LAST_DAY = INT64_MAX;

/**
 * Compares the totals of each day with its requests, one day at a time. If requests of a day were folded, the totals may
 * count more. The totals of all days must agree with the ledger.
 */
export function auditTotals(sqlite: Database, problems: Problems, steps: AuditSteps): void {
  const refunds = refundsByDay(sqlite);
  const isCorrect = prepareDayCheck(sqlite);
  const readDay = prepareDayReader(sqlite, refunds);
  const countUntil = sqlite.query<{ rows: bigint }, [bigint]>(REQUESTS_UNTIL);
  for (const { day, mayBeFolded } of days(sqlite)) {
    steps.reached(Number(countUntil.get(day * DAY_MS)?.rows ?? 0));
    // One query proves most days. The others are compared group by group.
    if (!mayBeFolded && !refunds.has(day) && isCorrect(day)) continue;
    const { kept, totals } = readDay(day);
    for (const total of totals) {
      const rest = kept.get(groupId(total));
      kept.delete(groupId(total));
      const foldedPart = foldedFigures(total, rest);
      const fits = FIGURES.every((at) =>
        mayBeFolded ? foldedPart[at] >= 0n : foldedPart[at] === 0n,
      );
      if (!fits) problems.add(subjectOf(day, total), "are not the sum of their requests");
    }
    for (const group of kept.values())
      problems.add(subjectOf(day, group), "leave out requests that are there");
  }
  auditSpending(sqlite, problems);
}

function prepareDayCheck(sqlite: Database): (day: bigint) => boolean {
  const query = sqlite.query<{ isCorrect: bigint }, [bigint, bigint]>(IS_DAY_CORRECT);
  return (day) => {
    try {
      return query.get(day * DAY_MS, day)?.isCorrect === 1n;
    } catch {
      // A sum exceeds 64 bits. Any other error occurs again in the comparison by group.
      return false;
    }
  };
}

/** The days with totals or requests. */
function* days(sqlite: Database): Generator<{ day: bigint; mayBeFolded: boolean }> {
  const since = retentionStart(sqlite);
  const next = sqlite.query<{ day: bigint }, [bigint, bigint]>(NEXT_DAY);
  for (let day = FIRST_DAY; ;) {
    day = next.get(day, LAST_DAY)?.day ?? LAST_DAY;
    if (day === LAST_DAY) return;
    yield { day, mayBeFolded: day * DAY_MS < since };
  }
}

/** Reads the totals of one day, and the sums of its requests by group. */
function prepareDayReader(sqlite: Database, refunds: Refunds) {
  const requests = sqlite.query<Group & Figures, [bigint]>(REQUESTS);
  const totals = sqlite.query<Group & Figures, [bigint]>(TOTALS);
  return (day: bigint) => {
    const kept = new Map<string, Group & Figures>();
    for (const request of requests.iterate(day * DAY_MS)) {
      const id = groupId(request);
      const sums = kept.get(id);
      if (sums) for (const at of FIGURES) sums[at] += request[at];
      else kept.set(id, { ...request, refunded: refunds.get(day)?.get(id) ?? 0n });
    }
    return { kept, totals: totals.iterate(day) };
  };
}

/** Refunds of existing requests by day and group. Commands make them, so they are few. */
type Refunds = ReadonlyMap<bigint, ReadonlyMap<string, bigint>>;

function refundsByDay(sqlite: Database): Refunds {
  const days = new Map<bigint, Map<string, bigint>>();
  const refunds = sqlite.query<Group & { day: bigint; amount: bigint }, []>(REFUNDS);
  for (const refund of refunds.iterate()) {
    const sums = days.get(refund.day) ?? new Map<string, bigint>();
    days.set(refund.day, sums);
    const id = groupId(refund);
    sums.set(id, (sums.get(id) ?? 0n) + refund.amount);
  }
  return days;
}

function foldedFigures(total: Figures, kept: Figures | undefined): Figures {
  const foldedPart = { ...total };
  for (const at of FIGURES) foldedPart[at] -= kept?.[at] ?? 0n;
  for (const at of ["write_off", "operator_cost"] as const)
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
