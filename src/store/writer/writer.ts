import {
  FOLD_BATCH,
  prepareOperations,
  type WriteOperation,
  InsufficientFunds,
} from "./operations.ts";
import { sharedNowMs } from "../../lib/clock.ts";
import { errorCode } from "../../lib/systemError.ts";
import {
  BUSY_TIMEOUT_MS,
  connect,
  setBusyTimeout,
  sqliteFault,
  type Connection,
  type Durability,
} from "../sqlite.ts";
import { decodeOperations, resultToWire, type WireResult } from "./writerMessages.ts";

declare const self: Worker;

/** The first message to the Worker. */
export interface WriterStart {
  path: string;
  durability: Durability;
}

/** Each message after it. */
export interface WriterBatch {
  /** Encoded by `encodeOperations`. */
  operations: string;
  /** When the last operation was requested before the writer knew of a lock, by `sharedNowMs`. */
  requestedAtMs: number;
}

/** The last message: the Worker closes its connection. */
export interface WriterClose {
  kind: "close";
}

/**
 * `full`: the disk is full; `busy`: another process has the lock; `insufficient`: the account cannot pay the hold any
 * more; `refused`: a constraint, a trigger or an assertion, such as settling a request that is not running.
 */
export type WriteFailure = "full" | "busy" | "insufficient" | "refused";

export type WriteReply =
  | { ok: true; result: WireResult }
  | { ok: false; failure: WriteFailure; message: string };

export type WriterMessage =
  | { kind: "ready" }
  /** A WriteReply[] as JSON, which costs less than a structured clone. */
  | { kind: "replies"; replies: string }
  /** The last message: the connection is closed. */
  | { kind: "closed" }
  | { kind: "fatal"; message: string };

type RunBatch = (
  operations: readonly WriteOperation[],
  requestedAtMs: number,
) => readonly WriteReply[];

/** Called after each batch. */
type CheckpointIfDue = (operations: readonly WriteOperation[]) => void;

interface OpenWriter {
  readonly runBatch: RunBatch;
  readonly checkpointIfDue: CheckpointIfDue;
  close(): void;
}

/**
 * The shortest wait for a lock. After a batch that found the database locked, the next one waits only for the rest of
 * its last operation's BUSY_TIMEOUT_MS.
 */
const LOCKED_TIMEOUT_MS = 100;
/** The number of written requests between two checkpoints. */
const CHECKPOINT_EVERY = 256;

/**
 * Runs in the Worker that owns the one writing connection of a serving gateway. Each message is a batch and one
 * commit: the operations that were requested during the commit before it, in their order.
 */
function serveBatches(): void {
  let writer: OpenWriter | undefined;
  self.onmessage = ({ data }: MessageEvent<WriterStart | WriterBatch | WriterClose>) => {
    try {
      if ("operations" in data) {
        if (writer) serveBatch(writer, data);
      } else if ("path" in data) {
        writer = openWriter(data);
        reply({ kind: "ready" });
      } else if (writer) {
        writer.close();
        reply({ kind: "closed" });
      }
    } catch (error) {
      // Later operations depend on this batch: nothing more is written.
      writer = undefined;
      reply({ kind: "fatal", message: error instanceof Error ? error.message : String(error) });
    }
  };
}

function openWriter({ path, durability }: WriterStart): OpenWriter {
  const connection = connect(path, durability);
  return {
    runBatch: createBatchRunner(connection),
    checkpointIfDue: createCheckpointer(connection),
    close() {
      // Without `true` Bun 1.4.5 closes it at the end of the Worker, while the main connection works.
      connection.sqlite.close(true);
    },
  };
}

function serveBatch({ runBatch, checkpointIfDue }: OpenWriter, batch: WriterBatch): void {
  const operations = decodeOperations(batch.operations);
  reply({ kind: "replies", replies: JSON.stringify(runBatch(operations, batch.requestedAtMs)) });
  checkpointIfDue(operations);
}

