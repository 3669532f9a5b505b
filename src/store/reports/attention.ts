import type { Connection, TimeSpan } from "../connection.ts";
import { DAY_MS } from "../../lib/clock.ts";
import {
  chargedSince,
  daysLeft,
  type ExpiringKey,
  noticeCauses,
  paceSpan,
} from "../tables/noticeCauses.ts";
import { figuresIn, inOrder, joinSum, splitSum } from "../usage/sums.ts";
import { readRecentAttempts } from "./attempts.ts";

const HOUR_MS = 3_600_000;
const WEEK_MS = 7 * DAY_MS;
const ROWS_MAX = 50;
/** An account with money for less than this is near zero. */
const DAYS_LEFT_MAX = 7;
/** One report looks at this many of the newest requests. */
const LOOKED_AT_MAX = 150_000;

/** Amounts are nano-roubles. Times are milliseconds since 1970. */
export interface LowAccount {
  readonly account: string;
  readonly balance: bigint;
  readonly available: bigint;
  /** In the last seven days. */
  readonly charged: bigint;
  readonly daysLeft: number;
}

export interface OldHold {
  readonly id: string;
  readonly at: number;
  readonly account: string;
  readonly key: string;
  readonly model: string;
  readonly hold: bigint;
}

/** Requests since a time, and an amount. */
export interface CountedRequests {
  readonly since: number;
  readonly requests: number;
  readonly amount: bigint;
}

/** What an operator has to look at. Lists begin with the most urgent. */
export interface Attention {
  readonly lowAccounts: readonly LowAccount[];
  readonly expiringKeys: readonly ExpiringKey[];
  /** In the last hour. */
  readonly failingProviders: readonly {
    readonly provider: string;
    readonly attempts: number;
    readonly failed: number;
  }[];
  /** Open for more than an hour. */
  readonly oldHolds: readonly OldHold[];
  readonly estimated: CountedRequests;
  readonly writeOffs: CountedRequests;
}

export async function readAttention(
  connection: Connection,
  span: TimeSpan,
  nowMs: number,
): Promise<Attention> {
  return {
    lowAccounts: await readLowAccounts(connection, nowMs),
    expiringKeys: await noticeCauses(connection).expiringKeys(nowMs, WEEK_MS, ROWS_MAX),
    failingProviders: (await readRecentAttempts(connection, nowMs - HOUR_MS))
      .filter(({ failed }) => failed > 0)
      .toSorted(
        (a, b) => b.failed / b.attempts - a.failed / a.attempts || inOrder(a.provider, b.provider),
      ),
    oldHolds: await readOldHolds(connection, nowMs - HOUR_MS),
    ...(await readEstimatesAndWriteOffs(connection, span)),
  };
}

interface LowRow {
  name: string;
  balance: bigint;
  available: bigint;
}

async function readLowAccounts(connection: Connection, nowMs: number): Promise<LowAccount[]> {
  const pace = paceSpan(nowMs);
  const rows = await connection.rows<LowRow>(
    `SELECT name, balance, balance + overdraft - reserved AS available, charged, "chargedRest"
      FROM (${chargedSince()}) AS used JOIN accounts ON accounts.id = used.account WHERE disabled = 0`,
    { firstDay: pace.firstDay },
  );
  return rows
    .flatMap((row): LowAccount | [] => {
      const { charged } = figuresIn(row, ["charged"]);
      const lasts = daysLeft(row.available, charged, pace);
      const { name: account, balance, available } = row;
      return lasts !== undefined && lasts < DAYS_LEFT_MAX
        ? { account, balance, available, charged, daysLeft: lasts }
        : [];
    })
    .toSorted((a, b) => a.daysLeft - b.daysLeft || inOrder(a.account, b.account))
    .slice(0, ROWS_MAX);
}

async function readOldHolds(connection: Connection, before: number): Promise<OldHold[]> {
  const { conditions, at } = connection.paths.requestsById({ ofAccount: false, ofStatus: true });
  const rows = await connection.rows<
    Record<"id" | "account" | "key" | "model", string> & Record<"at" | "hold", bigint>
  >(
    `SELECT r.public_id AS id, r.at, a.name AS account, k.public_id AS key, r.model, r.hold
        FROM (SELECT * FROM requests WHERE ${conditions.join(" AND ")} AND ${at} < $before
          ORDER BY ${at}, id LIMIT ${ROWS_MAX}) AS r
        JOIN accounts a ON a.id = r.account_id JOIN keys k ON k.id = r.key_id ORDER BY r.at, r.id`,
    { before, status: "running" },
  );
  return rows.map((row) => Object.assign(row, { at: Number(row.at) }));
}

interface CountedRow {
  estimated: bigint;
  charge: bigint;
  chargeRest: bigint;
  writtenOff: bigint;
  writeOff: bigint;
  writeOffRest: bigint;
}

/**
 * Reads the newest requests only, because no index finds estimated answers or write-offs. Of a long span it does not read
 * all requests.
 */
async function readEstimatesAndWriteOffs(
  connection: Connection,
  { from }: TimeSpan,
): Promise<Pick<Attention, "estimated" | "writeOffs">> {
  const newest = "(SELECT max(id) FROM requests)";
  // The newest request that is not looked at.
  const [limit] = await connection.plainRows<[number]>(
    `SELECT at FROM requests WHERE id <= ${newest} - ${LOOKED_AT_MAX} ORDER BY id DESC LIMIT 1`,
  );
  const since = Math.max(from, limit?.[0] ?? from);
  const row = await connection.row<CountedRow>(
    `SELECT count(*) FILTER (WHERE estimated <> 0) AS estimated,
        ${splitSum("CASE WHEN estimated <> 0 THEN charge ELSE 0 END", "charge")},
        count(*) FILTER (WHERE write_off > 0) AS "writtenOff", ${splitSum("write_off", "writeOff")}
      FROM requests WHERE id > ${newest} - ${LOOKED_AT_MAX} AND at >= $since AND (estimated <> 0 OR write_off > 0)`,
    { since },
  );
  const amount = (roubles: bigint | null | undefined, rest: bigint | null | undefined): bigint =>
    joinSum(roubles ?? 0n, rest ?? 0n);
  return {
    estimated: {
      since,
      requests: Number(row?.estimated ?? 0),
      amount: amount(row?.charge, row?.chargeRest),
    },
    writeOffs: {
      since,
      requests: Number(row?.writtenOff ?? 0),
      amount: amount(row?.writeOff, row?.writeOffRest),
    },
  };
}
