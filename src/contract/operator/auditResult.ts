import { Type, type Static } from "@sinclair/typebox";

/** What `tollgate audit --json` prints. Notes are not problems. */
export type AuditResult = Static<typeof AuditResult>;
export const AuditResult = Type.Object({
  ok: Type.Boolean(),
  accounts: Type.Integer({ minimum: 0 }),
  requests: Type.Integer({ minimum: 0 }),
  problems: Type.Array(Type.String()),
  notes: Type.Array(Type.String()),
});

/** The file itself, the rules of each row, the history of each balance, the daily totals. */
export type AuditPart = "file" | "rules" | "histories" | "totals";

/** The data of a `progress` event of POST /api/audit. `done` and `total` count rows, each once for each check. */
export interface AuditProgress {
  readonly done: number;
  readonly total: number;
  /** What is checked now. */
  readonly what: AuditPart;
}

export function auditResult(report: Omit<AuditResult, "ok">): AuditResult {
  const { accounts, requests, problems, notes } = report;
  return { ok: problems.length === 0, accounts, requests, problems, notes };
}
