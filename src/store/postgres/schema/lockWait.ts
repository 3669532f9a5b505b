import type { SQL } from "bun";
import { StoppedError } from "../../storeError.ts";
import { isConflict, sqlState } from "../writer/failures.ts";

/** Other sessions have locks that a migration needs. It is tried again. */
export interface BlockedUpgrade {
  /** Each session with its pid, its application, its user and the time since when: one line. */
  readonly blockers: string;
  readonly waitedMs: number;
}

export interface LockWait {
  /** Told at the first failure, when other sessions are in the way, and once a minute. */
  readonly onBlocked?: ((blocked: BlockedUpgrade) => void) | undefined;
  /** Ends the wait between two tries. */
  readonly stopped?: Promise<void> | undefined;
}

/** How long a statement waits for a lock. Everybody else who needs the table waits behind this statement. */
const LOCK_TIMEOUT_MS = 1000;
/**
 * In a transaction: the limits of its waits. A server that finds an autovacuum in the way cancels it after `deadlock_timeout`,
 * which is a second too, so the wait is a little longer. The user may have limits that are too short for a migration.
 */
export const WAIT_BRIEFLY = `SELECT set_config(name, CASE name
    WHEN 'lock_timeout' THEN (SELECT CAST(greatest(${LOCK_TIMEOUT_MS}, least(${2 * LOCK_TIMEOUT_MS}, CAST(setting AS bigint) + 200)) AS text)
      FROM pg_settings WHERE name = 'deadlock_timeout')
    ELSE '0' END, true)
  FROM pg_settings WHERE name IN ('lock_timeout', 'statement_timeout', 'transaction_timeout')`;

/** The pause between two tries. Those who waited behind a try go on in this time. */
const PAUSE_MS_MIN = 500;
const PAUSE_MS_MAX = 5000;
const LOOK_EVERY_MS = 300;
const TELL_EVERY_MS = 60_000;

/** A session in words, from a row of pg_stat_activity. A user without rights does not see since when. */
const SESSION = `concat('pid ', pid, ' (', coalesce(nullif(application_name, ''), backend_type, 'no application name'),
  ', user ' || usename,
  ', since ' || to_char(coalesce(xact_start, backend_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ')')`;

/** A prepared transaction has no pid. */
const BLOCKERS = `SELECT string_agg(blocker, ', ' ORDER BY blocker) AS blockers FROM (
  SELECT DISTINCT CASE WHEN pid = 0 THEN 'a prepared transaction (pg_prepared_xacts)' ELSE ${SESSION} END AS blocker
  FROM unnest(pg_blocking_pids($1::int)) AS blocking (pid) LEFT JOIN pg_stat_activity USING (pid)
) AS found`;

/**
 * The name of an account (`$1`), and the sessions with a transaction of a second or more that has locked rows of tables which
 * the end of a request changes: one of them has rows of the account.
 */
export const LOCKERS = `SELECT name, (
  SELECT string_agg(${SESSION}, ', ' ORDER BY pid) FROM pg_stat_activity AS session
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < now() - interval '1 second'
    AND EXISTS (SELECT 1 FROM pg_locks WHERE pg_locks.pid = session.pid AND mode IN ('RowShareLock', 'RowExclusiveLock')
      AND relation IN ('accounts'::regclass, 'keys'::regclass, 'requests'::regclass, 'reserves'::regclass, 'daily_totals'::regclass, 'daily_figures'::regclass, 'vouchers'::regclass))
) AS lockers FROM accounts WHERE id = $1::text::bigint`;

/**
 * Runs a transaction of the connection with this pid until it gets its locks, without an end. Between two tries it waits: not
 * at all if `isHarmless`, because nobody queues behind it. Another connection of `sql` looks for what blocks. Throws what
 * `run` throws for other reasons, and StoppedError.
 */
export async function untilUnlocked<Result>(
  { sql, pid, wait, isHarmless }: UnlockOptions,
  run: () => Promise<Result>,
): Promise<Result> {
  const beganMs = performance.now();
  let told: { readonly blockers: string; readonly atMs: number } | undefined;
  for (let tries = 0; ; tries += 1) {
    const watch = watchBlockers(sql, pid);
    try {
      return await run();
    } catch (error) {
      if (!isInTheWay(error)) throw error;
    } finally {
      watch.end();
    }
    const blockers = watch.blockers ?? "another session";
    const nowMs = performance.now();
    if (told?.blockers !== blockers || nowMs - told.atMs >= TELL_EVERY_MS) {
      told = { blockers, atMs: nowMs };
      wait.onBlocked?.({ blockers, waitedMs: nowMs - beganMs });
    }
    await pause(isHarmless ? 0 : Math.min(PAUSE_MS_MIN * 2 ** tries, PAUSE_MS_MAX), wait.stopped);
  }
}

interface UnlockOptions {
  readonly sql: SQL;
  readonly pid: number;
  readonly wait: LockWait;
  readonly isHarmless: boolean;
}

/** A lock was not free in time, or the transaction and another one waited for each other. */
function isInTheWay(error: unknown): boolean {
  return sqlState(error) === "55P03" || isConflict(error);
}

/** Looks again and again for the sessions that block the one with this pid. */
function watchBlockers(sql: SQL, pid: number) {
  let blockers: string | undefined;
  let isLooking = false;
  const timer = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    void look().finally(() => {
      isLooking = false;
    });
  }, LOOK_EVERY_MS);
  const look = async (): Promise<void> => {
    try {
      const [row] = await sql.unsafe<{ readonly blockers: string | null }[]>(BLOCKERS, [pid]);
      blockers = row?.blockers ?? blockers;
    } catch {
      // The migration itself reports a server that is gone.
    }
  };
  return {
    get blockers() {
      return blockers;
    },
    end: () => clearInterval(timer),
  };
}

/** With jitter. Throws StoppedError. */
async function pause(ms: number, stopped: Promise<void> | undefined): Promise<void> {
  const over = Bun.sleep(ms * (0.5 + Math.random() / 2)).then(() => "over");
  const isStopped = stopped?.then(() => "stopped");
  if ((await Promise.race(isStopped ? [isStopped, over] : [over])) === "stopped")
    throw new StoppedError(
      "stopped while the upgrade waited for a lock: its release is not applied",
    );
}
