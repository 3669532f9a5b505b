import type { ReportSpan, ReportStep } from "../../contract/operator/span.ts";
import { DAY_MS } from "../../lib/clock.ts";
import type { Connection, TimeSpan } from "../connection.ts";
import { sourcesOf, type Source } from "../usage/sums.ts";

const HOUR_MS = 3_600_000;

const SPANS: Record<ReportSpan, { readonly step: ReportStep; readonly steps: number }> = {
  "24h": { step: "hour", steps: 24 },
  "7d": { step: "day", steps: 7 },
  "30d": { step: "day", steps: 30 },
  "90d": { step: "day", steps: 90 },
};

/** A span that is divided into steps. It ends during its last step. Times are milliseconds since 1970. */
export interface SteppedSpan extends TimeSpan {
  readonly span: ReportSpan;
  readonly step: ReportStep;
  readonly stepMs: number;
  /** The start of each step. */
  readonly times: readonly number[];
  /** The span before this span, up to the same moment in it. */
  readonly before: TimeSpan;
}

/**
 * The span that ends now. It begins with a whole hour or a whole day, so that each step but the last is whole. Where
 * requests of the 24 hours are folded, only sums of whole days are left, and the steps are days.
 */
export function steppedSpan(span: ReportSpan, nowMs: number, retentionStart: number): SteppedSpan {
  const { step, steps } = SPANS[span];
  const isHourly = step === "hour";
  const from = isHourly ? startOf(HOUR_MS, nowMs, steps) : startOf(DAY_MS, nowMs, steps);
  const to = nowMs + 1;
  const lengthMs = isHourly ? steps * HOUR_MS : steps * DAY_MS;
  const before = { from: from - lengthMs, to: to - lengthMs };
  const isKept = from >= retentionStart;
  const stepMs = isHourly && isKept ? HOUR_MS : DAY_MS;
  const first = Math.floor(from / stepMs) * stepMs;
  const times = Array.from(
    { length: Math.ceil((to - first) / stepMs) },
    (_, at) => first + at * stepMs,
  );
  return { span, step: isHourly && !isKept ? "day" : step, stepMs, times, from, to, before };
}

/** The start of the first of these steps; the last one is not over. */
function startOf(stepMs: number, nowMs: number, steps: number): number {
  return (Math.floor(nowMs / stepMs) - steps + 1) * stepMs;
}

/** The rows of a span. The last day counts as a whole: its requests are those until now. */
export function sourcesOfSpan(
  { paths }: Connection,
  { times, stepMs, from, to }: SteppedSpan,
  retentionStart: number,
  condition?: string,
): readonly Source[] {
  const [first = 0] = times;
  const end = stepMs === DAY_MS ? first + times.length * stepMs : to;
  return sourcesOf(paths, { from, to: end }, retentionStart, condition);
}

/** The step of a span that begins at this many hours or days since 1970. */
export function stepOf({ times, stepMs }: SteppedSpan, since1970: number): number {
  return since1970 - (times[0] ?? 0) / stepMs;
}
