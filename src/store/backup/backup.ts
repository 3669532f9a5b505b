import { linkSync, lstatSync, realpathSync, renameSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { discardCopy, makeCopy, partialName, syncPath } from "./copying.ts";
import { STORE_SUFFIXES } from "../databaseFile.ts";
import { withStoreErrors, StoreError } from "../sqlite.ts";

/** What was written. */
export interface Backup {
  bytes: number;
  accounts: number;
  requests: number;
}

/**
 * Writes a verified copy of the database, as it is at one moment, to `file`, an absolute path at which nothing may
 * be. A gateway may go on writing meanwhile. The name appears once the copy is whole, verified and on the
 * disk; before that, and when `stopped` resolves, nothing stays behind. Rejects with StoreError.
 */
export async function backUp(options: {
  database: string;
  file: string;
  stopped: Promise<void>;
}): Promise<Backup> {
  const { database, file, stopped } = options;
  withStoreErrors(`cannot write ${file}`, () => refusePlace(file, database));
  const partial = partialName(file);
  const { accounts, requests } = await makeCopy(
    { kind: "snapshot", from: database, to: partial },
    stopped,
  );
  try {
    const bytes = statSync(partial).size;
    giveName(partial, file);
    return { bytes, accounts, requests };
  } finally {
    discardCopy(partial);
  }
}

function refusePlace(file: string, database: string): void {
  const folder = dirname(file);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new StoreError(`there is no folder ${folder}: make it first, or name another file`);
  const base = realpathSync(database);
  const place = join(realpathSync(folder), basename(file));
  if (STORE_SUFFIXES.some((suffix) => place === base + suffix || file === database + suffix))
    throw new StoreError(`${file} belongs to the database itself: name another file`);
  if (isTaken(file)) throw taken(file);
}

/** A name that is there by now is not overwritten: a link, unlike a renaming, refuses. */
function giveName(partial: string, file: string): void {
  try {
    linkSync(partial, file);
  } catch {
    if (isTaken(file)) throw taken(file);
    // Some file systems, on memory sticks for one, know no links.
    withStoreErrors(`cannot write ${file}`, () => renameSync(partial, file));
  }
  syncPath(dirname(file));
}

/** Also by a link that leads nowhere. */
function isTaken(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false }) !== undefined;
}

function taken(file: string): StoreError {
  return new StoreError(`${file} exists already and was not changed: use another file name`);
}
