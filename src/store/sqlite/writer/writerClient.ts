import { assert } from "../../../lib/assert.ts";
import { sharedNowMs, systemClock, type Clock } from "../../../lib/clock.ts";
import type { WriteOperation, WriteResult } from "./writerMessages.ts";
import type { Durability } from "../sqlite.ts";
import type { GroupEffect, ReserveTarget } from "./requestGroup.ts";
import type {
  BatchOutcome,
  WriteFailure,
  WriteReply,
  WriterBatch,
  WriterClose,
  WriterMessage,
  WriterStart,
} from "./writer.ts";
import { encodeBatch } from "./writerMessages.ts";
import { startWorker } from "../workers.ts";

const BLOCKED_NAMES = { full: "StoreFull", busy: "StoreLocked" } as const;

/** The writer could not perform an operation. Nothing of it is in the database. Logs show the name. */
export class WriteError extends Error {
  constructor(
    readonly failure: WriteFailure,
    message?: string,
  ) {
    super(message);
    this.name = isBlocked(failure) ? BLOCKED_NAMES[failure] : "WriteError";
  }
}

/** A temporary failure that concerns all operations. */
export type Blocked = Extract<WriteFailure, "full" | "busy">;

export function isBlocked(failure: WriteFailure): failure is Blocked {
  return failure === "full" || failure === "busy";
}

/** A request whose end is written, for the owner of the holds. */
export interface EndingRequest {
  /** In nano-roubles. */
  readonly charge: bigint;
  /** The holds that the commit releases; one or more. */
  readonly holds: readonly object[];
}

/** The owner of the holds. It is asked before each batch and told after it. */
export interface BatchPlanner {
  /** Returns the reserves to commit with the ends of these requests. */
  planBatch(ending: readonly EndingRequest[]): readonly ReserveTarget[];
  /**
   * The batch has ended: what was committed, the requests whose end was, and why the reserves were not. Called before the
   * writes of the batch resolve.
   */
  batchEnded(
    effects: readonly GroupEffect[],
    ended: readonly EndingRequest[],
    failure: WriteError | undefined,
  ): void;
}

/** A serving gateway writes only with this. */
export interface Writer {
  /** Resolves once the operation is committed; rejects with WriteError. Operations keep their order. */
  write(operation: WriteOperation): Promise<WriteResult>;
  /**
   * The same for an operation that an answer waits for: while the disk is full or another process holds a lock, it is
   * tried again for up to 10 s. `holds`: what the end of a request releases.
   */
  writeWithin(operation: WriteOperation, holds?: EndingRequest["holds"]): Promise<WriteResult>;
  /** Set once, before the first write of a request. */
  planner: BatchPlanner | undefined;
  /** The number of operations that are not committed yet. */
  readonly queued: number;
  /** Why the last write failed, if a later one may succeed. */
  readonly blockedBy: Blocked | undefined;
  /** The writer failed fatally: no connection of this process may write any more. */
  readonly isBroken: boolean;
  /** Tries a write that changes nothing and updates `blockedBy`. While that is set, the writer probes each second. */
  probe(): void;
  /** Refuses new operations, waits for the earlier ones unless the writer is broken, and ends the Worker. */
  close(): Promise<void>;
}

const PROBE_EVERY_MS = 1000;

/** How long the end of an answer waits for a full disk or a locked database, in milliseconds. */
export const COMMIT_WITHIN_MS = 10_000;
export const COMMIT_STEP_MS = 200;

/**
 * While more operations than this wait at the end of a commit, the next one starts this much later, so that more of them
 * share it. A commit costs as much as ten rows.
 */
const FEW_OPERATIONS = 4;
const PACE_MS = 2;

interface PendingWrite {
  readonly operation: WriteOperation;
  readonly ending: EndingRequest | undefined;
  /** Until then a temporary failure is not reported but tried again, in monotonic time; 0: never. */
  readonly retryUntilMs: number;
  resolve(result: WriteResult): void;
  reject(error: Error): void;
}

interface Batch {
  readonly operations: readonly PendingWrite[];
  readonly sentAtMs: number;
}

