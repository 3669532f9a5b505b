import type { Database } from "bun:sqlite";
import { type LedgerSums, addTo, auditSpent, type Folded } from "./auditLedger.ts";
import { retentionStart } from "../tables/usage.ts";
import type { Problems } from "./integrity.ts";

const DAY_MS = 86_400_000n;
const INT64_MAX = 9_223_372_036_854_775_807n;

/** The figures of a row of the totals, in this order; the last two stay at INT64_MAX once they reach it. */
const FIGURES = [
  "requests",
  "failed",
  "charged",
  "prompt_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "completion_tokens",
  "charge",
  "refunded",
  "write_off",
  "operator_cost",
] as const;
type Figures = Record<(typeof FIGURES)[number], bigint>;

/** What a row of the totals is about. */
interface Group {
  account: bigint;
  key: bigint;
  model: string;
  provider: string;
  endpoint: string;
}

/** A request as its day's totals should count it. */
const REQUESTS = `SELECT account_id AS account, key_id AS key, model, coalesce(provider, '') AS provider, endpoint,
    1 AS requests, status IN ('failed', 'interrupted') AS failed, status = 'done' OR charge > 0 AS charged,
    prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, charge, 0 AS refunded, write_off,
    coalesce(operator_cost, 0) AS operator_cost
  FROM requests INDEXED BY requests_at WHERE at >= ?1 AND at < ?1 + 86400000 AND status <> 'running'`;
const TOTALS = `SELECT account_id AS account, key_id AS key, model, provider, endpoint, ${FIGURES.join(", ")}
  FROM daily_totals WHERE day = ?1`;
/** A request is not counted with what was given back: that is another row of the ledger. */
const SUMS = FIGURES.filter((at) => at !== "refunded");

/**
 * Whether the totals of a day, of which nothing was folded or refunded, are the sums of its requests.
 * Throws where a sum leaves 64 bits. Grouped by the key first, which is a number and tells most groups apart.
 */
const DAY_IS_RIGHT = `SELECT count(*) = (SELECT count(*) FROM daily_totals WHERE day = ?2)
    AND coalesce(min(t.refunded IS 0 AND ${SUMS.map((at) => `t.${at} IS r.${at}`).join(" AND ")}), 1) AS isRight
  FROM (SELECT account, key, model, provider, endpoint, ${SUMS.map((at) => `sum(${at}) AS ${at}`).join(", ")}
      FROM (${REQUESTS}) GROUP BY key, account, model, provider, endpoint) r
  LEFT JOIN daily_totals t ON t.day = ?2 AND t.account_id = r.account AND t.key_id = r.key
    AND t.model = r.model AND t.provider = r.provider AND t.endpoint = r.endpoint`;
const REFUNDS = `SELECT r.at / 86400000 AS day, r.account_id AS account, r.key_id AS key, r.model,
    coalesce(r.provider, '') AS provider, r.endpoint, f.amount
  FROM ledger f JOIN ledger c ON c.id = f.refund_of JOIN requests r ON r.public_id = substr(c.ref, 5)
  WHERE f.kind = 'refund'`;
const NEXT_DAY = `SELECT min(
    coalesce((SELECT min(day) FROM daily_totals WHERE day > ?1), ?2),
    coalesce((SELECT min(at) / 86400000 FROM requests WHERE at >= (?1 + 1) * 86400000), ?2)) AS day`;

/** Within this many days of 1970 there are four-digit years. */
const DATES_MAX = 700_000n;
/** Beyond every day that a row can be of. */
const FIRST_DAY = -100_000_000_000n;
const LAST_DAY = INT64_MAX;

/**
 * Counts the requests of each day again, one day at a time, and compares. Of days of which requests
 * were folded, only the rest is there: what is missing must be what the ledger was charged for it.
 */
export function auditTotals(
  sqlite: Database,
  ledger: ReadonlyMap<bigint, LedgerSums>,
  problems: Problems,
): void {
  const folded = new Map<bigint, Folded>();
  const refunds = refundsByDay(sqlite);
  const isRight = rightDayTeller(sqlite);
  const dayOf = dayReader(sqlite, refunds);
  for (const { day, mayLack } of days(sqlite)) {
    // Nearly every day is told to be right by SQLite at once. What is not plain is looked at group by group.
    const isPlain = !mayLack && !refunds.has(day);
    if (isPlain && isRight(day)) continue;
    const { kept, totals } = dayOf(day);
    for (const total of totals) {
      const rest = kept.get(groupId(total));
      kept.delete(groupId(total));
      const lacking = lackingFigures(total, rest);
      const fits = FIGURES.every((at) => (mayLack ? lacking[at] >= 0n : lacking[at] === 0n));
      if (!fits) problems.add(subjectOf(day, total), "are not the sum of their requests");
      addTo(folded, total.account, lacking);
    }
    for (const group of kept.values())
      problems.add(subjectOf(day, group), "leave out requests that are there");
  }
  auditSpent(sqlite, ledger, folded, problems);
}

function rightDayTeller(sqlite: Database): (day: bigint) => boolean {
  const query = sqlite.query<{ isRight: bigint }, [bigint, bigint]>(DAY_IS_RIGHT);
  return (day) => {
    try {
      return query.get(day * DAY_MS, day)?.isRight === 1n;
    } catch {
      // A sum leaves 64 bits. Should it be anything else, whoever looks closer meets it again.
      return false;
    }
  };
}

/** Every day of which there are totals or requests. `mayLack`: requests of it may be folded. */
function* days(sqlite: Database): Generator<{ day: bigint; mayLack: boolean }> {
  const since = retentionStart(sqlite);
  const next = sqlite.query<{ day: bigint }, [bigint, bigint]>(NEXT_DAY);
  for (let day = FIRST_DAY; ;) {
    day = next.get(day, LAST_DAY)?.day ?? LAST_DAY;
    if (day === LAST_DAY) return;
    yield { day, mayLack: day * DAY_MS < since };
  }
}

/** Reads one day: the sums of the requests that are there, by group, and its totals. */
function dayReader(sqlite: Database, refunds: Refunds) {
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

/** What was given back for requests that are there, by day and group. A person does that: these are few. */
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

function lackingFigures(total: Figures, kept: Figures | undefined): Figures {
  const lacking = { ...total };
  for (const at of FIGURES) lacking[at] -= kept?.[at] ?? 0n;
  for (const at of ["write_off", "operator_cost"] as const)
    if (total[at] === INT64_MAX) lacking[at] = 0n;
  return lacking;
}

function groupId({ account, key, endpoint, provider, model }: Group): string {
  return `${account} ${key} ${endpoint} ${provider}\u0000${model}`;
}

function subjectOf(day: bigint, { key, model, provider, endpoint }: Group): string {
  const place = [`key row ${key}`, endpoint, model, provider]
    .filter((part) => part !== "")
    .join(", ");
  return `totals of ${dateOf(day)} (${place})`;
}

/** The date, or the bare number where nobody can have meant a day. */
function dateOf(day: bigint): string {
  const isDate = -DATES_MAX <= day && day <= DATES_MAX;
  return isDate ? new Date(Number(day * DAY_MS)).toISOString().slice(0, 10) : `day ${day}`;
}
