import { DAY_MS, type DaySpan } from "../lib/day.ts";

/** Milliseconds since 1970, `to` left out. */
export interface TimeSpan {
  readonly from: number;
  readonly to: number;
}

/** Whole days, and parts of other days. */
export interface SplitTime {
  readonly days: DaySpan;
  readonly parts: readonly TimeSpan[];
}

/** Beyond every time that a clock tells. */
const END_MS = 1e8 * DAY_MS;

/**
 * Takes a time apart into whole days and the parts of days at its ends, of which there are at most two.
 * A part that begins before `keptSince` grows to its whole day: more of it is not told apart any more.
 */
export function splitTime(
  { since = 0, until = END_MS }: { since?: number | undefined; until?: number | undefined },
  keptSince: number,
): SplitTime {
  if (since >= until) return { days: { from: 0, to: 0 }, parts: [] };
  const days = { from: Math.ceil(since / DAY_MS), to: Math.floor(until / DAY_MS) };
  const cut =
    days.from > days.to
      ? [{ from: since, to: until }]
      : [
          { from: since, to: days.from * DAY_MS },
          { from: days.to * DAY_MS, to: until },
        ].filter(({ from, to }) => from < to);
  for (const { from } of cut.filter(({ from }) => from < keptSince)) {
    const day = Math.floor(from / DAY_MS);
    days.from = Math.min(days.from, day);
    days.to = Math.max(days.to, day + 1);
  }
  return { days, parts: cut.filter(({ from }) => from >= keptSince) };
}
