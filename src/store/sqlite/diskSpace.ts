import { statfsSync } from "node:fs";
import { dirname } from "node:path";
import { storeFiles } from "./databaseFile.ts";

/** Free space that the gateway needs in addition to the size of the write-ahead log, which a checkpoint copies. */
export const FREE_BYTES_MIN = 250_000_000;

/**
 * The bytes that this user may still write to the disk of the database at `path`. The file need not exist. Throws an error of
 * the system if the folder cannot be read.
 */
export function freeDiskBytes(path: string): number {
  const { bavail, bsize } = statfsSync(dirname(storeFiles(path).database));
  return bavail * bsize;
}
