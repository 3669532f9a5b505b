import type { OperatorPrice, Price } from "../config/schema.ts";
import type { FinalStatus } from "../contract/account/requestStatus.ts";
import { noUsage, type Usage } from "../contract/usage.ts";
import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import {
  type AdmittedRecord,
  type AttemptRecord,
  type RequestRecord,
  type Writer,
  isBlocked,
  WriteError,
  type WriteOperation,
} from "../store/store.ts";
import type { Hold } from "./holds.ts";
import { costOf, operatorCostOf } from "./cost.ts";

/** Tokens to be charged, and whether they are our own estimate. */
export interface BilledUsage {
  tokens: Usage;
  estimated: boolean;
}

/** How a request ended. `cancelled`: the client disconnected. Without `usage` nothing is charged. */
export interface RequestOutcome {
  status: FinalStatus;
  usage?: BilledUsage | undefined;
  provider?: string | undefined;
  /** What the operator pays on the route that answered, if configured. */
  operatorPrice?: OperatorPrice | undefined;
}

/** The record of a settled request. Amounts are nano-roubles. */
export interface Receipt {
  status: FinalStatus;
  usage: Usage;
  estimated: boolean;
  charge: bigint;
  writeOff: bigint;
  provider: string | undefined;
  attempts: readonly AttemptRecord[];
  durationMs: number;
  /** From the start of the request to the first byte for the client. */
  firstByteMs: number | undefined;
  /** From the start of the attempt that answered to its first content. */
  firstContentMs: number | undefined;
}

/** Measures one request from its hold to its settlement. It is settled exactly once. */
export interface Meter {
  /** `Hold.secured` of the request's hold: await it before the first byte to the client. */
  readonly secured: Promise<void> | undefined;
  /** True if the hold could not be secured. The request must not go on. */
  readonly couldNotSecure: boolean;
  /** Records an attempt that ended. */
  attempted(attempt: AttemptRecord): void;
  /** Records the time of the first byte. `attemptMs`: since the start of the attempt that answers. Call it once. */
  firstByte(attemptMs: number): void;
  /** Adds a time in which the client applied backpressure. */
  addPause(forMs: number): void;
  /** The sum of these times. */
  readonly pausedMs: number;
  /** `settle` was called. The settlement may not be committed yet. */
  readonly isSettling: boolean;
  /**
   * Writes the request with its charge and releases the hold, in one step. Resolves when it is committed. Rejects with
   * WriteError if it cannot be: the end of the answer must not be sent then, and the money stays held until the database
   * has recorded that nothing was charged.
   */
  settle(outcome: RequestOutcome): Promise<Receipt>;
  /** Writes the row of the running request, so that commands show it. Once, after the request was open for a while. */
  writeRow(): void;
  /** Settles the request as failed, unless it is settled. For bugs of the gateway. Never rejects. */
  abandon(): Promise<void>;
}

interface MeterOptions {
  readonly writer: Writer;
  readonly clock: Clock;
  readonly hold: Hold;
  readonly price: Price;
  readonly request: AdmittedRecord;
  /** Called once with the committed receipt, or with a failed one if it cannot be committed. Must not throw. */
  onSettled(receipt: Receipt): void;
}

/** The part of a record that changes from the admission to the end. */
type RecordedOutcome = Omit<RequestRecord, keyof AdmittedRecord>;

/** The meter of one request. It does not retain the body. */
export class RequestMeter implements Meter {
  couldNotSecure = false;
  pausedMs = 0;
  isSettling = false;
  readonly #options: MeterOptions;
  readonly #startedMs: number;
  readonly #attempts: AttemptRecord[] = [];
  #firstByteMs: number | undefined;
  #firstContentMs: number | undefined;
  #mayHaveRow = false;

  constructor(options: MeterOptions) {
    this.#options = options;
    this.#startedMs = options.clock.monotonicMs();
    options.hold.secured?.catch(() => {
      this.couldNotSecure = true;
    });
  }

  get secured(): Promise<void> | undefined {
    return this.#options.hold.secured;
  }

  attempted(attempt: AttemptRecord): void {
    this.#attempts.push(attempt);
  }

  firstByte(attemptMs: number): void {
    this.#firstByteMs = this.#elapsedMs();
    this.#firstContentMs = attemptMs;
  }

  addPause(forMs: number): void {
    this.pausedMs += forMs;
  }

