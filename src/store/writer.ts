import { FOLDED_AT_ONCE } from "./fold.ts";
import { operationRunner, type WriteOperation } from "./operations.ts";
import { BrokenPromise } from "./promise.ts";
import { connect, sqliteCode, type Connection, type Durability } from "./sqlite.ts";
import { decodeOperations, resultToWire, type WireResult } from "./wire.ts";

declare const self: Worker;

/**
 * The Worker that owns the one connection through which a serving gateway writes. Each message is a
 * batch, committed as one: as a rule everything that was asked for while the previous batch was, in its order.
 */
export interface WriterStart {
  path: string;
  durability: Durability;
}

/** Operations as `wire.ts` writes them. */
export type WriterBatch = string;

/**
 * `full`: there is no room; `busy`: another process kept the database locked; `short`: the account cannot pay
 * a hold any more; `refused`: a constraint.
 */
export type WriteFailure = "full" | "busy" | "short" | "refused";

export type WriteReply =
  | { ok: true; result: WireResult }
  | { ok: false; failure: WriteFailure; message: string };

export type WriterMessage =
  | { kind: "ready" }
  /** A list of WriteReply as JSON, which costs less than a clone of it. */
  | { kind: "replies"; replies: string }
  | { kind: "fatal"; message: string };

type Batch = (operations: readonly WriteOperation[]) => readonly WriteReply[];

/** Called behind each batch. */
type Checkpoint = (operations: readonly WriteOperation[]) => void;

/** After operations on so many requests what they wrote is taken over from the log into the database. */
const CHECKPOINT_EVERY = 256;

function serveBatches(): void {
  let writing: { run: Batch; checkpoint: Checkpoint } | undefined;
  self.onmessage = (event: MessageEvent<WriterStart | WriterBatch>) => {
    try {
      if (typeof event.data !== "string") {
        const connection = connect(event.data.path, event.data.durability);
        writing = { run: batchRunner(connection), checkpoint: checkpointer(connection) };
        reply({ kind: "ready" });
      } else if (writing) {
        const operations = decodeOperations(event.data);
        reply({ kind: "replies", replies: JSON.stringify(writing.run(operations)) });
        writing.checkpoint(operations);
      }
    } catch (error) {
      // What comes behind it was asked for in the belief that it would be there: nothing more is written.
      writing = undefined;
      reply({ kind: "fatal", message: error instanceof Error ? error.message : String(error) });
    }
  };
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
      if (failed(error).failure === "refused") throw error;
    }
  };
}

function batchRunner(connection: Connection): Batch {
  const { sqlite } = connection;
  const run = operationRunner(connection);
  const together = (operations: readonly WriteOperation[]): readonly WriteReply[] => {
    sqlite.run("BEGIN IMMEDIATE");
    const replies = operations.map((operation): WriteReply => ({
      ok: true,
      result: resultToWire(run(operation)),
    }));
    sqlite.run("COMMIT");
    return replies;
  };
  const attempt = (operations: readonly WriteOperation[]): readonly WriteReply[] | WriteReply => {
    try {
      return together(operations);
    } catch (error) {
      if (sqlite.inTransaction) sqlite.run("ROLLBACK");
      return failed(error);
    }
  };
  return (operations) => {
    const outcome = attempt(operations);
    if (!("ok" in outcome)) return outcome;
    if (!isRefusal(outcome) || operations.length === 1) return operations.map(() => outcome);
    // One operation that fails must not take its neighbours down.
    return operations.map((operation) => {
      const single = attempt([operation]);
      return "ok" in single ? single : (single[0] ?? outcome);
    });
  };
}

function isRefusal(reply: WriteReply): boolean {
  return !reply.ok && (reply.failure === "refused" || reply.failure === "short");
}

/** An I/O error is thrown on: after a failed fsync nothing may be tried again, the process must stop. */
function failed(error: unknown): Extract<WriteReply, { ok: false }> {
  const code = sqliteCode(error) ?? "";
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof BrokenPromise) return { ok: false, failure: "short", message };
  if (code.startsWith("SQLITE_FULL")) return { ok: false, failure: "full", message };
  if (code.startsWith("SQLITE_BUSY")) return { ok: false, failure: "busy", message };
  if (code === "" || code.startsWith("SQLITE_CONSTRAINT"))
    return { ok: false, failure: "refused", message };
  throw error;
}

if (!Bun.isMainThread) serveBatches();
