import { lstatSync, readdirSync, readlinkSync, realpathSync, type Stats } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { pathStatus } from "../lib/systemError.ts";

/** What is left to do where a database cannot be at its place. */
export const NAME_ANOTHER = "name another file as the path of [database]";

/** Of a database and its copies: whoever reads one reads every balance. */
export const OWNER_ONLY = 0o600;

/** What SQLite puts beside a database in which not all of it may stand: its logs, in either mode. */
export const WAL_SUFFIXES = ["-wal", "-journal"] as const;
/** All that it puts there. */
export const SIDE_SUFFIXES = [...WAL_SUFFIXES, "-shm"] as const;
const LOCK_SUFFIX = ".lock";
/** Of every file of a store: the database, and what SQLite and a gateway put beside it. */
export const STORE_SUFFIXES = ["", ...SIDE_SUFFIXES, LOCK_SUFFIX] as const;

/** The files in which a store lies, whether they are there yet or not. */
export interface StoreFiles {
  readonly database: string;
  readonly writeAheadLog: string;
  readonly sharedMemory: string;
  readonly lock: string;
}

/** As many as Linux follows: https://man7.org/linux/man-pages/man7/path_resolution.7.html */
const LINKS_MAX = 40;

/**
 * The database itself, to which `path` leads by links, whether it is there yet or not. SQLite puts its own files beside
 * this one, and makes it where a link leads nowhere yet. A path that cannot be followed is returned as far as it can be.
 */
export function databaseFile(path: string, linksMax = LINKS_MAX): string {
  try {
    return realpathSync(path);
  } catch {
    const folder = realFolder(dirname(path));
    const target = linksMax > 0 ? linkTarget(path) : undefined;
    if (target === undefined) return join(folder, basename(path));
    // Not made shorter: a `..` behind a link goes up from where that leads.
    return databaseFile(isAbsolute(target) ? target : `${folder}/${target}`, linksMax - 1);
  }
}

/** SQLite puts its own files, and we the lock, beside the database to which a link at `path` leads. */
export function storeFiles(path: string): StoreFiles {
  const database = databaseFile(path);
  return {
    database,
    writeAheadLog: `${database}-wal`,
    sharedMemory: `${database}-shm`,
    lock: lockPath(path),
  };
}

/** Where the lock of a database lies: beside the file itself, so that it is one by whichever link it is reached. */
export function lockPath(databasePath: string): string {
  return databaseFile(databasePath) + LOCK_SUFFIX;
}

/**
 * The log that would be thrown away with all that was committed to it: SQLite does so where the database beside which it
 * lies is absent or has nothing in it. Undefined where there is no such log.
 */
export function findOrphanedWal(path: string): string | undefined {
  const { database, writeAheadLog } = storeFiles(path);
  // First the log: who makes a new database writes to that before there is a log.
  if (bytesOf(writeAheadLog) === 0 || bytesOf(database) > 0) return undefined;
  return writeAheadLog;
}

/** How much is in a file; 0 also where there is none. */
function bytesOf(path: string): number {
  const found = pathStatus(path);
  return typeof found === "object" ? found.size : 0;
}

/** What to do where the database's file has nothing in it; undefined where it has, or is not there. */
export function emptyFileProblem(path: string): string | undefined {
  const found = pathStatus(path);
  if (typeof found !== "object" || !found.isFile() || found.size > 0) return undefined;
  return `the database ${path} is empty, a file of 0 bytes: put the database back, or a backup with \`tollgate restore FILE\`; \`tollgate serve\` makes a new one in it`;
}

/**
 * What to do where the database has a second name by a hard link; undefined where it has not. SQLite puts log and index
 * beside the name by which it is opened, and we the lock: who opens it by the other one knows nothing of what is
 * in these, and what both committed is lost (https://www.sqlite.org/howtocorrupt.html, 2.5).
 */
export function hardLinkProblem(path: string): string | undefined {
  const database = databaseFile(path);
  const found = pathStatus(database);
  if (typeof found !== "object" || !found.isFile() || found.nlink < 2) return undefined;
  const beside = namesBeside(database, found);
  const known =
    beside.length > 0 ? beside.join(", ") : `find them with \`find / -samefile ${database}\``;
  return `the database ${database} has another name by a hard link (${known}), and a gateway or a program that opens it by that one would lose charges: remove the other name, which an interrupted restore may have left, but keep a -wal that lies beside it, and copy a database by \`tollgate backup\` only`;
}

/** The other names of a file in its own folder, as far as that can be read. */
function namesBeside(file: string, { dev, ino }: Stats): readonly string[] {
  const folder = dirname(file);
  const isSame = (path: string): boolean => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    return found?.dev === dev && found.ino === ino;
  };
  try {
    return readdirSync(folder)
      .map((name) => join(folder, name))
      .filter((path) => path !== file && isSame(path));
  } catch {
    return [];
  }
}

/** What to do where the database's folder is not there; undefined where it is, or cannot be looked at. */
export function missingFolderProblem(path: string): string | undefined {
  const folder = dirname(databaseFile(path));
  const found = pathStatus(folder);
  if (typeof found === "string" || found?.isDirectory()) return undefined;
  return `there is no folder ${folder} for the database: make it, or ${NAME_ANOTHER}`;
}

/** Whether something else than a file, such as a folder, lies where a database should. */
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
