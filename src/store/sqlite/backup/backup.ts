import { linkSync, lstatSync, realpathSync, renameSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type CopyWatch, syncPath, withCopy } from "./copying.ts";
import { STORE_SUFFIXES } from "../databaseFile.ts";
import { connect, type Durability, toStoreError, withStoreErrors } from "../sqlite.ts";
import { StoreError } from "../../storeError.ts";
import { noticeTable } from "../../tables/notices.ts";
import { readSchemaVersion } from "../schema/migrations.ts";

export interface Backup {
  bytes: number;
  accounts: number;
  requests: number;
}

/**
 * Writes a verified copy of the database at one moment to `file`, an absolute path that must not exist. A gateway may be
 * running. The file appears when the copy is verified and on the disk. After a failure, or when `stopped` resolves, no
 * file remains. Rejects with StoreError.
 */
export async function backUp(options: {
  database: string;
  file: string;
  stopped: Promise<void>;
  watch?: CopyWatch;
}): Promise<Backup> {
  const { database, file } = options;
  withStoreErrors(`cannot write ${file}`, () => refuseTarget(file, database));
  const order = { kind: "snapshot", from: database } as const;
  return await withCopy(file, order, options, (copy, { accounts, requests }) => {
    const bytes = statSync(copy).size;
    publishCopy(copy, file);
    return { bytes, accounts, requests };
  });
}

function refuseTarget(file: string, database: string): void {
  const folder = dirname(file);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new StoreError(`there is no folder ${folder}: make it first, or name another file`);
  const base = realpathSync(database);
  const target = join(realpathSync(folder), basename(file));
  if (STORE_SUFFIXES.some((suffix) => target === base + suffix || file === database + suffix))
    throw new StoreError(`${file} belongs to the database itself: name another file`);
  if (exists(file)) throw existsError(file);
}

/** By a link: unlike a rename it does not overwrite a file. */
function publishCopy(partial: string, file: string): void {
  try {
    linkSync(partial, file);
  } catch {
    if (exists(file)) throw existsError(file);
    // Some file systems, such as FAT, have no links.
    withStoreErrors(`cannot write ${file}`, () => renameSync(partial, file));
  }
  syncPath(dirname(file));
}

/** Also true for a dangling link. */
function exists(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false }) !== undefined;
}

function existsError(file: string): StoreError {
  return new StoreError(`${file} exists already and was not changed: use another file name`);
}

/**
 * Records whether the last backup of a SQLite file found problems, for the gateway that tells a person. A file with the
 * schema of another version stays as it is. Rejects with StoreError if the file cannot be written.
 */
export async function recordBackup(
  database: { readonly path: string; readonly durability: Durability },
  hasProblems: boolean,
  at: number,
): Promise<void> {
  try {
    const connection = connect(database.path, database.durability);
    try {
      const { applied, known } = readSchemaVersion(connection.sqlite);
      if (applied === known)
        await noticeTable(connection.queries).audited("backup", hasProblems, at);
    } finally {
      connection.sqlite.close();
    }
  } catch (error) {
    throw toStoreError(database.path, error);
  }
}
