import { closeSync, fsyncSync, lstatSync, openSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { systemRandom } from "../../../lib/random.ts";
import type { Actor } from "../../schema/schema.ts";
import { OWNER_ONLY, SIDE_SUFFIXES } from "../databaseFile.ts";
import { withStoreErrors } from "../sqlite.ts";
import { DamagedStoreError, StoreError } from "../../storeError.ts";
import { migrationTrialPath, type VerifiedCopy } from "./verifiedCopy.ts";
import { startWorker } from "../workers.ts";
import { systemClock } from "../../../lib/clock.ts";

/** The message to the Worker: to copy a database that is in use, or a backup. */
export type CopyOrder =
  | { kind: "snapshot"; from: string; to: string }
  | { kind: "copyBackup"; from: string; to: string; actor: Actor };

export type CopyReply =
  | { ok: true; copy: VerifiedCopy }
  | { ok: false; message: string; kind: keyof typeof ERRORS };

/** The errors of the Worker. A message between threads loses the class of an error. */
const ERRORS = { damaged: DamagedStoreError, store: StoreError, other: Error } as const;

const NAME_BYTES = 6;

/** A random name beside `file`. PARTIAL_NAME matches it. */
export function partialName(file: string): string {
  return `${file}.${Buffer.from(systemRandom.bytes(NAME_BYTES)).toString("hex")}.partial`;
}

/**
 * Writes a verified copy to the new file `order.to`, which only its owner can read. It is on the disk when this
 * resolves, and removed when this rejects or `stopped` resolves. Removes abandoned copies in that folder first. Rejects
 * with StoreError.
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
      // It must not prevent the new copy.
    }
  }
}

/** Removes a copy and the files beside it. */
export function discardCopy(copy: string): void {
  for (const path of [copy, migrationTrialPath(copy)])
    for (const suffix of ["", ...SIDE_SUFFIXES]) rmSync(path + suffix, { force: true });
}

/** Syncs a file, or the names in a folder, to the disk. */
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
    throw new ERRORS[reply.kind](reply.message);
  } finally {
    worker.terminate();
  }
}

const PARTIAL_NAME = /\.[0-9a-f]{12}\.partial$/;
/** Copying and verifying the largest database takes minutes, and writes to the file until the end. */
const ABANDONED_AFTER_MS = 12 * 3_600_000;

/** Partial copies of killed processes in a folder. Never throws. */
function abandonedCopies(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => PARTIAL_NAME.test(name))
      .map((name) => join(folder, name))
      .filter(isAbandoned);
  } catch {
    return [];
  }
}

function isAbandoned(path: string): boolean {
  const status = lstatSync(path, { throwIfNoEntry: false });
  return (
    status?.isFile() === true &&
    status.uid === process.getuid?.() &&
    (status.mode & 0o777) === OWNER_ONLY &&
    systemClock.epochMs() - status.mtimeMs > ABANDONED_AFTER_MS
  );
}
