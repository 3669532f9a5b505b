import type { LeaversSeen } from "./leavers.ts";

/** What all clients together may be charged, as a share of what the providers count. */
const CHARGED_MIN = 0.99;
const CHARGED_MAX = 1.1;
/** What a client that stops may be charged above the provider's count, in the median. */
const MEDIAN_OVER_MAX = 0.1;

/** What is beyond the limits. */
export function problemsOf({ rows, standing, chargedUnsent }: LeaversSeen): string[] {
  const problems = Object.entries(standing.others).map(
    ([what, count]) => `${count} times instead of a whole answer: ${what}`,
  );
  const [all] = rows;
  const share = Number(all?.charged) / Number(all?.generated);
  if (!(share >= CHARGED_MIN && share <= CHARGED_MAX))
    problems.push(`charged are ${(share * 100).toFixed(2)}% of what the providers count`);
  const stoppers = rows.filter(({ what }) => ["reasoning", "text", "tail"].includes(what));
  for (const { what, medianOver } of stoppers)
    if (medianOver > MEDIAN_OVER_MAX)
      problems.push(`who left (${what}) pays ${(medianOver * 100).toFixed(1)}% more in the median`);
  if (chargedUnsent > 0n) problems.push(`${chargedUnsent} were charged for what no provider got`);
  return problems;
}
