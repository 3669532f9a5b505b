import type { Connection } from "../connection.ts";
import { idsOf } from "./latency.ts";
import type { SteppedSpan } from "./span.ts";

/** The attempts at one provider in each step of a span. Undefined where attempts are folded. */
export interface AttemptSteps {
  readonly attempts: (number | undefined)[];
  readonly failed: (number | undefined)[];
  /** Failed attempts by outcome. */
  readonly outcomes: ReadonlyMap<string, number>;
}

const OK = "ok";
/** The provider is not responsible for the end of these attempts: docs/reference/errors.md. */
const NO_FAILURES: ReadonlySet<string> = new Set([
  OK,
  "client disconnected",
  "shutdown",
  "database",
  "internal error",
  "unsupported",
]);

/** True for the outcome of an attempt in which the provider failed. */
function isFailure(outcome: string): boolean {
  return !NO_FAILURES.has(outcome);
}

/**
 * Reads the attempts at each provider. A request whose only attempt succeeded has no row of that attempt. So
 * `answered`, the number of requests of each provider and step, counts such attempts. Folding removes attempts but not
 * the totals, so steps that begin before `retentionStart` are undefined.
 */
export async function readAttempts(
  connection: Connection,
  span: SteppedSpan,
  retentionStart: number,
  answered: ReadonlyMap<string, readonly number[]>,
): Promise<ReadonlyMap<string, AttemptSteps>> {
  const { times } = span;
  const isKept = times.map((at) => at >= retentionStart);
  const found = new Map<string, { counts: Counts; outcomes: Map<string, number> }>();
  const of = (provider: string) => {
    const known = found.get(provider) ?? { counts: emptyCounts(times.length), outcomes: new Map() };
    found.set(provider, known);
    return known;
  };
  for (const [provider, requests] of answered) {
    if (provider === "") continue;
    requests.forEach((count, step) => add(of(provider).counts.attempts, step, count));
  }
  const rows = await attemptRows(connection, span);
  for (const [step, answeredBy, provider, outcome, count, requests] of rows) {
    // The rows have all attempts of these requests. The loop above counted one attempt of each.
    if (answeredBy !== "" && requests > 0) add(of(answeredBy).counts.attempts, step, -requests);
    const { counts, outcomes } = of(provider);
    add(counts.attempts, step, count);
    if (!isFailure(outcome) || isKept[step] !== true) continue;
    add(counts.failed, step, count);
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + count);
  }
  const kept = (counts: readonly number[]) =>
    counts.map((count, step) => (isKept[step] === true ? count : undefined));
  return new Map(
    [...found].map(([provider, { counts, outcomes }]) => [
      provider,
      { attempts: kept(counts.attempts), failed: kept(counts.failed), outcomes },
    ]),
  );
}

async function attemptRows(
  connection: Connection,
  { times, stepMs, to }: SteppedSpan,
): Promise<AttemptRow[]> {
  const [first = 0] = times;
  const ids = await idsOf(connection, { from: first, to });
  if (ids === undefined) return [];
  return await connection.plainRows<AttemptRow>(
    `SELECT (at - ${first}) / ${stepMs}, coalesce(requests.provider, ''), attempts.provider, outcome, count(*),
        count(*) FILTER (WHERE n = 1)
      FROM attempts JOIN requests ON requests.id = request_id
      WHERE request_id BETWEEN ${ids.first} AND ${ids.last} AND at >= ${first} AND at < ${to}
      GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
  );
}

type AttemptRow = [
  step: number,
  answeredBy: string,
  provider: string,
  outcome: string,
  count: number,
  requests: number,
];

interface Counts {
  readonly attempts: number[];
  readonly failed: number[];
}

function emptyCounts(steps: number): Counts {
  return { attempts: Array<number>(steps).fill(0), failed: Array<number>(steps).fill(0) };
}

function add(counts: number[], step: number, more: number): void {
  const at = Math.max(step, 0);
  counts[at] = (counts[at] ?? 0) + more;
}

/** The attempts at each provider since a time, and how many of them failed. */
export async function readRecentAttempts(
  connection: Connection,
  sinceMs: number,
): Promise<
  readonly { readonly provider: string; readonly attempts: number; readonly failed: number }[]
> {
  const rows = await connection.plainRows<[string, string, number]>(
    `WITH recent AS (SELECT id, provider, status, attempt_count FROM requests WHERE at >= ${sinceMs})
      SELECT provider, outcome, count(*) FROM (
        SELECT attempts.provider, outcome FROM recent JOIN attempts ON request_id = recent.id
        UNION ALL SELECT provider, '${OK}' FROM recent WHERE provider IS NOT NULL AND attempt_count = 1
          AND NOT EXISTS (SELECT 1 FROM attempts WHERE request_id = recent.id)) AS outcomes
      GROUP BY 1, 2 ORDER BY 1, 2`,
  );
  const providers = Map.groupBy(rows, ([provider]) => provider);
  return [...providers].map(([provider, outcomes]) => ({
    provider,
    attempts: outcomes.reduce((sum, [, , count]) => sum + count, 0),
    failed: outcomes.reduce((sum, [, outcome, count]) => sum + (isFailure(outcome) ? count : 0), 0),
  }));
}
