import {
  FOLDED_AT_ONCE,
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

/** Each message behind it. */
export interface WriterBatch {
  /** As `wire.ts` writes them. */
  operations: string;
  /** By `sharedNowMs`: when the youngest of them was asked for that was asked for before a lock was known of. */
  askedAtMs: number;
}

/** Asks it to let go of the database; nothing may come behind it. */
export interface WriterClose {
  kind: "close";
}

/**
 * `full`: there is no room; `busy`: another process kept the database locked; `insufficient`: the account cannot pay
 * a hold any more; `refused`: a constraint, or a rule of the code's own: what ends must be running.
 */
export type WriteFailure = "full" | "busy" | "insufficient" | "refused";

export type WriteReply =
  | { ok: true; result: WireResult }
  | { ok: false; failure: WriteFailure; message: string };

export type WriterMessage =
  | { kind: "ready" }
  /** A list of WriteReply as JSON, which costs less than a clone of it. */
  | { kind: "replies"; replies: string }
  /** The last one: the connection is closed. */
  | { kind: "closed" }
  | { kind: "fatal"; message: string };

type RunBatch = (operations: readonly WriteOperation[], askedAtMs: number) => readonly WriteReply[];

/** Called behind each batch. */
type Checkpoint = (operations: readonly WriteOperation[]) => void;

interface Writing {
  readonly run: RunBatch;
  readonly checkpoint: Checkpoint;
  close(): void;
}

/** A batch behind one that found the database locked waits for what its youngest operation lacks of a whole wait, and at least so long. */
const LOCKED_TIMEOUT_MS = 100;
/** After operations on so many requests what they wrote is taken over from the log into the database. */
const CHECKPOINT_EVERY = 256;

/**
 * The Worker that owns the one connection through which a serving gateway writes. Each message is a
 * batch, committed as one: as a rule everything that was asked for while the previous batch was, in its order.
 */
function serveBatches(): void {
  let writing: Writing | undefined;
  self.onmessage = ({ data }: MessageEvent<WriterStart | WriterBatch | WriterClose>) => {
    try {
      if ("operations" in data) {
        if (writing) serveBatch(writing, data);
      } else if ("path" in data) {
        writing = startWriting(data);
        reply({ kind: "ready" });
      } else if (writing) {
        writing.close();
        reply({ kind: "closed" });
      }
    } catch (error) {
      // What comes behind it was asked for in the belief that it would be there: nothing more is written.
      writing = undefined;
      reply({ kind: "fatal", message: error instanceof Error ? error.message : String(error) });
    }
  };
}

function startWriting({ path, durability }: WriterStart): Writing {
  const connection = connect(path, durability);
  return {
    run: batchRunner(connection),
    checkpoint: checkpointer(connection),
    close() {
      // Without `true` Bun 1.4.5 closes it later: at the Worker's end, in the midst of what the main connection does.
      connection.sqlite.close(true);
    },
  };
}

function serveBatch({ run, checkpoint }: Writing, batch: WriterBatch): void {
  const operations = decodeOperations(batch.operations);
  reply({ kind: "replies", replies: JSON.stringify(run(operations, batch.askedAtMs)) });
  checkpoint(operations);
}

function reply(message: WriterMessage): void {
  self.postMessage(message);
}

/**
 * SQLite itself does this within a commit, of which every hundredth then takes some milliseconds more; here the
 * answers that wait for the commit have left.
 */
function checkpointer({ sqlite }: Connection): Checkpoint {
  sqlite.run("PRAGMA wal_autocheckpoint = 0");
  let since = 0;
  return (operations) => {
    for (const { kind } of operations) since += kind === "fold" ? FOLDED_AT_ONCE : 1;
    if (since < CHECKPOINT_EVERY) return;
    since = 0;
    try {
      // Passive: it waits for nobody, and takes over what nobody reads any more.
      sqlite.run("PRAGMA wal_checkpoint(PASSIVE)");
    } catch (error) {
      // The log is whole, and the next time may find room, or no lock.
      const failure = failureOf(error);
      if (failure !== "full" && failure !== "busy") throw error;
    }
  };
}

function batchRunner(connection: Connection): RunBatch {
  const { sqlite } = connection;
  const run = prepareOperations(connection);
  let isLocked = false;
  const foundLocked = (isNow: boolean): void => {
    if (isLocked && !isNow) setBusyTimeout(sqlite, BUSY_TIMEOUT_MS);
    isLocked = isNow;
  };
  const together = (operations: readonly WriteOperation[]): readonly WriteReply[] => {
    sqlite.run("BEGIN IMMEDIATE");
    const replies = operations.map((operation): WriteReply => ({
      ok: true,
      result: resultToWire(run(operation)),
    }));
    sqlite.run("COMMIT");
    foundLocked(false);
    return replies;
  };
  const tryBatch = (
    operations: readonly WriteOperation[],
    askedAtMs: number,
  ): readonly WriteReply[] | WriteReply => {
    try {
      if (isLocked) setBusyTimeout(sqlite, restOfWait(askedAtMs));
      return together(operations);
    } catch (error) {
      if (sqlite.inTransaction) sqlite.run("ROLLBACK");
      const failure = failureOf(error);
      if (failure === undefined) throw error;
      foundLocked(failure === "busy");
      return {
        ok: false,
        failure,
        message: error instanceof Error ? error.message : String(error),
      };
    }
  };
  return (operations, askedAtMs) => {
    const outcome = tryBatch(operations, askedAtMs);
    if (!("ok" in outcome)) return outcome;
    if (!isRefusal(outcome) || operations.length === 1) return operations.map(() => outcome);
    // One operation that fails must not take its neighbours down.
    return operations.map((operation) => {
      const single = tryBatch([operation], askedAtMs);
      return "ok" in single ? single : (single[0] ?? outcome);
    });
  };
}

function restOfWait(askedAtMs: number): number {
  const restMs = Math.round(askedAtMs + BUSY_TIMEOUT_MS - sharedNowMs());
  return Math.min(Math.max(restMs, LOCKED_TIMEOUT_MS), BUSY_TIMEOUT_MS);
}

function isRefusal(reply: WriteReply): boolean {
  return !reply.ok && (reply.failure === "refused" || reply.failure === "insufficient");
}

/** Undefined where no reply may be given: after a failed fsync nothing may be tried again, the process must stop. */
function failureOf(error: unknown): WriteFailure | undefined {
  if (error instanceof InsufficientFunds) return "insufficient";
  // A commit asks for more of the log's index when its frames are written: rolled back, they may be there again after a crash.
  if (errorCode(error) === "SQLITE_IOERR_SHMSIZE") return undefined;
  const fault = sqliteFault(error);
  if (fault === "full" || fault === "busy") return fault;
  return fault === undefined || fault === "constraint" ? "refused" : undefined;
}

if (!Bun.isMainThread) serveBatches();
