import type { Contestant } from "./contestants.ts";
import type { Figures } from "./figures.ts";

/** What a database server has counted, by name. No count becomes less. */
export type Counts = Readonly<Record<string, number>>;

/** The counts of a contestant's server at this moment; none without a server. */
export async function countsOf({ readCounts }: Contestant): Promise<Counts> {
  return (await readCounts?.()) ?? {};
}

export function growth(before: Counts, after: Counts): Counts {
  return mapped(after, (count, name) => count - (before[name] ?? 0));
}

export function sumOf(one: Counts, other: Counts): Counts {
  return mapped(other, (count, name) => count + (one[name] ?? 0));
}

/** Adds each count for 1,000 answers to the figures, as a kind of figure of its own such as "json 64, transactions". */
export function addCounts(
  figures: Figures,
  kind: string,
  contestant: string,
  counts: Counts,
  answers: number,
): void {
  for (const [name, count] of Object.entries(counts))
    figures.add(`${kind}, ${name}`, contestant, (count * 1000) / answers);
}

function mapped(counts: Counts, change: (count: number, name: string) => number): Counts {
  const entries = Object.entries(counts).map(([name, count]) => [name, change(count, name)]);
  return Object.fromEntries(entries) as Counts;
}
