import type { Database } from "bun:sqlite";
import { startWorker } from "../workers.ts";

/** An audit reads everything once: with more of it at hand it is a quarter faster. */
export const AUDIT_CACHE_KILOBYTES = 64 * 1024;

/** What SQLite says of a file in which it finds nothing wrong. */
const IN_ORDER = "ok";

/**
 * What is wrong with the file as such, by SQLite's own check. CHECK constraints are left out, a third of
 * its time: the rules of the audit ask them, and name the row. The quick check looks at each page, but does
 * not look each row up in each index.
 */
export function fileProblems(
  sqlite: Database,
  check: "integrity_check" | "quick_check" = "integrity_check",
): string[] {
  sqlite.run("PRAGMA ignore_check_constraints = ON");
  try {
    return sqlite
      .query<{ line: string }, []>(`SELECT ${check} AS line FROM pragma_${check}`)
      .all()
      .map(({ line }) => line.replaceAll("\n", ": "))
      .filter((line) => line !== IN_ORDER);
  } finally {
    sqlite.run("PRAGMA ignore_check_constraints = OFF");
  }
}

/** A check that another thread is doing. */
export interface IntegrityCheck {
  /** Whether the file is in order; false also where that thread could not tell. */
  readonly isInOrder: Promise<boolean>;
  end(): void;
}

/** Begins at once, also while this thread is busy. */
export function startIntegrityCheck(path: string): IntegrityCheck {
  const worker = startWorker("audit/integrityWorker");
  const { promise, resolve } = Promise.withResolvers<boolean>();
  worker.onmessage = ({ data }: MessageEvent<boolean>) => resolve(data);
  worker.onerror = () => resolve(false);
  worker.postMessage(path);
  return { isInOrder: promise, end: () => worker.terminate() };
}

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
