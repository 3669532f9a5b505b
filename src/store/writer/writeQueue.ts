import { assert } from "../../lib/assert.ts";
import { sharedNowMs, type Clock } from "../../lib/clock.ts";
import type { BatchOutcome, WriteReply } from "./outcome.ts";
import {
  type BatchPlanner,
  type BatchTransport,
  type Blocked,
  COMMIT_STEP_MS,
  COMMIT_WITHIN_MS,
  type EndingRequest,
  isBlocked,
  isTemporary,
  WriteError,
  type Writer,
} from "./writer.ts";
import type { WriteOperation, WriteResult } from "./writerMessages.ts";

const PROBE_EVERY_MS = 1000;

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

/** The queue of a writer: it makes batches, tries temporary failures again, and tells the planner what was committed. */
export class WriteQueue implements Writer {
  blockedBy: Blocked | undefined;
  isBroken = false;
  planner: BatchPlanner | undefined;
  readonly #transport: BatchTransport;
  readonly #onFatal: (message: string) => void;
  readonly #onCommit: (tookMs: number) => void;
  readonly #clock: Clock;
  #waiting: PendingWrite[] = [];
  /** The batch that the engine has. The next one waits for its outcome, so that many operations share a commit. */
  #sent: Batch | undefined;
  #isReady = false;
  #isClosing = false;
  /** When the last operation was requested while `blockedBy` was not set. */
  #requestedAtMs = 0;
  #pace: Timer | undefined;
  /** Since when writes fail for a reason that concerns all, in monotonic time. */
  #failingSinceMs: number | undefined;
  /** The latest end of all retries, in monotonic time. */
  #retryUntilMs = Infinity;
  /** Tells that the batch takes too long. */
  #stuck: Timer | undefined;
  #isProbing = false;
  #nextProbe: Timer | undefined;
  #idle: (() => void) | undefined;

  /** `onFatal`: the process must stop. `onCommit` gets the time of each batch and must not throw. */
  constructor(
    transport: BatchTransport,
    {
      onFatal,
      onCommit,
      clock,
    }: { onFatal: (message: string) => void; onCommit: (tookMs: number) => void; clock: Clock },
  ) {
    this.#transport = transport;
    this.#onFatal = onFatal;
    this.#onCommit = onCommit;
    this.#clock = clock;
  }

  get commitWithinMs(): number {
    return this.#transport.commitWithinMs;
  }

  get queued(): number {
    return this.#waiting.length + (this.#sent?.operations.length ?? 0);
  }