function reply(message: WriterMessage): void {
  self.postMessage(message);
}

/**
 * Replaces SQLite's automatic checkpoint, which makes every hundredth commit some milliseconds longer. This one runs
 * after the replies are sent.
 */
function createCheckpointer({ sqlite }: Connection): CheckpointIfDue {
  sqlite.run("PRAGMA wal_autocheckpoint = 0");
  let since = 0;
  return (operations) => {
    for (const { kind } of operations) since += kind === "fold" ? FOLD_BATCH : 1;
    if (since < CHECKPOINT_EVERY) return;
    since = 0;
    try {
      // PASSIVE does not wait for readers.
      sqlite.run("PRAGMA wal_checkpoint(PASSIVE)");
    } catch (error) {
      // The WAL keeps all commits. The next checkpoint may succeed.
      const failure = failureOf(error);
      if (failure !== "full" && failure !== "busy") throw error;
    }
  };
}

function createBatchRunner(connection: Connection): RunBatch {
  const { sqlite } = connection;
  const runOperation = prepareOperations(connection);
  let isLocked = false;
  const setLocked = (isLockedNow: boolean): void => {
    if (isLocked && !isLockedNow) setBusyTimeout(sqlite, BUSY_TIMEOUT_MS);
    isLocked = isLockedNow;
  };
  const commitBatch = (operations: readonly WriteOperation[]): readonly WriteReply[] => {
    sqlite.run("BEGIN IMMEDIATE");
    const replies = operations.map((operation): WriteReply => ({
      ok: true,
      result: resultToWire(runOperation(operation)),
    }));
    sqlite.run("COMMIT");
    setLocked(false);
    return replies;
  };
  const tryBatch = (
    operations: readonly WriteOperation[],
    requestedAtMs: number,
  ): readonly WriteReply[] | WriteReply => {
    try {
      if (isLocked) setBusyTimeout(sqlite, remainingWaitMs(requestedAtMs));
      return commitBatch(operations);
    } catch (error) {
      if (sqlite.inTransaction) sqlite.run("ROLLBACK");
      const failure = failureOf(error);
      if (failure === undefined) throw error;
      setLocked(failure === "busy");
      return {
        ok: false,
        failure,
        message: error instanceof Error ? error.message : String(error),
      };
    }
  };
  return (operations, requestedAtMs) => {
    const outcome = tryBatch(operations, requestedAtMs);
    if (!("ok" in outcome)) return outcome;
    if (!isRefusal(outcome) || operations.length === 1) return operations.map(() => outcome);
    // Each one alone, so that only the refused operation fails.
    return operations.map((operation) => {
      const single = tryBatch([operation], requestedAtMs);
      return "ok" in single ? single : (single[0] ?? outcome);
    });
  };
}

function remainingWaitMs(requestedAtMs: number): number {
  const restMs = Math.round(requestedAtMs + BUSY_TIMEOUT_MS - sharedNowMs());
  return Math.min(Math.max(restMs, LOCKED_TIMEOUT_MS), BUSY_TIMEOUT_MS);
}

function isRefusal(reply: WriteReply): boolean {
  return !reply.ok && (reply.failure === "refused" || reply.failure === "insufficient");
}

/** Undefined if the process must stop without a reply: nothing may be retried after a failed fsync. */
function failureOf(error: unknown): WriteFailure | undefined {
  if (error instanceof InsufficientFunds) return "insufficient";
  // A commit grows the WAL index after it wrote the frames. A crash can bring the rolled-back frames back.
  if (errorCode(error) === "SQLITE_IOERR_SHMSIZE") return undefined;
  const fault = sqliteFault(error);
  if (fault === "full" || fault === "busy") return fault;
  return fault === undefined || fault === "constraint" ? "refused" : undefined;
}

if (!Bun.isMainThread) serveBatches();
