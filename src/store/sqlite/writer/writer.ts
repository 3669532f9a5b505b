import { sharedNowMs } from "../../../lib/clock.ts";
import { errorCode } from "../../../lib/systemError.ts";
import {
  BUSY_TIMEOUT_MS,
  connect,
  setBusyTimeout,
  sqliteFault,
  type SqliteConnection,
  type Durability,
} from "../sqlite.ts";
import { InsufficientFunds } from "../../writer/effects.ts";
import { FOLD_BATCH } from "../../writer/folding.ts";
import {
  isRefusal,
  outcomeOfFailure,
  outcomeOfSingles,
  type BatchOutcome,
  type Refused,
  type WriteFailure,
} from "../../writer/outcome.ts";
import { decodeBatch, type WireBatch, type WireOperation } from "../../writer/writerMessages.ts";
import { prepareApply, type BudgetBlocks } from "./apply.ts";

declare const self: Worker;

/** The first message to the Worker. */
export interface WriterStart {
  path: string;
  durability: Durability;
}

/** Each message after it. */
export interface WriterBatch {
  /** Encoded by `encodeBatch`. */
  batch: string;
  /** When the last operation was requested before the writer knew of a lock, by `sharedNowMs`. */
  requestedAtMs: number;
}

/** The last message: the Worker closes its connection. */
export interface WriterClose {
  kind: "close";
}

export type WriterMessage =
  | { kind: "ready" }
  /** A BatchOutcome as JSON, which costs less than a structured clone. */
  | { kind: "outcome"; outcome: string }
  /** The last message: the connection is closed. */
  | { kind: "closed" }
  | { kind: "fatal"; message: string };

type RunBatch = (batch: WireBatch, requestedAtMs: number) => BatchOutcome;

/** Called after each batch. */
type CheckpointIfDue = (operations: readonly WireOperation[]) => void;

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
      if ("batch" in data) {
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

function serveBatch({ runBatch, checkpointIfDue }: OpenWriter, message: WriterBatch): void {
  const batch = decodeBatch(message.batch);
  reply({ kind: "outcome", outcome: JSON.stringify(runBatch(batch, message.requestedAtMs)) });
  checkpointIfDue(batch.operations);
}

function reply(message: WriterMessage): void {
  self.postMessage(message);
}

/**
 * Replaces SQLite's automatic checkpoint, which makes every hundredth commit some milliseconds longer. This one runs
 * after the replies are sent.
 */
function createCheckpointer({ sqlite }: SqliteConnection): CheckpointIfDue {
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

function createBatchRunner(connection: SqliteConnection): RunBatch {
  const { sqlite } = connection;
  const budgetBlocks: BudgetBlocks = new Map();
  const apply = prepareApply(connection, budgetBlocks);
  let isLocked = false;
  const setLocked = (isLockedNow: boolean): void => {
    if (isLocked && !isLockedNow) setBusyTimeout(sqlite, BUSY_TIMEOUT_MS);
    isLocked = isLockedNow;
  };
  const commit = (batch: WireBatch): BatchOutcome => {
    sqlite.run("BEGIN IMMEDIATE");
    const { results, effect, blocks } = apply(batch);
    sqlite.run("COMMIT");
    for (const { keyId, amount } of blocks)
      if (amount === 0n) budgetBlocks.delete(keyId);
      else if (keyId !== 0) budgetBlocks.set(keyId, amount);
    setLocked(false);
    return { replies: results.map((result) => ({ ok: true, result })), effects: [effect] };
  };
  const tryCommit = (batch: WireBatch, requestedAtMs: number): BatchOutcome | Refused => {
    try {
      if (isLocked) setBusyTimeout(sqlite, remainingWaitMs(requestedAtMs));
      return commit(batch);
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
  return (batch, requestedAtMs) => {
    const outcome = tryCommit(batch, requestedAtMs);
    if ("effects" in outcome) return outcome;
    const { operations, reserves } = batch;
    if (!isRefusal(outcome)) return outcomeOfFailure(outcome, operations.length);
    // Each one alone, so that only the refused operation fails. A refused request keeps its hold, so the reserves of its
    // batch may be too small: they are only raised.
    const singles = operations.map((operation) =>
      tryCommit({ operations: [operation], reserves: [] }, requestedAtMs),
    );
    const last = tryCommit({ operations: [], reserves, onlyRaise: true }, requestedAtMs);
    return outcomeOfSingles(outcome, singles, last);
  };
}

function remainingWaitMs(requestedAtMs: number): number {
  const restMs = Math.round(requestedAtMs + BUSY_TIMEOUT_MS - sharedNowMs());
  return Math.min(Math.max(restMs, LOCKED_TIMEOUT_MS), BUSY_TIMEOUT_MS);
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
