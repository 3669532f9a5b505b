import type { Clock } from "../lib/clock.ts";
import {
  isBlocked,
  WriteError,
  type RequestEnd,
  type WriteOperation,
  type Writer,
  type WriteResult,
} from "../store/store.ts";

/** How long the end of an answer waits for a store that is full or locked. */
const COMMIT_WITHIN_MS = 10_000;
const COMMIT_STEP_MS = 200;
const VOID_STEP_MS = 1000;

/**
 * Commits what an answer has to wait for, patient with a disk that is full and a lock that another process
 * holds. `isWanted` is asked before each further try. Rejects with WriteError.
 */
export async function commit(
  writer: Writer,
  clock: Clock,
  operation: WriteOperation,
  isWanted: () => boolean = () => true,
): Promise<WriteResult> {
  const giveUpAtMs = clock.monotonicMs() + COMMIT_WITHIN_MS;
  for (;;) {
    try {
      return await writer.write(operation);
    } catch (error) {
      if (!isPassing(error) || clock.monotonicMs() >= giveUpAtMs) throw error;
      await Bun.sleep(COMMIT_STEP_MS);
      if (!isWanted()) throw error;
    }
  }
}

/**
 * After an end that could not be committed the client got no answer that looks whole, so nothing is
 * charged: `failed` makes out that end. Resolves with true once the store knows; with false where it never will.
 */
export async function voidEnd(writer: Writer, failed: () => RequestEnd): Promise<boolean> {
  for (;;) {
    await Bun.sleep(VOID_STEP_MS);
    try {
      await writer.write({ kind: "end", end: failed() });
      return true;
    } catch (error) {
      if (!isPassing(error)) return false;
    }
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof WriteError && isBlocked(error.failure);
}
