import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  lstatSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { systemRandom } from "../../../lib/random.ts";
import type { Actor } from "../../schema/schema.ts";
import { OWNER_ONLY, SIDE_SUFFIXES } from "../databaseFile.ts";
import { withStoreErrors } from "../sqlite.ts";
import { DamagedStoreError, NoRoomError, StoppedError, StoreError } from "../../storeError.ts";
import { migrationTrialPath, type VerifiedCopy } from "./verifiedCopy.ts";
import { startWorker } from "../workers.ts";
import { systemClock } from "../../../lib/clock.ts";

/** To copy a database that is in use, or a backup. */
type CopyOrder =
  | { kind: "snapshot"; from: string }
  | { kind: "copyBackup"; from: string; actor: Actor };

/** The message to the Worker. */
export type CopyStart = CopyOrder & { to: string };

/** What the Worker sends: how far its check is, and at the end one reply. */
export type CopyMessage = { kind: "checking"; done: number; total: number } | CopyReply;

export type CopyReply =
  | { kind: "copied"; copy: VerifiedCopy }
  | { kind: "failed"; message: string; reason: keyof typeof ERRORS };

/** The errors of the Worker. A message between threads loses the class of an error. */
const ERRORS = {
  noRoom: NoRoomError,
  damaged: DamagedStoreError,
  store: StoreError,
  fault: Error,
} as const;

/** How far a copy is: in bytes, then in requests. The check of a small or current database reports nothing. */
export interface CopyProgress {
  readonly step: "copying" | "checking";
  readonly done: number;
  readonly total: number;
}

/** Who is told of the progress. `bytes`: the size that the copy will have. */
export interface CopyWatch {
  readonly bytes: number;
  readonly onProgress: (progress: CopyProgress) => void;
}

const SIZE_POLL_MS = 1000;

const NAME_BYTES = 6;

/** A random name beside `file`. PARTIAL_NAME matches it. */
function partialName(file: string): string {
  return `${file}.${Buffer.from(systemRandom.bytes(NAME_BYTES)).toString("hex")}.partial`;
}

/**
 * Writes a verified copy beside `file`, which only its owner can read, and runs `publish` with its path when it is on the
 * disk. What `publish` leaves of it is removed, and so it is when this rejects or `stopped` resolves. Removes abandoned
 * copies in that folder first. Rejects with StoreError: StoppedError if it was stopped, NoRoomError for a full disk.
 */
export async function withCopy<Result>(
  file: string,
  order: CopyOrder,
  { stopped, watch }: { stopped: Promise<void>; watch?: CopyWatch | undefined },
  publish: (path: string, copy: VerifiedCopy) => Result,
): Promise<Result> {
  const path = partialName(file);
  const folder = dirname(path);
  removeCopies(abandonedCopies(folder));
  withStoreErrors(`cannot write into ${folder}`, () => closeSync(openSync(path, "wx", OWNER_ONLY)));
  try {
    const copy = await runWorker({ ...order, to: path }, stopped, watch);
    syncPath(path);
    return publish(path, copy);
  } finally {
    discardCopy(path);
  }
}

/** The name under which the database `file` stays before a change of it. */
export function keptName(file: string, change: "restore" | "upgrade", atMs: number): string {
  return `${file}.before-${change}-${new Date(atMs).toISOString().replace(/[-:]/g, "")}`;
}

/**
 * Gives `path` to the owner of the database `file`, or of its folder while there is none. If root makes a copy, the user of
 * the gateway must be able to read it.
 */
export function giveToOwner(path: string, file: string): void {
  const hasFile = existsSync(file);
  // Only root can change the owner.
  if (!hasFile && process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(hasFile ? file : dirname(file));
  if (statSync(path).uid === uid) return;
  withStoreErrors(`${file} belongs to the user with uid ${uid}, run this as that user`, () =>
    chownSync(path, uid, gid),
  );
}

/**
 * Removes the partial copies whose paths begin with `start`, however young they are. The caller knows that no process makes
 * one.
 */
export function removePartialCopies(start: string): void {
  removeCopies(partialCopies(dirname(start)).filter((path) => path.startsWith(start)));
}

function removeCopies(copies: readonly string[]): void {
  for (const copy of copies) {
    try {
      discardCopy(copy);
    } catch {
      // An old partial copy must not prevent the new one.
    }
  }
}

/** Removes a copy and the files beside it. */
function discardCopy(copy: string): void {
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

async function runWorker(
  order: CopyStart,
  stopped: Promise<void>,
  watch: CopyWatch | undefined,
): Promise<VerifiedCopy> {
  const worker = startWorker("backup/copyWorker");
  const { promise, resolve, reject } = Promise.withResolvers<CopyReply>();
  const sizePoll = watch && setInterval(sizeReporter(order.to, watch), SIZE_POLL_MS);
  worker.onmessage = ({ data }: MessageEvent<CopyMessage>) => {
    clearInterval(sizePoll);
    if (data.kind !== "checking") return resolve(data);
    watch?.onProgress({ step: "checking", done: data.done, total: data.total });
  };
  worker.onerror = ({ message }) => reject(new Error(message));
  worker.postMessage(order);
  const stop = stopped.then(() => {
    throw new StoppedError("stopped: nothing was changed");
  });
  try {
    const reply = await Promise.race([promise, stop]);
    if (reply.kind === "copied") return reply.copy;
    throw new ERRORS[reply.reason](reply.message);
  } finally {
    clearInterval(sizePoll);
    worker.terminate();
  }
}

/** Reports the size of the copy at each call, for as long as it grows. */
function sizeReporter(copy: string, { bytes, onProgress }: CopyWatch): () => void {
  let reported = 0;
  return () => {
    const size = statSync(copy, { throwIfNoEntry: false })?.size ?? 0;
    if (size > reported) onProgress({ step: "copying", done: Math.min(size, bytes), total: bytes });
    reported = size;
  };
}

const PARTIAL_NAME = /\.[0-9a-f]{12}\.partial$/;
/** Copying and verifying the largest database takes minutes, and writes to the file until the end. */
const ABANDONED_AFTER_MS = 12 * 3_600_000;

/** Partial copies of killed processes in a folder. Never throws. */
function abandonedCopies(folder: string): string[] {
  try {
    return partialCopies(folder).filter((path) => ageOf(path) > ABANDONED_AFTER_MS);
  } catch {
    return [];
  }
}

/** The partial copies of this user in a folder. Throws the errors of the system. */
function partialCopies(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => PARTIAL_NAME.test(name))
    .map((name) => join(folder, name))
    .filter(isOwnCopy);
}

function isOwnCopy(path: string): boolean {
  const status = lstatSync(path, { throwIfNoEntry: false });
  return (
    status?.isFile() === true &&
    status.uid === process.getuid?.() &&
    (status.mode & 0o777) === OWNER_ONLY
  );
}

function ageOf(path: string): number {
  const status = lstatSync(path, { throwIfNoEntry: false });
  return status ? systemClock.epochMs() - status.mtimeMs : 0;
}
