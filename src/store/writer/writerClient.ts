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

/** The writer could not do what it was asked; nothing of the operation is in the store. */
export class WriteError extends Error {
  override readonly name = "WriteError";
  constructor(
    readonly failure: WriteFailure,
    message: string,
  ) {
    super(message);
  }
}

/** A failure that passes, and until it does is everybody's. */
export type Blocked = Extract<WriteFailure, "full" | "busy">;

export function isBlocked(failure: WriteFailure): failure is Blocked {
  return failure === "full" || failure === "busy";
}

/** The one way in which a serving gateway writes. */
export interface Writer {
  /** Resolves once the operation is committed; rejects with WriteError. Operations keep their order. */
  write(operation: WriteOperation): Promise<WriteResult>;
  /** Operations that are not committed yet. */
  readonly queued: number;
  /** Why the last write could not be committed, where a later one may be: no room on the disk, or another process's lock. */
  readonly blockedBy: Blocked | undefined;
  /** It failed fatally: nothing more may be written to the database, by nobody. */
  readonly isBroken: boolean;
  /**
   * Tries a small write that changes nothing, whose outcome only `blockedBy` tells; one at a time. While
   * `blockedBy` is set the writer does it by itself each second.
   */
  probe(): void;
  /**
   * Refuses what comes from now on, waits for what was asked so far, lets the Worker close its connection, and ends it;
   * after a fatal failure it does not wait.
   */
  close(): Promise<void>;
}

const PROBE_EVERY_MS = 1000;

interface Waiting {
  operation: WriteOperation;
  resolve(result: WriteResult): void;
  reject(error: Error): void;
}

interface Batch {
  readonly operations: readonly Waiting[];
  readonly opensOnly: boolean;
  readonly sentAtMs: number;
}

/**
 * Starts the Worker. `onFatal` is called when it can no longer be trusted with money (an I/O error, a
 * crash): the process has to stop; what was under way then stays unanswered. `onCommit` is told how long
 * each batch took; it must not throw.
 */
export function startWriter(
  options: { path: string; durability: Durability },
  onFatal: (message: string) => void,
  onCommit: (tookMs: number) => void = () => {},
): Writer {
  const writer = new WorkerWriter(onFatal, onCommit);
  // The listener need not wait for a Worker to start: what is asked meanwhile is kept.
  setTimeout(() => writer.start(options), 0);
  return writer;
}

class WorkerWriter implements Writer {
  blockedBy: Blocked | undefined;
  isBroken = false;
  readonly #onFatal: (message: string) => void;
  readonly #onCommit: (tookMs: number) => void;
  #worker: Worker | undefined;
  #waiting: Waiting[] = [];
  /** How many of those that wait are of these kinds: looking them all through at each write took seconds for many. */
  #waitingEnds = 0;
  #waitingOpens = 0;
  /** What the Worker has been given, a list for each batch: it answers them in their order. */
  readonly #underWay: Batch[] = [];
  #isReady = false;
  #isClosing = false;
  #hasClosed = false;
  /** When the last operation was asked for without knowing that nothing can be written. */
  #askedAtMs = 0;
  #isProbing = false;
  #nextProbe: Timer | undefined;
  #idle: (() => void) | undefined;
  #closed: (() => void) | undefined;

  constructor(onFatal: (message: string) => void, onCommit: (tookMs: number) => void) {
    this.#onFatal = onFatal;
    this.#onCommit = onCommit;
  }

  get queued(): number {
    const underWay = this.#underWay.reduce((sum, { operations }) => sum + operations.length, 0);
    return this.#waiting.length + underWay;
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
    // Whoever tries again and again while another process has the database locked would keep it open for ever.
    if (this.#isClosing) return Promise.reject(new WriteError("refused", "the store is closed"));
    if (this.blockedBy === undefined) this.#askedAtMs = sharedNowMs();
    return new Promise((resolve, reject) => {
      this.#waiting.push({ operation, resolve, reject });
      if (operation.kind === "settleRequest") this.#waitingEnds += 1;
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

  /** Ended without that, the Worker may keep its connection open, and the main one is not the last to close. */
  async #closeConnection(): Promise<void> {
    if (this.isBroken || this.#hasClosed) return;
    await new Promise<void>((resolve) => {
      this.#closed = resolve;
      const close: WriterClose = { kind: "close" };
      this.#worker?.postMessage(close);
    });
  }

  #sendNext(): void {
    const isIdle = this.#isReady && this.#underWay.length === 0 && this.#waiting.length === 0;
    if (this.isBroken || isIdle) this.#idle?.();
    if (this.isBroken || this.#waiting.length === 0 || !this.#maySend()) return;
    const operations = this.#waiting;
    const opensOnly = this.#waitingOpens === operations.length;
    this.#waiting = [];
    this.#waitingEnds = 0;
    this.#waitingOpens = 0;
    this.#underWay.push({ operations, opensOnly, sentAtMs: performance.now() });
    const batch: WriterBatch = {
      operations: encodeOperations(operations.map(({ operation }) => operation)),
      askedAtMs: this.#askedAtMs,
    };
    this.#worker?.postMessage(batch);
  }

  /**
   * While a batch is being committed the next one gathers, so that many operations share a commit. But a batch
   * that only opens requests is followed at once by one that ends any: a provider was faster than the commit,
   * and its answer need not wait for the reply as well.
   */
  #maySend(): boolean {
    const [first, ...more] = this.#underWay;
    if (first === undefined) return this.#isReady;
    return this.#waitingEnds > 0 && more.length === 0 && first.opensOnly;
  }

  #receive(message: WriterMessage): void {
    // The batch that failed gets no replies: later ones would be taken for its own.
    if (this.isBroken) return;
    if (message.kind === "fatal") return this.#fail(message.message);
    if (message.kind === "replies")
      return this.#answer(JSON.parse(message.replies) as WriteReply[]);
    if (message.kind === "closed") return this.#closed?.();
    this.#isReady = true;
    this.#sendNext();
  }

  #answer(replies: readonly WriteReply[]): void {
    const answered = this.#underWay.shift();
    assert(answered !== undefined, "an answer to no batch");
    this.#onCommit(performance.now() - answered.sentAtMs);
    this.#sendNext();
    for (const reply of replies) {
      if (reply.ok) this.blockedBy = undefined;
      else if (isBlocked(reply.failure)) this.blockedBy = reply.failure;
    }
    this.#probeLater();
    answered.operations.forEach((one, at) => answerOne(one, replies[at]));
  }

  /** Nobody else may ask for anything: who balances load sends nothing to a gateway that is unavailable. */
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
      // What it was tried for stands in blockedBy.
    } finally {
      this.#isProbing = false;
    }
  }
}

function answerOne(one: Waiting, reply: WriteReply | undefined): void {
  if (reply?.ok) one.resolve(resultFromWire(reply.result));
  else
    one.reject(
      new WriteError(reply?.failure ?? "refused", reply?.message ?? "the writer gave no answer"),
    );
}
