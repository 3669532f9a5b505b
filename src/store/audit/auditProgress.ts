import type { AuditPart, AuditProgress } from "../../contract/operator/auditResult.ts";

export type OnAuditProgress = (progress: AuditProgress) => void;

/** Takes the steps of an audit, and reports how far it is. */
export interface AuditSteps {
  /** A part begins, which reads this many rows. */
  begin(what: AuditPart, rows: number): void;
  /** So many rows of this part are read. */
  reached(rows: number): void;
}

/** A report costs a message between threads. */
const REPORT_EVERY_MS = 100;

/** `total`: the rows of all parts. */
export function auditSteps(total: number, onProgress: OnAuditProgress): AuditSteps {
  let before = 0;
  let part: { readonly what: AuditPart; readonly rows: number } = { what: "file", rows: 0 };
  let reportedAtMs = -Infinity;
  return {
    begin(what, rows) {
      before += part.rows;
      part = { what, rows };
      onProgress({ done: Math.min(before, total), total, what });
      reportedAtMs = performance.now();
    },
    reached(rows) {
      const nowMs = performance.now();
      if (nowMs - reportedAtMs < REPORT_EVERY_MS) return;
      reportedAtMs = nowMs;
      const done = Math.min(before + Math.min(rows, part.rows), total);
      onProgress({ done, total, what: part.what });
    },
  };
}

export const noSteps: AuditSteps = { begin() {}, reached() {} };

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
