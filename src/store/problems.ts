/** What an audit finds, one line each that names the row. */
export interface Problems {
  add(subject: string, problem: string): void;
  readonly lines: string[];
}

/** A damaged store may break a rule in every row; the first ones tell enough. */
export const PROBLEMS_PER_RULE_MAX = 20;

/** Collects problems, of each kind only the first ones. */
export function collectProblems(): Problems {
  const counts = new Map<string, number>();
  const lines: string[] = [];
  return {
    add(subject, problem) {
      const count = counts.get(problem) ?? 0;
      counts.set(problem, count + 1);
      if (count < PROBLEMS_PER_RULE_MAX) lines.push(`${subject}: ${problem}`);
    },
    lines,
  };
}
