import { closeSync, fsyncSync, openSync, rmSync, lstatSync, readdirSync, readSync } from "node:fs";
import { dirname, join } from "node:path";
import { systemRandom } from "../../lib/random.ts";
import type { Actor } from "../schema/schema.ts";
import { OWNER_ONLY, SIDE_SUFFIXES } from "../databaseFile.ts";
import { withStoreErrors, StoreError } from "../sqlite.ts";
import { migrationTrialPath, type VerifiedCopy } from "./verifiedCopy.ts";
import { startWorker } from "../workers.ts";
import { systemClock } from "../../lib/clock.ts";

/** What the Worker is told: `snapshot` takes a store that is in use, `copyBackup` a backup. */
export type CopyOrder =
  | { kind: "snapshot"; from: string; to: string }
  | { kind: "copyBackup"; from: string; to: string; actor: Actor };

export type CopyReply =
  | { ok: true; copy: VerifiedCopy }
  | { ok: false; message: string; isExplained: boolean };

/** The names that come of it are known again in `abandonedCopies.ts`. */
const NAME_BYTES = 6;

/** A name beside `file` that nothing has yet. */
export function partialName(file: string): string {
  return `${file}.${Buffer.from(systemRandom.bytes(NAME_BYTES)).toString("hex")}.partial`;
}

/**
 * Makes the file `order.to`, from its first byte its owner's alone, and a verified copy in it that is on the
 * disk when this resolves. When it rejects, also because `stopped` resolved, it is gone. What killed copies left in
 * that folder is removed first. Rejects with StoreError.
 */
export async function makeCopy(order: CopyOrder, stopped: Promise<void>): Promise<VerifiedCopy> {
  removeAbandonedCopies(dirname(order.to));
  withStoreErrors(`cannot write into ${dirname(order.to)}`, () =>
    closeSync(openSync(order.to, "wx", OWNER_ONLY)),
  );
  try {
    const copy = await runWorker(order, stopped);
    syncPath(order.to);
    return copy;
  } catch (error) {
    discardCopy(order.to);
    throw error;
  }
}

function removeAbandonedCopies(folder: string): void {
  for (const copy of abandonedCopies(folder)) {
    try {
      discardCopy(copy);
    } catch {
      // It stays, and is no reason to make no copy.
    }
  }
}

/** Removes a copy, and whatever lies beside it. */
export function discardCopy(copy: string): void {
  for (const path of [copy, migrationTrialPath(copy)])
    for (const suffix of ["", ...SIDE_SUFFIXES]) rmSync(path + suffix, { force: true });
}

/** Puts what was written to a file, or which names a folder holds, on the disk. */
export function syncPath(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

async function runWorker(order: CopyOrder, stopped: Promise<void>): Promise<VerifiedCopy> {
  const worker = startWorker("backup/copyWorker");
  const { promise, resolve, reject } = Promise.withResolvers<CopyReply>();
  worker.onmessage = ({ data }: MessageEvent<CopyReply>) => resolve(data);
  worker.onerror = ({ message }) => reject(new Error(message));
  worker.postMessage(order);
  const stop = stopped.then(() => {
    throw new StoreError("stopped: nothing was changed");
  });
  try {
    const reply = await Promise.race([promise, stop]);
    if (reply.ok) return reply.copy;
    throw reply.isExplained ? new StoreError(reply.message) : new Error(reply.message);
  } finally {
    worker.terminate();
  }
}

const LEFT_NAME = /\.[0-9a-f]{12}\.partial$/;
/** The largest store is copied and verified within minutes, and was just written to until then. */
const LEFT_AFTER_MS = 12 * 3_600_000;
/** https://www.sqlite.org/fileformat2.html#magic_header_string */
const HEADER = "SQLite format 3\0";
/** It may be written last: until then there are zeros. */
const HEADERS = [HEADER, "\0".repeat(HEADER.length)];

/**
 * The copies of a store in a folder that no process can be at any more: one that was killed cannot remove what it had
 * begun. What is not surely such a file is none of them. Never throws.
 */
function abandonedCopies(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => LEFT_NAME.test(name))
      .map((name) => join(folder, name))
      .filter(isLeft);
  } catch {
    // Whoever cannot read the folder, or what lies there, learns that from the copy itself.
    return [];
  }
}

function isLeft(path: string): boolean {
  const status = lstatSync(path, { throwIfNoEntry: false });
  return (
    status?.isFile() === true &&
    status.uid === process.getuid?.() &&
    (status.mode & 0o777) === OWNER_ONLY &&
    systemClock.epochMs() - status.mtimeMs > LEFT_AFTER_MS &&
    (status.size === 0 || HEADERS.includes(firstBytes(path)))
  );
}

function firstBytes(path: string): string {
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(HEADER.length);
    return bytes.toString("latin1", 0, readSync(file, bytes));
  } finally {
    closeSync(file);
  }
}
