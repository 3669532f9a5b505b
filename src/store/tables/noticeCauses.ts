import type { Connection } from "../connection.ts";
import { figuresIn, sumsText } from "../usage/sums.ts";
import { DAY_MS } from "../../lib/clock.ts";

/** What makes an account low, unless the account has a threshold of its own. */
export interface LowLimits {
  /** The threshold in nano-roubles; 0: there is none. */
  readonly low: bigint;
  /** Days at the account's pace; 0: the pace does not count. */
  readonly days: number;
}

/** An account with less money than its threshold, or whose money does not last long. Amounts are nano-roubles. */
export interface LowAccount {
  readonly name: string;
  /** The balance and the overdraft. */
  readonly left: bigint;
  /** The threshold that it is below; undefined if only its pace makes it low. */
  readonly below: bigint | undefined;
  /** At its pace; undefined if it was not charged lately. */
  readonly daysLeft: number | undefined;
  readonly notifyUrl: string | null;
}

/** The next `limit` accounts after the row id `after`. */
export interface NextAccounts {
  readonly after: number;
  readonly limit: number;
}

/** `next`: the row id to go on after; undefined at the end. */
export interface LowAccounts {
  readonly low: readonly LowAccount[];
  readonly next: number | undefined;
}

/** A key that works until `expiresAt`. */
export interface ExpiringKey {
  readonly key: string;
  readonly account: string;
  readonly label: string | null;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly lastUsedAt: number | null;
  /** Whether a newer key of its rotation chain exists. */
  readonly isReplaced: boolean;
  readonly notifyUrl: string | null;
}

export function noticeCauses(connection: Connection) {
  return {
    async lowAccounts(
      { after, limit }: NextAccounts,
      limits: LowLimits,
      nowMs: number,
    ): Promise<LowAccounts> {
      const page = await connection.row<{ upTo: bigint | null; rows: bigint }>(
        `SELECT max(id) AS "upTo", count(*) AS rows
          FROM (SELECT id FROM accounts WHERE id > $after ORDER BY id LIMIT $limit) AS page`,
        { after, limit },
      );
      if (page === undefined || page.upTo === null) return { low: [], next: undefined };
      const pace = paceSpan(nowMs);
      const upTo = Number(page.upTo);
      const rows = await connection.rows<AccountOfPage>(
        `SELECT name, balance + overdraft AS "left", low, notify_url AS "notifyUrl", charged, "chargedRest"
          FROM accounts LEFT JOIN (${chargedSince("account_id > $after AND account_id <= $upTo")}) AS used
            ON used.account = accounts.id
          WHERE id > $after AND id <= $upTo AND disabled = 0 AND ledger_seq > 0 ORDER BY id`,
        { after, upTo, firstDay: pace.firstDay },
      );
      const low = rows.flatMap((row): LowAccount | [] => {
        const { name, left, notifyUrl } = row;
        const threshold = row.low ?? limits.low;
        const { charged } = figuresIn(row, ["charged"]);
        const lasts = daysLeft(left, charged, pace);
        const below = left < threshold ? threshold : undefined;
        const isShort = lasts !== undefined && lasts < limits.days;
        return below !== undefined || isShort
          ? { name, left, below, daysLeft: lasts, notifyUrl }
          : [];
      });
      return { low, next: Number(page.rows) === limit ? upTo : undefined };
    },
    async expiringKeys(nowMs: number, withinMs: number, limit: number): Promise<ExpiringKey[]> {
      const rows = await connection.rows<KeyOfList>(
        `SELECT k.public_id AS id, a.name AS account, k.label, k.created_at AS created, k.expires_at AS expires, k.last_used_at AS used,
            a.notify_url AS "notifyUrl",
            CASE WHEN EXISTS (SELECT 1 FROM keys n WHERE n.id > k.id AND n.account_id = k.account_id
              AND coalesce(n.first_key_id, n.id) = coalesce(k.first_key_id, k.id)) THEN 1 ELSE 0 END AS "isReplaced"
          FROM keys k JOIN accounts a ON a.id = k.account_id
          WHERE k.revoked_at IS NULL AND a.disabled = 0 AND k.expires_at > $after AND k.expires_at <= $until
          ORDER BY k.expires_at, k.id LIMIT $limit`,
        { after: nowMs, until: nowMs + withinMs, limit },
      );
      return rows.map(({ id, account, label, created, expires, used, isReplaced, notifyUrl }) => ({
        key: id,
        account,
        label,
        createdAt: Number(created),
        expiresAt: Number(expires),
        lastUsedAt: used === null ? null : Number(used),
        isReplaced: Number(isReplaced) === 1,
        notifyUrl,
      }));
    },
  };
}

interface AccountOfPage {
  name: string;
  left: bigint;
  low: bigint | null;
  notifyUrl: string | null;
}

interface KeyOfList {
  id: string;
  account: string;
  label: string | null;
  created: bigint;
  expires: bigint;
  used: bigint | null;
  isReplaced: bigint;
  notifyUrl: string | null;
}

/** The pace of an account is what it was charged in the last days. */
const PACE_DAYS = 7;

/** Today counts as a part of a day: the pace is that of the last 6 whole days and today until now. */
interface PaceSpan {
  /** In days since 1970. */
  readonly firstDay: number;
  readonly days: number;
}

export function paceSpan(nowMs: number): PaceSpan {
  const firstDay = Math.floor(nowMs / DAY_MS) - PACE_DAYS + 1;
  return { firstDay, days: (nowMs - firstDay * DAY_MS) / DAY_MS };
}

/**
 * A query for what accounts were charged from `$firstDay` on. `accounts`: a condition for `account_id`. The query names each
 * day, because the totals are in the order of day and account.
 */
export function chargedSince(accounts = "1 = 1"): string {
  const days = Array.from({ length: PACE_DAYS }, (_, day) => `$firstDay + ${day}`).join(", ");
  return sumsText({
    sources: [{ of: "totals", rows: `daily_totals WHERE day IN (${days}) AND ${accounts}` }],
    by: ["account"],
    figures: ["charged"],
  });
}

/** For how many days `left` lasts at this pace; undefined without charges. Both are nano-roubles. */
export function daysLeft(left: bigint, charged: bigint, { days }: PaceSpan): number | undefined {
  if (charged <= 0n) return undefined;
  return (Number(left > 0n ? left : 0n) / Number(charged)) * days;
}