  async settle(outcome: RequestOutcome): Promise<Receipt> {
    const { writer, clock, hold } = this.#options;
    assert(!this.isSettling, "a request is settled twice");
    this.isSettling = true;
    const holds = [hold];
    try {
      if (hold.secured !== undefined) await hold.secured;
      const cost = costOf(outcome.usage?.tokens ?? noUsage, this.#options.price);
      const charge = cost <= hold.amount ? cost : await this.#chargeBeyondHold(cost, holds);
      const record = this.#recordOf(outcome, charge, cost - charge);
      await commit(writer, clock, { kind: "recordRequest", record }, holds);
      const receipt = this.#receiptOf(outcome, record.durationMs ?? 0, record);
      this.#options.onSettled(receipt);
      return receipt;
    } catch (error) {
      const { provider } = outcome;
      const receipt = this.#receiptOf({ status: "failed", provider }, this.#elapsedMs());
      this.#options.onSettled(receipt);
      void this.#releaseUncommitted(provider, holds);
      throw error;
    }
  }

  writeRow(): void {
    if (this.isSettling || this.#mayHaveRow || this.#options.hold.secured !== undefined) return;
    this.#mayHaveRow = true;
    const record: RequestRecord = { ...this.#options.request, ...NOT_ENDED };
    // Without its row the request only stays out of the lists while it runs.
    this.#options.writer.write({ kind: "recordRequest", record }).catch(() => undefined);
  }

  async abandon(): Promise<void> {
    if (this.isSettling) return;
    await this.settle({ status: "failed" }).catch(() => undefined);
  }

  /** Charges more than was held, as far as no other request holds the money. Adds what it holds to `holds`. */
  async #chargeBeyondHold(cost: bigint, holds: Hold[]): Promise<bigint> {
    const { hold } = this.#options;
    const more = hold.extend(cost - hold.amount);
    if (more === undefined) return hold.amount;
    try {
      await more.secured;
    } catch {
      more.release();
      return hold.amount;
    }
    holds.push(more);
    return hold.amount + more.amount;
  }

  /** Releases the holds when it is certain that the request is not charged. */
  async #releaseUncommitted(provider: string | undefined, holds: readonly Hold[]): Promise<void> {
    const failed = (): RequestRecord => this.#recordOf({ status: "failed", provider }, 0n, 0n);
    const isRecorded =
      !this.couldNotSecure && (await recordAsFailed(this.#options.writer, failed, holds));
    if (!isRecorded) for (const hold of holds) hold.release();
  }

  #elapsedMs(): number {
    return Math.round(this.#options.clock.monotonicMs() - this.#startedMs);
  }

  #recordOf(
    { status, usage, provider, operatorPrice }: RequestOutcome,
    charge: bigint,
    writeOff: bigint,
  ): RequestRecord {
    const tokens = usage?.tokens ?? noUsage;
    const outcome: RecordedOutcome = {
      status,
      mayHaveRow: this.#mayHaveRow,
      provider: provider ?? null,
      charge,
      writeOff,
      promptTokens: tokens.promptTokens,
      cachedTokens: tokens.cachedTokens,
      cacheWriteTokens: tokens.cacheWriteTokens,
      completionTokens: tokens.completionTokens,
      estimated: usage?.estimated ?? false,
      operatorCost: operatorPrice && usage ? operatorCostOf(tokens, operatorPrice) : null,
      attempts: this.#attempts,
      durationMs: this.#elapsedMs(),
      firstByteMs: this.#firstByteMs ?? null,
    };
    return { ...this.#options.request, ...outcome };
  }

  #receiptOf(
    { status, usage, provider }: RequestOutcome,
    durationMs: number,
    { charge, writeOff }: Pick<Receipt, "charge" | "writeOff"> = { charge: 0n, writeOff: 0n },
  ): Receipt {
    return {
      status,
      usage: usage?.tokens ?? noUsage,
      estimated: usage?.estimated ?? false,
      charge,
      writeOff,
      provider,
      attempts: this.#attempts,
      durationMs,
      firstByteMs: this.#firstByteMs,
      firstContentMs: this.#firstContentMs,
    };
  }
}

const NOT_ENDED: RecordedOutcome = {
  status: "running",
  mayHaveRow: false,
  provider: null,
  charge: 0n,
  writeOff: 0n,
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  completionTokens: 0,
  estimated: false,
  operatorCost: null,
  attempts: [],
  durationMs: null,
  firstByteMs: null,
};

/** How long the end of an answer waits for a full disk or a locked database, in milliseconds. */
const COMMIT_WITHIN_MS = 10_000;
const COMMIT_STEP_MS = 200;
const VOID_STEP_MS = 1000;

/**
 * Commits an operation that an answer waits for. Retries while the disk is full or another process holds a lock. Rejects
 * with WriteError. `holds`: what the end of a request releases.
 */
export async function commit(
  writer: Writer,
  clock: Clock,
  operation: WriteOperation,
  holds?: readonly Hold[],
): Promise<void> {
  const giveUpAtMs = clock.monotonicMs() + COMMIT_WITHIN_MS;
  for (;;) {
    try {
      await writer.write(operation, holds);
      return;
    } catch (error) {
      if (!isTemporary(error) || clock.monotonicMs() >= giveUpAtMs) throw error;
      await Bun.sleep(COMMIT_STEP_MS);
    }
  }
}

/**
 * Records a request as failed after its end could not be committed: the client received no complete answer, so nothing
 * is charged. `failed` creates the record. Resolves with true when it is committed, with false if it never will be.
 */
async function recordAsFailed(
  writer: Writer,
  failed: () => RequestRecord,
  holds: readonly Hold[],
): Promise<boolean> {
  for (;;) {
    await Bun.sleep(VOID_STEP_MS);
    try {
      await writer.write({ kind: "recordRequest", record: failed() }, holds);
      return true;
    } catch (error) {
      if (!isTemporary(error)) return false;
    }
  }
}

function isTemporary(error: unknown): boolean {
  return error instanceof WriteError && isBlocked(error.failure);
}

/**
 * The meters of all open requests. The path of a request settles its meter. A bug could leave one open, which would hold
 * the account's money until the next start, so leaked meters are looked for.
 */
export interface OpenMeters {
  /**
   * `withinMs`: the longest time that the request can take. Backpressure of the client is added to it.
   */
  add(requestId: string, meter: OpenMeter, withinMs: number): void;
  remove(requestId: string): void;
  /** Open meters, those that are settling included. */
  readonly count: number;
  /** Meters that wait for their settlement to be committed. */
  readonly settlingCount: number;
  /**
   * Settles meters as failed that were overdue at the previous call too. After a standstill of the process the requests'
   * own time limits act first. Nothing is charged. Returns the request ids.
   */
  settleLeaked(): readonly string[];
}

type OpenMeter = Pick<Meter, "abandon" | "isSettling" | "pausedMs" | "writeRow">;

/** A request that is open for this time gets its row before it ends. */
const LATE_ROW_MS = 1000;
/** Rows that are due within this time are written in one group. */
const LATE_ROW_GROUP_MS = 50;

export function createOpenMeters(clock: Clock): OpenMeters {
  const open = new Map<string, { meter: OpenMeter; dueMs: number }>();
  /** Requests without a row, the oldest first, with the time at which it is due. */
  const rowless = new Map<string, { meter: OpenMeter; rowDueMs: number }>();
  let rowTimer: Timer | undefined;
  let overdue: ReadonlySet<string> = new Set();
  const writeRows = (): void => {
    rowTimer = undefined;
    const nowMs = clock.monotonicMs();
    for (const [requestId, { meter, rowDueMs }] of rowless) {
      if (rowDueMs > nowMs) {
        rowTimer = setTimeout(writeRows, rowDueMs - nowMs + LATE_ROW_GROUP_MS).unref();
        return;
      }
      rowless.delete(requestId);
      meter.writeRow();
    }
  };
  return {
    add(requestId, meter, withinMs) {
      const nowMs = clock.monotonicMs();
      open.set(requestId, { meter, dueMs: nowMs + withinMs });
      rowless.set(requestId, { meter, rowDueMs: nowMs + LATE_ROW_MS });
      rowTimer ??= setTimeout(writeRows, LATE_ROW_MS).unref();
    },
    remove(requestId) {
      open.delete(requestId);
      rowless.delete(requestId);
    },
    get count() {
      return open.size;
    },
    get settlingCount() {
      return open.values().reduce((sum, { meter }) => sum + (meter.isSettling ? 1 : 0), 0);
    },
    settleLeaked() {
      const nowMs = clock.monotonicMs();
      const late = [...open].filter(([, { meter, dueMs }]) => dueMs + meter.pausedMs <= nowMs);
      const leaked = late.filter(([requestId]) => overdue.has(requestId));
      overdue = new Set(late.map(([requestId]) => requestId));
      for (const [requestId, { meter }] of leaked) {
        open.delete(requestId);
        rowless.delete(requestId);
        void meter.abandon();
      }
      return leaked.map(([requestId]) => requestId);
    },
  };
}
