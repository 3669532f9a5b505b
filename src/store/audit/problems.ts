/** The problems of an audit, one line each, with the row. */
export interface Problems {
  add(subject: string, problem: string): void;
  readonly lines: string[];
}

/** A damaged database may break a rule in every row. */
export const PROBLEMS_PER_RULE_MAX = 20;

/** Collects the first PROBLEMS_PER_RULE_MAX problems of each kind. */
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
