import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import {
  FREE_BYTES_MIN,
  freeDiskBytes,
  storeFiles,
  WAL_BYTES_MAX,
  walSizeBytes,
} from "../../store/open.ts";
import { clockDoubt } from "../../store/store.ts";
import { fileErrorReason } from "../../lib/systemError.ts";
import { DAY_MS, isoTime } from "../../lib/clock.ts";
import { failed, passed, type Verdict } from "./verdict.ts";
import { bytesText, shellWord } from "../../lib/terminal.ts";

/** The clock of a machine on which it was never set shows an earlier time. */
const EARLIEST_MS = Date.UTC(2026, 0, 1);

/** An open request uses two: its own connection and its provider's. */
const OPEN_FILES_MIN = 4096;
const OPEN_FILES_RECOMMENDED = 65_536;
const limitAdvice = `set LimitNOFILE=${OPEN_FILES_RECOMMENDED} in the systemd unit, or \`ulimit -n ${OPEN_FILES_RECOMMENDED}\` before \`tollgate serve\``;

/** The time of the last entry of the database. `none`: it is empty. `unknown`: it cannot be read. */
export type LastEntry = number | "none" | "unknown";

/**
 * Checks that the clock can be right. `nowMs` must be read after the database. `problem`: how it differs from the clock of the
 * database's server.
 */
export function judgeClock(nowMs: number, lastEntry: LastEntry, problem?: string): Verdict {
  const now = `the clock says ${isoTime(nowMs)}`;
  const advice = "correct it, and use a time service (timedatectl set-ntp true)";
  if (nowMs < EARLIEST_MS) return failed(`${now}, which is impossible: ${advice}`);
  if (problem !== undefined) return failed(`${now}, and ${problem}: ${advice} on both`);
  if (lastEntry === "unknown") {
    return failed(`${now}, not compared with the database: it cannot be read, see database`);
  }
  if (lastEntry === "none") return passed(`${now}; the database has no entry yet to compare with`);
  const last = isoTime(lastEntry);
  const doubt = clockDoubt(nowMs, lastEntry);
  if (doubt === "behind") {
    return failed(`${now}, but the last entry of the database is from ${last}: ${advice}`);
  }
  if (doubt === "ahead") {
    const days = Math.floor((nowMs - lastEntry) / DAY_MS);
    return failed(
      `${now}, ${days} days after the last entry of the database (${last}): if nobody used the gateway for so long, all is well; otherwise ${advice}`,
    );
  }
  return passed(`${now}, not before the last entry of the database (${last})`);
}

/** Space on the disk of the database. */
export interface DiskSpace {
  readonly database: string;
  readonly freeBytes: number;
  readonly walBytes: number;
}

/** Checks the free space in the folder of the database, which need not exist yet. */
export function examineDisk(databasePath: string): Verdict {
  const { database } = storeFiles(databasePath);
  const folder = dirname(database);
  try {
    const freeBytes = freeDiskBytes(databasePath);
    const walBytes = walSizeBytes(databasePath);
    return judgeDisk({ database, freeBytes, walBytes });
  } catch (error) {
    return failed(
      `${folder} cannot be read (${fileErrorReason(error)}): create the folder, or use another file as the path of [database]`,
    );
  }
}

export function judgeDisk({ database, freeBytes, walBytes }: DiskSpace): Verdict {
  const folder = dirname(database);
  const neededBytes = FREE_BYTES_MIN + walBytes;
  const found = `${bytesText(freeBytes)} free in ${folder} (write-ahead log: ${bytesText(walBytes)})`;
  if (walBytes > WAL_BYTES_MAX)
    return failed(
      `${found}: another program keeps a read transaction open, so SQLite cannot empty the write-ahead log: find the program (\`fuser ${shellWord(database)}\`) and end it`,
    );
  return freeBytes >= neededBytes
    ? passed(found)
    : failed(
        `${found}, at least ${bytesText(neededBytes)} are needed: on a full disk the gateway rejects every request; free disk space`,
      );
}

/** Checks how many files this process may open. The runtime raises the soft limit to the hard one, as for `serve`. */
export function examineLimits(): Verdict {
  const path = "/proc/self/limits";
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync(path, "utf8")) ?? [];
    return soft === undefined
      ? failed(`${path} does not show the limit of open files: ${limitAdvice}`)
      : judgeLimits(Number(soft));
  } catch (error) {
    return failed(`${path} cannot be read (${fileErrorReason(error)}): ${limitAdvice}`);
  }
}

function judgeLimits(openFiles: number): Verdict {
  const found = `${openFiles} open files allowed for this command`;
  if (openFiles < OPEN_FILES_MIN) {
    return failed(
      `${found}, and an open request uses two: at least ${OPEN_FILES_MIN} are required; ${limitAdvice}`,
    );
  }
  return passed(openFiles < OPEN_FILES_RECOMMENDED ? `${found}; better: ${limitAdvice}` : found);
}
