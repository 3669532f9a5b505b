import { closeSync, fsyncSync, openSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { leftCopies } from "./leftCopies.ts";
import { systemRandom } from "../lib/random.ts";
import type { Actor } from "./actor.ts";
import { OWNER_ONLY, SIDE_SUFFIXES } from "./databaseFile.ts";
import { orStoreError } from "./orStoreError.ts";
import { StoreError } from "./sqlite.ts";
import { trialOf, type VerifiedCopy } from "./verifiedCopy.ts";
import { startWorker } from "./workers.ts";

/** What the Worker is told: `snapshot` takes a store that is in use, `readBack` a backup. */
export type CopyOrder =
  | { kind: "snapshot"; from: string; to: string }
  | { kind: "readBack"; from: string; to: string; actor: Actor };

export type CopyReply =
  | { ok: true; copy: VerifiedCopy }
  | { ok: false; message: string; isExplained: boolean };

/** The names that come of it are known again in `leftCopies.ts`. */
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
  clearLeftCopies(dirname(order.to));
  orStoreError(`cannot write into ${dirname(order.to)}`, () =>
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

function clearLeftCopies(folder: string): void {
  for (const copy of leftCopies(folder)) {
    try {
      discardCopy(copy);
    } catch {
      // It stays, and is no reason to make no copy.
    }
  }
}

/** Removes a copy, and whatever lies beside it. */
export function discardCopy(copy: string): void {
  for (const path of [copy, trialOf(copy)])
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
  const worker = startWorker("copyWorker");
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
