import { statSync } from "node:fs";
import { storeFiles } from "./databaseFile.ts";
import { setBusyTimeout, sqliteFault, type SqliteConnection } from "./sqlite.ts";

/** How long a checkpoint waits for other programs that read the database. */
const READERS_WAIT_MS = 200;

/**
 * `empty`: the database file alone has all commits. `kept`: the WAL is still needed, because another program uses the
 * database or the disk is full. `failed`: the disk failed, and the connection must not be closed. No commit is lost:
 * the next process that opens the database reads the WAL too.
 */
export type CheckpointResult = "empty" | "kept" | "failed";

/** Moves all commits from the WAL into the database and truncates the WAL. Never throws. */
export function checkpointWal({ sqlite }: SqliteConnection): CheckpointResult {
  try {
    setBusyTimeout(sqlite, READERS_WAIT_MS);
    const row = sqlite.query<{ busy: bigint }, []>("PRAGMA wal_checkpoint(TRUNCATE)").get();
    return row?.busy === 0n ? "empty" : "kept";
  } catch (error) {
    const fault = sqliteFault(error);
    return fault === "full" || fault === "busy" ? "kept" : "failed";
  }
}

/** A checkpoint leaves some megabytes. Far more means that another program reads all the time. */
export const WAL_BYTES_MAX = 256 * 1024 * 1024;

/** The size of the WAL of the database at `path`; 0 if it is absent or cannot be seen. */
export function walSizeBytes(path: string): number {
  try {
    return statSync(storeFiles(path).writeAheadLog, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    return 0;
  }
}

/** Returns a check that calls `warn` each time the WAL grows over the limit, and not again before it is below. */
export function createWalSizeWarning(
  readBytes: () => number,
  warn: (bytes: number) => void,
): () => void {
  let isOver = false;
  return () => {
    const bytes = readBytes();
    if (bytes > WAL_BYTES_MAX && !isOver) warn(bytes);
    isOver = bytes > WAL_BYTES_MAX;
  };
}
