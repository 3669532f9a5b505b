import { assert } from "../../lib/assert.ts";
import { sharedNowMs } from "../../lib/clock.ts";
import type { WriteOperation, WriteResult } from "./operations.ts";
import type { Durability } from "../sqlite.ts";
import type {
  WriteFailure,
  WriteReply,
  WriterBatch,
  WriterClose,
  WriterMessage,
  WriterStart,
} from "./writer.ts";
import { encodeOperations, resultFromWire } from "./writerMessages.ts";
import { startWorker } from "../workers.ts";

/** The writer could not perform an operation. Nothing of it is in the database. */
export class WriteError extends Error {
  override readonly name = "WriteError";
  constructor(
    readonly failure: WriteFailure,
    message: string,
  ) {
    super(message);
  }
}

/** A temporary failure that concerns all operations. */
export type Blocked = Extract<WriteFailure, "full" | "busy">;

export function isBlocked(failure: WriteFailure): failure is Blocked {
  return failure === "full" || failure === "busy";
}

/** A serving gateway writes only with this. */
export interface Writer {
  /** Resolves once the operation is committed; rejects with WriteError. Operations keep their order. */
  write(operation: WriteOperation): Promise<WriteResult>;
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

interface PendingWrite {
  operation: WriteOperation;
  resolve(result: WriteResult): void;
  reject(error: Error): void;
}

interface Batch {
  readonly operations: readonly PendingWrite[];
  readonly opensOnly: boolean;
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
): Writer {
  const writer = new WorkerWriter(onFatal, onCommit);
  // Later, so that the listener opens first. Operations are queued meanwhile.
  setTimeout(() => writer.start(options), 0);
  return writer;
}

class WorkerWriter implements Writer {
  blockedBy: Blocked | undefined;
  isBroken = false;
  readonly #onFatal: (message: string) => void;
  readonly #onCommit: (tookMs: number) => void;
  #worker: Worker | undefined;
  #waiting: PendingWrite[] = [];
  /** Operations of these kinds in `#waiting`. Counting them at each write took seconds for a long queue. */
  #waitingSettles = 0;
  #waitingOpens = 0;
  /** The batches that the Worker has. It replies in their order. */
  readonly #sent: Batch[] = [];
  #isReady = false;
  #isClosing = false;
  #hasClosed = false;
  /** When the last operation was requested while `blockedBy` was not set. */
  #requestedAtMs = 0;
  #isProbing = false;
  #nextProbe: Timer | undefined;
  #idle: (() => void) | undefined;
  #closed: (() => void) | undefined;

  constructor(onFatal: (message: string) => void, onCommit: (tookMs: number) => void) {
    this.#onFatal = onFatal;
    this.#onCommit = onCommit;
  }

  get queued(): number {
    const sent = this.#sent.reduce((sum, { operations }) => sum + operations.length, 0);
    return this.#waiting.length + sent;
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
    if (this.#isClosing) return Promise.reject(new WriteError("refused", "the store is closed"));
    if (this.blockedBy === undefined) this.#requestedAtMs = sharedNowMs();
    return new Promise((resolve, reject) => {
      this.#waiting.push({ operation, resolve, reject });
      if (operation.kind === "settleRequest") this.#waitingSettles += 1;
      if (operation.kind === "openRequest") this.#waitingOpens += 1;
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
    const isIdle = this.#isReady && this.#sent.length === 0 && this.#waiting.length === 0;
    if (this.isBroken || isIdle) this.#idle?.();
    if (this.isBroken || this.#waiting.length === 0 || !this.#canSend()) return;
    const operations = this.#waiting;
    const opensOnly = this.#waitingOpens === operations.length;
    this.#waiting = [];
    this.#waitingSettles = 0;
    this.#waitingOpens = 0;
    this.#sent.push({ operations, opensOnly, sentAtMs: performance.now() });
    const batch: WriterBatch = {
      operations: encodeOperations(operations.map(({ operation }) => operation)),
      requestedAtMs: this.#requestedAtMs,
    };
    this.#worker?.postMessage(batch);
  }

  /**
   * Operations wait for the batch before them, so that many share a commit. Only a settlement is sent at once after a
   * batch that only opens requests: the provider was faster than the commit, and its answer waits for one reply less.
   */
  #canSend(): boolean {
    const first = this.#sent[0];
    if (first === undefined) return this.#isReady;
    return this.#waitingSettles > 0 && this.#sent.length === 1 && first.opensOnly;
  }

  #receive(message: WriterMessage): void {
    // A failed batch gets no replies. Later replies would be matched with it.
    if (this.isBroken) return;
    if (message.kind === "fatal") return this.#fail(message.message);
    if (message.kind === "replies")
      return this.#settleBatch(JSON.parse(message.replies) as WriteReply[]);
    if (message.kind === "closed") return this.#closed?.();
    this.#isReady = true;
    this.#sendNext();
  }

  #settleBatch(replies: readonly WriteReply[]): void {
    const batch = this.#sent.shift();
    assert(batch !== undefined, "replies to no batch");
    this.#onCommit(performance.now() - batch.sentAtMs);
    this.#sendNext();
    for (const reply of replies) {
      if (reply.ok) this.blockedBy = undefined;
      else if (isBlocked(reply.failure)) this.blockedBy = reply.failure;
    }
    this.#probeLater();
    batch.operations.forEach((pending, index) => settleWrite(pending, replies[index]));
  }

  /** A load balancer sends no requests to an unavailable gateway, so no other write would clear `blockedBy`. */
  #probeLater(): void {
    if (this.blockedBy === undefined || this.#isClosing) {
      clearTimeout(this.#nextProbe);
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

function settleWrite(pending: PendingWrite, reply: WriteReply | undefined): void {
  if (reply?.ok) pending.resolve(resultFromWire(reply.result));
  else
    pending.reject(
      new WriteError(reply?.failure ?? "refused", reply?.message ?? "the writer did not reply"),
    );
}
