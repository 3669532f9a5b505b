import { and, eq, gt, inArray, lte, or } from "drizzle-orm";
import type { Connection } from "../connection.ts";
import { notices } from "../schema/schema.ts";
import type { Steps } from "../steps.ts";

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

export interface NoticeTable {
  /** The conditions of these types that hold. */
  open(types: readonly string[]): Steps<OpenNotice[]>;
  /**
   * Changes one record. Returns true for a `claim` that the caller has got: the condition holds, nobody was told of it,
   * and the last notice of the cause is an hour old.
   */
  change(change: NoticeChange): Steps<boolean>;
  /**
   * Records whether the last audit found problems. A backup audits the money only, so it does not end what an audit has
   * found. Writes nothing if neither this one nor the one before found any.
   */
  audited(by: AuditedBy, hasProblems: boolean, at: number): Steps<void>;
}

/** The condition that the last audit found problems. Its subject is what audited. */
export const AUDIT_FAILED = "audit_failed";
export type AuditedBy = "audit" | "backup";

export function noticeTable(connection: Connection): NoticeTable {
  const { db } = connection;
  const columns = {
    type: notices.type,
    subject: notices.subject,
    told: notices.told,
    claimedAt: notices.claimedAt,
  };
  const hold = ({ type, subject }: NoticeCause, isAgain: boolean): Steps<void> =>
    connection.run(
      db
        .insert(notices)
        .values({ type, subject, open: true, told: false, claimedAt: 0 })
        .onConflictDoUpdate({
          target: [notices.type, notices.subject],
          set: { open: true, told: false },
          ...(isAgain ? {} : { setWhere: eq(notices.open, false) }),
        }),
    );
  const open = (types: readonly string[]): Steps<OpenNotice[]> =>
    connection.all(
      db
        .select(columns)
        .from(notices)
        .where(and(eq(notices.open, true), inArray(notices.type, [...types]))),
    );
  const table: NoticeTable = {
    open,
    *audited(by, hasProblems, at) {
      const cause = { type: AUDIT_FAILED, at };
      if (hasProblems) return void (yield* table.change({ ...cause, subject: by, step: "again" }));
      for (const { subject } of yield* open([AUDIT_FAILED]))
        if (by === "audit" || subject === by)
          yield* table.change({ ...cause, subject, step: "end" });
    },
    *change({ step, at, ...cause }) {
      const { type, subject } = cause;
      const isCause = and(eq(notices.type, type), eq(notices.subject, subject));
      const update = db.update(notices);
      switch (step) {
        case "hold":
        case "again":
          yield* hold(cause, step === "again");
          return false;
        case "claim": {
          const isUntold = and(eq(notices.open, true), eq(notices.told, false));
          // A time in the future was written while the clock was wrong.
          const isOld = or(
            lte(notices.claimedAt, at - NOTICE_EVERY_MS),
            gt(notices.claimedAt, at + NOTICE_EVERY_MS),
          );
          const claimed = yield* connection.first(
            update
              .set({ claimedAt: at })
              .where(and(isCause, isUntold, isOld))
              .returning({ type: notices.type }),
          );
          return claimed !== undefined;
        }
        case "told": {
          const isClaimed = and(eq(notices.open, true), eq(notices.claimedAt, at));
          yield* connection.run(update.set({ told: true }).where(and(isCause, isClaimed)));
          return false;
        }
        case "end":
          yield* connection.run(update.set({ open: false, told: false }).where(isCause));
          yield* connection.run(
            db
              .delete(notices)
              .where(and(eq(notices.open, false), lte(notices.claimedAt, at - NOTICE_EVERY_MS))),
          );
          return false;
      }
    },
  };
  return table;
}