  /** Operations that were requested before are queued. */
  start(): void {
    this.#transport.start(
      () => {
        this.#isReady = true;
        this.#sendNext();
      },
      (message) => this.#fail(message),
    );
  }

  write(operation: WriteOperation): Promise<WriteResult> {
    return this.#enqueue(operation, undefined, 0);
  }

  writeWithin(operation: WriteOperation, holds?: EndingRequest["holds"]): Promise<WriteResult> {
    return this.#enqueue(operation, holds, this.#clock.monotonicMs() + this.commitWithinMs);
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

  stopping(): void {
    if (this.#retryUntilMs < Infinity) return;
    this.#retryUntilMs = this.#clock.monotonicMs() + COMMIT_WITHIN_MS;
    this.#transport.stopping?.();
  }

  probe(): void {
    if (!this.#isProbing) void this.#probe();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.stopping();
    clearTimeout(this.#nextProbe);
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
      this.#sendNext();
    });
    await this.#transport.close();
  }

  #sendNext(isAfterBatch = false): void {
    const isIdle = this.#isReady && !this.#sent && this.#waiting.length === 0;
    if (this.isBroken || isIdle) this.#idle?.();
    if (this.isBroken || isIdle || this.#sent || this.#pace || !this.#isReady) return;
    const delayMs = this.#transport.delayMs(this.#waiting.length, isAfterBatch);
    if (delayMs === 0 || this.#isClosing) return this.#send();
    this.#pace = setTimeout(() => {
      this.#pace = undefined;
      this.#send();
    }, delayMs);
  }

  #send(): void {
    if (this.isBroken) return;
    const operations = this.#takePayable();
    if (operations.length === 0) return this.#sendNext();
    this.#sent = { operations, sentAtMs: performance.now() };
    this.#watch();
    // A bug throws here. Without this batch nothing more would be written, and no answer would end.
    const fail = (error: unknown): void =>
      this.#fail(error instanceof Error ? error.message : String(error));
    try {
      const batch = {
        operations: operations.map(({ operation }) => operation),
        reserves: this.planner?.planBatch(operations.flatMap(endingOf)) ?? [],
        requestedAtMs: this.#requestedAtMs,
      };
      this.#transport
        .run(batch)
        .then((outcome) => this.#batchEnded(outcome))
        .catch(fail);
    } catch (error) {
      fail(error);
    }
  }

  /** A commit whose outcome is unknown may keep a batch for as long as the server cannot be asked. */
  #watch(): void {
    const { patienceMs } = this.#transport;
    if (patienceMs === 0) return;
    this.#stuck = setTimeout(() => {
      this.#failingSinceMs ??= this.#clock.monotonicMs() - patienceMs;
      this.blockedBy ??= "unreachable";
    }, patienceMs).unref();
  }

  /** Takes what waits, without the charges whose holds are void. The lease does not change until the batch has begun. */
  #takePayable(): readonly PendingWrite[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    const { planner } = this;
    if (planner?.isVoid === undefined) return waiting;
    const payable: PendingWrite[] = [];
    for (const pending of waiting) {
      const { ending } = pending;
      if (ending && ending.charge > 0n && planner.isVoid(ending.holds))
        pending.reject(new WriteError("fenced", "the lease of its hold is lost"));
      else payable.push(pending);
    }
    return payable;
  }

  #batchEnded({ replies, effects, reserveFailure, accountFailures }: BatchOutcome): void {
    const batch = this.#sent;
    assert(batch !== undefined, "a reply to no batch");
    clearTimeout(this.#stuck);
    this.#onCommit(performance.now() - batch.sentAtMs);
    const ended: EndingRequest[] = [];
    batch.operations.forEach(({ ending, operation }, index) => {
      const reply = replies[index];
      if (!reply?.ok) {
        if (reply && isBlocked(reply.failure)) this.#failed(reply.failure);
        return;
      }
      if (ending) ended.push(ending);
      if (!needsRoom(operation)) return;
      this.blockedBy = undefined;
      this.#failingSinceMs = undefined;
    });
    const failures = [...(accountFailures ?? [])].map(
      ([id, failed]) => [id, errorOf(failed)] as const,
    );
    const failure = reserveFailure && errorOf(reserveFailure);
    // The planner may write while it is told. That must not plan the next batch before this one is told whole.
    this.planner?.batchEnded(effects, ended, failure, new Map(failures));
    this.#sent = undefined;
    this.#sendNext(true);
    this.#probeLater();
    batch.operations.forEach((pending, index) => {
      const reply = replies[index];
      if (reply?.ok) pending.resolve(reply.result);
      else this.#writeFailed(pending, errorOf(reply));
    });
  }

  /** `blockedBy` refuses all requests, so a failure that may end in a moment does not set it. */
  #failed(failure: Blocked): void {
    const nowMs = this.#clock.monotonicMs();
    this.#failingSinceMs ??= nowMs;
    const isLong = nowMs - this.#failingSinceMs >= this.#transport.patienceMs;
    if (failure === "full" || isLong) this.blockedBy = failure;
  }

  #writeFailed(pending: PendingWrite, error: WriteError): void {
    const untilMs = Math.min(pending.retryUntilMs, this.#retryUntilMs);
    const mayRetry = isTemporary(error) && this.#clock.monotonicMs() < untilMs;
    if (!mayRetry || this.#isClosing) return pending.reject(error);
    setTimeout(() => {
      if (this.#isClosing) return pending.reject(error);
      this.#waiting.push(pending);
      this.#sendNext();
    }, COMMIT_STEP_MS);
  }

  /** A load balancer sends no requests to an unavailable gateway, so no other write would clear `blockedBy`. */
  #probeLater(): void {
    if (this.#failingSinceMs === undefined || this.#isClosing) {
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
