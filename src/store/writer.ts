import { operationRunner, type WriteOperation } from "./operations.ts";
import { BrokenPromise } from "./promise.ts";
import { connect, sqliteCode, type Connection, type Durability } from "./sqlite.ts";
import { decodeOperations, resultToWire, type WireResult } from "./wire.ts";

declare const self: Worker;

/**
 * The Worker that owns the one connection through which a serving gateway writes. Each message is a
 * batch: everything that was asked for while the previous batch was being committed, in its order.
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

function serveBatches(): void {
  let run: Batch | undefined;
  self.onmessage = (event: MessageEvent<WriterStart | WriterBatch>) => {
    try {
      if (typeof event.data !== "string") {
        run = batchRunner(connect(event.data.path, event.data.durability));
        reply({ kind: "ready" });
      } else if (run) {
        reply({ kind: "replies", replies: JSON.stringify(run(decodeOperations(event.data))) });
      }
    } catch (error) {
      reply({ kind: "fatal", message: error instanceof Error ? error.message : String(error) });
    }
  };
}

function reply(message: WriterMessage): void {
  self.postMessage(message);
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
function failed(error: unknown): WriteReply {
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
