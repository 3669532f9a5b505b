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
import { interruptRunning, type Interrupted } from "../interruptRunning.ts";
import { prepareApply } from "./apply.ts";
import { Blocks, type ReplicaBlocks } from "./blocks.ts";

declare const self: Worker;

/** The first message to the Worker. */
export interface WriterStart {
  path: string;
  durability: Durability;
}

/** A batch of one replica: of the gateway itself, or of one of its serving processes. */
export interface WriterBatch {
  replica: number;
  /** Encoded by `encodeBatch`. */
  batch: string;
  /** When the last operation was requested before the writer knew of a lock, by `sharedNowMs`. */
  requestedAtMs: number;
}

/** The replica has ended without an orderly stop: what it had reserved is released, and its requests are interrupted. */
export interface WriterEnd {
  ended: number;
}

/** The last message: the Worker closes its connection. */
export interface WriterClose {
  kind: "close";
}

export interface SentOutcome {
  /** A BatchOutcome as JSON, which costs less than a structured clone. */
  readonly text: string;
  /** The accounts of which the replica wants money that others have reserved. */
  readonly wanted: readonly number[];
  /** The disk is full, or another process keeps the database locked. */
  readonly isBlocked: boolean;
}

export type WriterMessage =
  | { kind: "ready" }
  | { kind: "outcome"; replica: number; outcome: SentOutcome }
  /** Without a result if the database cannot be written now. */
  | { kind: "ended"; replica: number; interrupted: Interrupted | undefined }
  /** The last message: the connection is closed. */
  | { kind: "closed" }
  | { kind: "fatal"; message: string };

type RunBatch = (
  batch: WireBatch,
  requestedAtMs: number,
  replica: ReplicaBlocks,
) => { readonly outcome: BatchOutcome; readonly wanted: ReadonlySet<number> };

/** Called after each batch. */
type CheckpointIfDue = (operations: readonly WireOperation[]) => void;

interface OpenWriter {
  readonly runBatch: RunBatch;
  readonly blocks: Blocks;
  end(replica: number): Interrupted | undefined;
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
  self.onmessage = ({
    data,
  }: MessageEvent<WriterStart | WriterBatch | WriterEnd | WriterClose>) => {
    try {
      if ("batch" in data) {
        if (writer) serveBatch(writer, data);
      } else if ("path" in data) {
        writer = openWriter(data);
        reply({ kind: "ready" });
      } else if ("ended" in data) {
        const { ended: replica } = data;
        if (writer) reply({ kind: "ended", replica, interrupted: writer.end(replica) });
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
  const blocks = new Blocks();
  return {
    runBatch: createBatchRunner(connection),
    blocks,
    end(replica) {
      try {
        const interrupted = interruptRunning(connection, blocks.of(replica));
        blocks.end(replica);
        return interrupted;
      } catch (error) {
        const failure = failureOf(error);
        if (failure === "full" || failure === "busy") return undefined;
        throw error;
      }
    },
    checkpointIfDue: createCheckpointer(connection),
    close() {
      // Without `true` Bun 1.4.5 closes it at the end of the Worker, while the main connection works.
      connection.sqlite.close(true);
    },
  };
}

function serveBatch({ runBatch, blocks, checkpointIfDue }: OpenWriter, message: WriterBatch): void {
  const { replica, requestedAtMs } = message;
  const batch = decodeBatch(message.batch);
  const { outcome, wanted } = runBatch(batch, requestedAtMs, blocks.of(replica));
  const text = JSON.stringify(outcome);
  const { failure } = outcome.reserveFailure ?? {};
  const isBlocked = failure === "full" || failure === "busy";
  reply({ kind: "outcome", replica, outcome: { text, wanted: [...wanted], isBlocked } });
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
  const apply = prepareApply(connection);
  let isLocked = false;
  const setLocked = (isLockedNow: boolean): void => {
    if (isLocked && !isLockedNow) setBusyTimeout(sqlite, BUSY_TIMEOUT_MS);
    isLocked = isLockedNow;
  };
  return (batch, requestedAtMs, replica) => {
    const wanted = new Set<number>();
    const commit = (tried: WireBatch): BatchOutcome => {
      sqlite.run("BEGIN IMMEDIATE");
      const { results, effect, blocks, wanted: more } = apply(tried, replica);
      sqlite.run("COMMIT");
      replica.committed(tried.operations, blocks);
      for (const account of more) wanted.add(account);
      setLocked(false);
      return { replies: results.map((result) => ({ ok: true, result })), effects: [effect] };
    };
    const tryCommit = (tried: WireBatch): BatchOutcome | Refused => {
      try {
        if (isLocked) setBusyTimeout(sqlite, remainingWaitMs(requestedAtMs));
        return commit(tried);
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
    const outcome = tryCommit(batch);
    if ("effects" in outcome) return { outcome, wanted };
    const { operations, reserves } = batch;
    if (!isRefusal(outcome))
      return { outcome: outcomeOfFailure(outcome, operations.length), wanted };
    // Each one alone, so that only the refused operation fails. A refused request keeps its hold, so the reserves of its
    // batch may be too small: they are only raised.
    const singles = operations.map((operation) =>
      tryCommit({ operations: [operation], reserves: [] }),
    );
    const last = tryCommit({ operations: [], reserves, onlyRaise: true });
    return { outcome: outcomeOfSingles(outcome, singles, last), wanted };
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
