import { readlinkSync, realpathSync, statfsSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { pathStatus } from "../../lib/systemError.ts";

/** Advice for a path at which no database can be. */
export const NAME_ANOTHER = "name another file as the path of [database]";

/** The mode of a database and its copies: they contain every balance. */
export const OWNER_ONLY = 0o600;

/** Files beside a database that can hold committed data, in either journal mode. */
export const WAL_SUFFIXES = ["-wal", "-journal"] as const;
/** All files that SQLite puts beside a database. */
export const SIDE_SUFFIXES = [...WAL_SUFFIXES, "-shm"] as const;
const LOCK_SUFFIX = ".lock";
/** All files of a store. */
export const STORE_SUFFIXES = ["", ...SIDE_SUFFIXES, LOCK_SUFFIX] as const;

/** The paths of a store's files, which need not exist. */
export interface StoreFiles {
  readonly database: string;
  readonly writeAheadLog: string;
  readonly sharedMemory: string;
  readonly lock: string;
}

/** The limit of Linux: https://man7.org/linux/man-pages/man7/path_resolution.7.html */
const LINKS_MAX = 40;

/**
 * Follows the links at `path` to the database file, which need not exist. SQLite creates the file at the end of a
 * link, and puts its other files beside it. Returns a path that cannot be followed as far as it can be.
 */
export function databaseFile(path: string, linksMax = LINKS_MAX): string {
  try {
    return realpathSync(path);
  } catch {
    const folder = realFolder(dirname(path));
    const target = linksMax > 0 ? linkTarget(path) : undefined;
    if (target === undefined) return join(folder, basename(path));
    // Not by `join`: a `..` after a link goes up from the link's target.
    return databaseFile(isAbsolute(target) ? target : `${folder}/${target}`, linksMax - 1);
  }
}

export function storeFiles(path: string): StoreFiles {
  const database = databaseFile(path);
  return {
    database,
    writeAheadLog: `${database}-wal`,
    sharedMemory: `${database}-shm`,
    lock: database + LOCK_SUFFIX,
  };
}

/** The lock lies beside the file itself, so that all links to the file share it. */
export function lockPath(databasePath: string): string {
  return databaseFile(databasePath) + LOCK_SUFFIX;
}

/**
 * The path of a WAL whose database is missing or empty. SQLite deletes such a WAL, with all commits in it.
 * Undefined if there is none.
 */
export function findOrphanedWal(path: string): string | undefined {
  const { database, writeAheadLog } = storeFiles(path);
  // The WAL first: a process that creates a database writes the database before the WAL.
  if (fileBytes(writeAheadLog) === 0 || fileBytes(database) > 0) return undefined;
  return writeAheadLog;
}

/** The size of a file; 0 if there is none. */
function fileBytes(path: string): number {
  const found = pathStatus(path);
  return typeof found === "object" ? found.size : 0;
}

/** A problem text if the database is a file of 0 bytes. */
export function emptyFileProblem(path: string): string | undefined {
  const found = pathStatus(path);
  if (typeof found !== "object" || !found.isFile() || found.size > 0) return undefined;
  return `the database ${path} is empty, a file of 0 bytes: put the database back, or a backup with \`tollgate restore FILE\`; \`tollgate serve\` makes a new one in it`;
}

/**
 * A problem text if the database has a second name by a hard link. WAL, index and lock lie beside the name by which
 * the database is opened, so two processes that use different names lose each other's commits
 * (https://www.sqlite.org/howtocorrupt.html, 2.5).
 */
export function hardLinkProblem(path: string): string | undefined {
  const database = databaseFile(path);
  const found = pathStatus(database);
  if (typeof found !== "object" || !found.isFile() || found.nlink < 2) return undefined;
  return `the database ${database} has another name by a hard link (\`find / -xdev -samefile ${database}\` shows it), and a program that opens it by that name would lose charges: remove the other name, which an interrupted restore may have left, but keep a -wal that lies beside it, and copy a database only with \`tollgate backup\``;
}

/** A problem text if the folder of the database is missing; undefined also if that cannot be seen. */
export function missingFolderProblem(path: string): string | undefined {
  const folder = dirname(databaseFile(path));
  const found = pathStatus(folder);
  if (typeof found === "string" || found?.isDirectory()) return undefined;
  return `there is no folder ${folder} for the database: make it, or ${NAME_ANOTHER}`;
}

/** True for a folder, a pipe and the like. */
export function isNotRegularFile(path: string): boolean {
  const found = pathStatus(path);
  return typeof found === "object" && !found.isFile();
}

function realFolder(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

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
