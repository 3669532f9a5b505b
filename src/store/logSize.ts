import { statSync } from "node:fs";
import { storeFiles } from "./databaseFile.ts";

/** What is left of the log behind each checkpoint is some megabytes. Far more means that somebody reads on and on, and keeps it. */
export const LOG_BYTES_MAX = 256 * 1024 * 1024;

/** How large the write-ahead log of the store at `path` is now; 0 where there is none, or it cannot be looked at. */
export function logSizeBytes(path: string): number {
  try {
    return statSync(storeFiles(path).writeAheadLog, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    return 0;
  }
}

/** Asked now and then, it tells once of a log that has grown beyond the bound, and again after it was within. */
export function createLogAlarm(bytes: () => number, tell: (bytes: number) => void): () => void {
  let isBeyond = false;
  return () => {
    const now = bytes();
    if (now > LOG_BYTES_MAX && !isBeyond) tell(now);
    isBeyond = now > LOG_BYTES_MAX;
  };
}
