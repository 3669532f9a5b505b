import { statSync } from "node:fs";
import { sqliteFault, type Connection } from "./sqlite.ts";
import { storeFiles } from "./databaseFile.ts";

/** How long it waits for other programs at the database: what they read takes milliseconds, or minutes. */
const OTHERS_WAIT_MS = 200;

/**
 * `empty`: the database's file alone has all that was committed. `kept`: the log beside it is still needed, for
 * another program is at the database, or there is no room. `failed`: the disk failed, and the connection may not even
 * be closed. Nothing is lost by either: whoever opens the database next reads the log too.
 */
export type CheckpointResult = "empty" | "kept" | "failed";

/** Takes all that was committed over from the log into the database, and cuts the log to nothing. Never throws. */
export function checkpointWal({ sqlite }: Connection): CheckpointResult {
  try {
    sqlite.run(`PRAGMA busy_timeout = ${OTHERS_WAIT_MS}`);
    const row = sqlite.query<{ busy: bigint }, []>("PRAGMA wal_checkpoint(TRUNCATE)").get();
    return row?.busy === 0n ? "empty" : "kept";
  } catch (error) {
    const fault = sqliteFault(error);
    return fault === "full" || fault === "busy" ? "kept" : "failed";
  }
}

/** What is left of the log behind each checkpoint is some megabytes. Far more means that somebody reads on and on, and keeps it. */
export const WAL_BYTES_MAX = 256 * 1024 * 1024;

/** How large the write-ahead log of the store at `path` is now; 0 where there is none, or it cannot be looked at. */
export function walSizeBytes(path: string): number {
  try {
    return statSync(storeFiles(path).writeAheadLog, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    return 0;
  }
}

/** Asked now and then, it tells once of a log that has grown beyond the bound, and again after it was within. */
export function createWalSizeWarning(
  bytes: () => number,
  tell: (bytes: number) => void,
): () => void {
  let isBeyond = false;
  return () => {
    const now = bytes();
    if (now > WAL_BYTES_MAX && !isBeyond) tell(now);
    isBeyond = now > WAL_BYTES_MAX;
  };
}
