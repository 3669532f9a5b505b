import type { Database } from "bun:sqlite";
import { startWorker } from "./workers.ts";

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
export function checkIntegrityBeside(path: string): IntegrityCheck {
  const worker = startWorker("integrityWorker");
  const { promise, resolve } = Promise.withResolvers<boolean>();
  worker.onmessage = ({ data }: MessageEvent<boolean>) => resolve(data);
  worker.onerror = () => resolve(false);
  worker.postMessage(path);
  return { isInOrder: promise, end: () => worker.terminate() };
}
