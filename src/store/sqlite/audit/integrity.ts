import type { Database } from "bun:sqlite";
import { startWorker } from "../workers.ts";

/** A larger page cache makes an audit a quarter faster. */
export const AUDIT_CACHE_KILOBYTES = 64 * 1024;

/**
 * Runs SQLite's check of the file. It skips CHECK constraints, a third of the time: the audit's rules repeat them. The
 * quick check reads each page, but does not look up each row in each index.
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
      .filter((line) => line !== "ok");
  } finally {
    sqlite.run("PRAGMA ignore_check_constraints = OFF");
  }
}

/** A check in a Worker. */
interface IntegrityCheck {
  /** False also if the check failed. */
  readonly isIntact: Promise<boolean>;
  end(): void;
}

export function startIntegrityCheck(path: string): IntegrityCheck {
  const worker = startWorker("audit/integrityWorker");
  const { promise, resolve } = Promise.withResolvers<boolean>();
  worker.onmessage = ({ data }: MessageEvent<boolean>) => resolve(data);
  worker.onerror = () => resolve(false);
  worker.postMessage(path);
  return { isIntact: promise, end: () => worker.terminate() };
}