/**
 * Starts the Worker. `onFatal` is called after an I/O error or a crash: the process must stop. The promises of open
 * writes never settle then. `onCommit` gets the time of each batch and must not throw.
 */
export function startWriter(
  options: { path: string; durability: Durability },
  onFatal: (message: string) => void,
  onCommit: (tookMs: number) => void = () => {},
  clock: Clock = systemClock,
): Writer {
  const writer = new WorkerWriter(onFatal, onCommit, clock);
  // Later, so that the listener opens first. Operations are queued meanwhile.
  setTimeout(() => writer.start(options), 0);
  return writer;
}

class WorkerWriter implements Writer {
  blockedBy: Blocked | undefined;
  isBroken = false;
  planner: BatchPlanner | undefined;
  readonly #onFatal: (message: string) => void;
  readonly #onCommit: (tookMs: number) => void;
  readonly #clock: Clock;
  #worker: Worker | undefined;
  #waiting: PendingWrite[] = [];
  /** The batch that the Worker has. The next one waits for its reply, so that many operations share a commit. */
  #sent: Batch | undefined;
  #isReady = false;
  #isClosing = false;
  #hasClosed = false;
  /** When the last operation was requested while `blockedBy` was not set. */
  #requestedAtMs = 0;
  #pace: Timer | undefined;
  #isProbing = false;
  #nextProbe: Timer | undefined;
  #idle: (() => void) | undefined;
  #closed: (() => void) | undefined;

  constructor(
    onFatal: (message: string) => void,
    onCommit: (tookMs: number) => void,
    clock: Clock,
  ) {
    this.#onFatal = onFatal;
    this.#onCommit = onCommit;
    this.#clock = clock;
  }

  get queued(): number {
    return this.#waiting.length + (this.#sent?.operations.length ?? 0);
  }

  start(options: WriterStart): void {
    const worker = startWorker("writer/writer");
    worker.onmessage = ({ data }: MessageEvent<WriterMessage>) => this.#receive(data);
    worker.onerror = (event) => this.#fail(event.message);
    worker.addEventListener("close", () => {
      if (!this.#hasClosed && !this.isBroken) this.#fail("the writer ended by itself");
    });
    worker.postMessage(options);
    this.#worker = worker;
  }

  write(operation: WriteOperation): Promise<WriteResult> {
    return this.#enqueue(operation, undefined, 0);
  }

  writeWithin(operation: WriteOperation, holds?: EndingRequest["holds"]): Promise<WriteResult> {
    return this.#enqueue(operation, holds, this.#clock.monotonicMs() + COMMIT_WITHIN_MS);
  }

  #enqueue(
    operation: WriteOperation,
    holds: EndingRequest["holds"] | undefined,
    retryUntilMs: number,
  ): Promise<WriteResult> {
    if (this.#isClosing) return Promise.reject(new WriteError("refused", "the store is closed"));
    if (this.blockedBy === undefined) this.#requestedAtMs = sharedNowMs();
    const charge = operation.kind === "recordRequest" ? operation.record.charge : 0n;
    const ending = holds && { charge, holds };
    return new Promise((resolve, reject) => {
      this.#waiting.push({ operation, ending, retryUntilMs, resolve, reject });
      this.#sendNext();
    });
  }

  probe(): void {
    if (!this.#isProbing) void this.#probe();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#nextProbe);
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
      this.#sendNext();
    });
    await this.#closeConnection();
    this.#hasClosed = true;
    this.#worker?.terminate();
  }

  /** A terminated Worker may keep its connection open. Then the main one is not the last, and the WAL stays. */
  async #closeConnection(): Promise<void> {
    if (this.isBroken || this.#hasClosed) return;
    await new Promise<void>((resolve) => {
      this.#closed = resolve;
      const close: WriterClose = { kind: "close" };
      this.#worker?.postMessage(close);
    });
  }

  #sendNext(): void {
    const isIdle = this.#isReady && !this.#sent && this.#waiting.length === 0;
    if (this.isBroken || isIdle) this.#idle?.();
    if (this.isBroken || isIdle || this.#sent || this.#pace || !this.#isReady) return;
    const operations = this.#waiting;
    this.#waiting = [];
    this.#sent = { operations, sentAtMs: performance.now() };
    try {
      this.#worker?.postMessage(this.#messageOf(operations));
    } catch (error) {
      // A bug. Without this batch nothing more would be written, and no answer would end.
      this.#fail(error instanceof Error ? error.message : String(error));
    }
  }

