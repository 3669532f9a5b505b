import { sqliteFault, type Connection } from "./sqlite.ts";

/** How long it waits for other programs at the database: what they read takes milliseconds, or minutes. */
const OTHERS_WAIT_MS = 200;

/**
 * `empty`: the database's file alone has all that was committed. `kept`: the log beside it is still needed, for
 * another program is at the database, or there is no room. `failed`: the disk failed, and the connection may not even
 * be closed. Nothing is lost by either: whoever opens the database next reads the log too.
 */
export type EmptiedLog = "empty" | "kept" | "failed";

/** Takes all that was committed over from the log into the database, and cuts the log to nothing. Never throws. */
export function emptyLog({ sqlite }: Connection): EmptiedLog {
  try {
    sqlite.run(`PRAGMA busy_timeout = ${OTHERS_WAIT_MS}`);
    const row = sqlite.query<{ busy: bigint }, []>("PRAGMA wal_checkpoint(TRUNCATE)").get();
    return row?.busy === 0n ? "empty" : "kept";
  } catch (error) {
    const fault = sqliteFault(error);
    return fault === "full" || fault === "busy" ? "kept" : "failed";
  }
}
