import type { Connection, Values } from "../connection.ts";

/** A person is told of one cause once in this time at most. */
const NOTICE_EVERY_MS = 3_600_000;

/** What a notice is about. `subject` is an account, a key or a provider; empty for the whole gateway. */
export interface NoticeCause {
  readonly type: string;
  readonly subject: string;
}

/**
 * One change of the record of a cause.
 *
 * - `hold`: the condition holds.
 * - `again`: it has come about once more, so it is told once more.
 * - `claim`: the caller wants to send a notice.
 * - `told`: a recipient took the notice that was claimed at that time.
 * - `end`: the condition holds no longer.
 */
export type NoticeChange = NoticeCause & {
  readonly step: "hold" | "again" | "claim" | "told" | "end";
  readonly at: number;
};

/** A condition that holds. `claimedAt` is 0 before the first notice. */
export interface OpenNotice extends NoticeCause {
  readonly told: boolean;
  readonly claimedAt: number;
}

/** The condition that the last audit found problems. Its subject is what audited. */
export const AUDIT_FAILED = "audit_failed";
export type AuditedBy = "audit" | "backup";

export function noticeTable(connection: Connection) {
  const change = async (noticeChange: NoticeChange): Promise<boolean> => {
    let changed: readonly object[] = [];
    for (const { text, values } of noticeStatements(noticeChange))
      changed = await connection.change(text, values);
    return isClaimed(noticeChange, changed);
  };
  const open = async (types: readonly string[]): Promise<OpenNotice[]> => {
    const rows = await connection.rows<OpenNoticeRow>(
      `SELECT type, subject, told, claimed_at AS "claimedAt" FROM notices WHERE open = 1`,
    );
    return rows
      .filter(({ type }) => types.includes(type))
      .map(({ type, subject, told, claimedAt }) => {
        return { type, subject, told: told === 1n, claimedAt: Number(claimedAt) };
      });
  };
  return {
    open,
    change,
    async audited(by: AuditedBy, hasProblems: boolean, at: number): Promise<void> {
      const cause = { type: AUDIT_FAILED, at };
      if (hasProblems) return void (await change({ ...cause, subject: by, step: "again" }));
      for (const { subject } of await open([AUDIT_FAILED]))
        if (by === "audit" || subject === by) await change({ ...cause, subject, step: "end" });
    },
  };
}

interface OpenNoticeRow extends NoticeCause {
  readonly told: bigint;
  readonly claimedAt: bigint;
}

const HOLD = `INSERT INTO notices (type, subject, open, told, claimed_at) VALUES ($type, $subject, 1, 0, 0)
  ON CONFLICT (type, subject) DO UPDATE SET open = 1, told = 0`;
const OF_CAUSE = "WHERE type = $type AND subject = $subject";

/** A change in statements, which run in this order. */
export function noticeStatements({
  step,
  at,
  type,
  subject,
}: NoticeChange): readonly { readonly text: string; readonly values: Values }[] {
  const cause = { type, subject };
  const oldest = at - NOTICE_EVERY_MS;
  switch (step) {
    case "hold":
      return [{ text: `${HOLD} WHERE notices.open = 0`, values: cause }];
    case "again":
      return [{ text: HOLD, values: cause }];
    case "claim":
      return [
        {
          // A time in the future was written while the clock was wrong.
          text: `UPDATE notices SET claimed_at = $at ${OF_CAUSE} AND open = 1 AND told = 0
            AND (claimed_at <= $oldest OR claimed_at > $latest) RETURNING type`,
          values: { ...cause, at, oldest, latest: at + NOTICE_EVERY_MS },
        },
      ];
    case "told":
      return [
        {
          text: `UPDATE notices SET told = 1 ${OF_CAUSE} AND open = 1 AND claimed_at = $at`,
          values: { ...cause, at },
        },
      ];
    case "end":
      return [
        { text: `UPDATE notices SET open = 0, told = 0 ${OF_CAUSE}`, values: cause },
        {
          text: "DELETE FROM notices WHERE open = 0 AND claimed_at <= $oldest",
          values: { oldest },
        },
      ];
  }
}

/** Whether the caller has got the claim. `changed`: the rows that the last statement returns. */
export function isClaimed({ step }: NoticeChange, changed: readonly object[]): boolean {
  return step === "claim" && changed.length > 0;
}