  #messageOf(operations: readonly PendingWrite[]): WriterBatch {
    const reserves = this.planner?.planBatch(operations.flatMap(endingOf)) ?? [];
    const batch = encodeBatch(
      operations.map(({ operation }) => operation),
      reserves,
    );
    return { batch, requestedAtMs: this.#requestedAtMs };
  }

  #sendPaced(): void {
    if (this.#waiting.length <= FEW_OPERATIONS || this.#isClosing) return this.#sendNext();
    this.#pace = setTimeout(() => {
      this.#pace = undefined;
      this.#sendNext();
    }, PACE_MS);
  }

  #receive(message: WriterMessage): void {
    // A failed batch gets no replies. Later replies would be matched with it.
    if (this.isBroken) return;
    if (message.kind === "fatal") return this.#fail(message.message);
    if (message.kind === "outcome")
      return this.#batchEnded(JSON.parse(message.outcome) as BatchOutcome);
    if (message.kind === "closed") return this.#closed?.();
    this.#isReady = true;
    this.#sendNext();
  }

  #batchEnded({ replies, effects, reserveFailure }: BatchOutcome): void {
    const batch = this.#sent;
    assert(batch !== undefined, "a reply to no batch");
    this.#sent = undefined;
    this.#onCommit(performance.now() - batch.sentAtMs);
    const ended: EndingRequest[] = [];
    batch.operations.forEach(({ ending, operation }, index) => {
      const reply = replies[index];
      if (!reply?.ok) {
        if (reply && isBlocked(reply.failure)) this.blockedBy = reply.failure;
        return;
      }
      if (ending) ended.push(ending);
      if (needsRoom(operation)) this.blockedBy = undefined;
    });
    this.planner?.batchEnded(effects, ended, reserveFailure && errorOf(reserveFailure));
    this.#sendPaced();
    this.#probeLater();
    batch.operations.forEach((pending, index) => {
      const reply = replies[index];
      if (reply?.ok) pending.resolve(reply.result);
      else this.#writeFailed(pending, errorOf(reply));
    });
  }

  #writeFailed(pending: PendingWrite, error: WriteError): void {
    const mayRetry = isBlocked(error.failure) && this.#clock.monotonicMs() < pending.retryUntilMs;
    if (!mayRetry || this.#isClosing) return pending.reject(error);
    setTimeout(() => {
      if (this.#isClosing) return pending.reject(error);
      this.#waiting.push(pending);
      this.#sendNext();
    }, COMMIT_STEP_MS);
  }

  /** A load balancer sends no requests to an unavailable gateway, so no other write would clear `blockedBy`. */
  #probeLater(): void {
    if (this.blockedBy === undefined || this.#isClosing) {
      if (this.#nextProbe !== undefined) clearTimeout(this.#nextProbe);
      this.#nextProbe = undefined;
      return;
    }
    this.#nextProbe ??= setTimeout(() => {
      this.#nextProbe = undefined;
      this.probe();
    }, PROBE_EVERY_MS).unref();
  }

  #fail(message: string): void {
    this.isBroken = true;
    clearTimeout(this.#nextProbe);
    this.#idle?.();
    this.#closed?.();
    this.#onFatal(message);
  }

  async #probe(): Promise<void> {
    this.#isProbing = true;
    try {
      await this.write({ kind: "probe" });
    } catch {
      // `blockedBy` has the result.
    } finally {
      this.#isProbing = false;
    }
  }
}

/** The others may find nothing to change. Then they succeed on a full disk. */
function needsRoom({ kind }: WriteOperation): boolean {
  return kind !== "reserve" && kind !== "fold" && kind !== "redeemVoucher";
}

function endingOf({ ending }: PendingWrite): EndingRequest[] {
  return ending ? [ending] : [];
}

function errorOf(reply: Extract<WriteReply, { ok: false }> | undefined): WriteError {
  return new WriteError(reply?.failure ?? "refused", reply?.message ?? "the writer did not reply");
}
