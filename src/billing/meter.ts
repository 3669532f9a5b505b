import type { OperatorPrice, Price } from "../config/schema.ts";
import type { FinalStatus } from "../contract/account/requestStatus.ts";
import { noUsage, type Usage } from "../contract/usage.ts";
import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import {
  type AttemptRecord,
  type OpenedRequest,
  type RequestSettlement,
  type Writer,
  isBlocked,
  WriteError,
  type WriteOperation,
  type WriteResult,
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
  /** Resolves when the request's row is committed. Await it before the first byte to the client. */
  readonly opened: Promise<void>;
  /** True if the request's row could not be committed. The request must not go on. */
  readonly couldNotOpen: boolean;
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
   * Replaces the hold by the charge in one transaction. Resolves when it is committed. Rejects with WriteError if it
   * cannot be: the end of the answer must not be sent then, and the money stays held until the database has recorded that
   * nothing was charged.
   */
  settle(outcome: RequestOutcome): Promise<Receipt>;
  /** Settles the request as failed, unless it is settled. For bugs of the gateway. Never rejects. */
  abandon(): Promise<void>;
}

/** The request's row without hold and prices. */
type MeteredRequest = Pick<
  OpenedRequest,
  "publicId" | "at" | "accountId" | "keyId" | "endpoint" | "model" | "stream"
>;

interface MeterOptions {
  readonly writer: Writer;
  readonly clock: Clock;
  readonly hold: Hold;
  readonly price: Price;
  readonly request: MeteredRequest;
  /** Called once with the committed receipt, or with a failed one if it cannot be committed. Must not throw. */
  onSettled(receipt: Receipt): void;
}

/** The meter of one request. Its constructor queues the request's row. It does not retain the body. */
export class RequestMeter implements Meter {
  readonly opened: Promise<void>;
  pausedMs = 0;
  isSettling = false;
  readonly #options: MeterOptions;
  readonly #startedMs: number;
  readonly #attempts: AttemptRecord[] = [];
  #firstByteMs: number | undefined;
  #firstContentMs: number | undefined;
  /** Why the request's row could not be committed. */
  #openFailure: Error | undefined;

  constructor(options: MeterOptions) {
    this.#options = options;
    this.#startedMs = options.clock.monotonicMs();
    const request = openedRequest(options);
    this.opened = options.writer.write({ kind: "openRequest", request }).then(() => undefined);
    this.opened.catch((error: Error) => {
      this.#openFailure = error;
    });
  }

  get couldNotOpen(): boolean {
    return this.#openFailure !== undefined;
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
    hold.startSettling();
    try {
      if (this.#openFailure) throw this.#openFailure;
      const end = this.#settlementOf(outcome);
      const isWanted = (): boolean => !this.couldNotOpen;
      const { charge, writeOff } = await commit(
        writer,
        clock,
        { kind: "settleRequest", settlement: end },
        isWanted,
      );
      hold.release();
      const receipt = this.#receiptOf(outcome, end.durationMs, { charge, writeOff });
      this.#options.onSettled(receipt);
      return receipt;
    } catch (error) {
      const { provider } = outcome;
      const receipt = this.#receiptOf({ status: "failed", provider }, this.#elapsedMs());
      this.#options.onSettled(receipt);
      void this.#releaseUncommitted(provider);
      throw this.#openFailure ?? error;
    }
  }

  async abandon(): Promise<void> {
    if (this.isSettling) return;
    await this.settle({ status: "failed" }).catch(() => undefined);
  }

  /** Releases the hold when the database does not hold the money for this request any more. */
  async #releaseUncommitted(provider: string | undefined): Promise<void> {
    const { writer, hold } = this.#options;
    const failed = (): RequestSettlement => this.#settlementOf({ status: "failed", provider });
    await Promise.allSettled([this.opened]);
    if (this.couldNotOpen || (await settleAsFailed(writer, failed))) hold.release();
  }

  #elapsedMs(): number {
    return Math.round(this.#options.clock.monotonicMs() - this.#startedMs);
  }

  #settlementOf({ status, usage, provider, operatorPrice }: RequestOutcome): RequestSettlement {
    const { clock, price, request } = this.#options;
    const tokens = usage?.tokens ?? noUsage;
    return {
      publicId: request.publicId,
      at: clock.epochMs(),
      status,
      provider: provider ?? null,
      ...tokens,
      cost: costOf(tokens, price),
      estimated: usage?.estimated ?? false,
      operatorCost: operatorPrice && usage ? operatorCostOf(tokens, operatorPrice) : null,
      attempts: this.#attempts,
      durationMs: this.#elapsedMs(),
      firstByteMs: this.#firstByteMs ?? null,
    };
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

function openedRequest({ request, hold, price }: MeterOptions): OpenedRequest {
  return {
    ...request,
    priceInput: price.input,
    priceCachedInput: price.cachedInput,
    priceCacheWrite: price.cacheWrite,
    priceOutput: price.output,
    hold: hold.amount,
    heldTotal: hold.heldTotal,
  };
}

/** How long the end of an answer waits for a full disk or a locked database, in milliseconds. */
const COMMIT_WITHIN_MS = 10_000;
const COMMIT_STEP_MS = 200;
const VOID_STEP_MS = 1000;

/**
 * Commits an operation that an answer waits for. Retries while the disk is full or another process holds a lock. Calls
 * `isWanted` before each retry. Rejects with WriteError.
 */
export async function commit(
  writer: Writer,
  clock: Clock,
  operation: WriteOperation,
  isWanted: () => boolean = () => true,
): Promise<WriteResult> {
  const giveUpAtMs = clock.monotonicMs() + COMMIT_WITHIN_MS;
  for (;;) {
    try {
      return await writer.write(operation);
    } catch (error) {
      if (!isTemporary(error) || clock.monotonicMs() >= giveUpAtMs) throw error;
      await Bun.sleep(COMMIT_STEP_MS);
      if (!isWanted()) throw error;
    }
  }
}

/**
 * Settles a request as failed after its settlement could not be committed: the client received no complete answer, so
 * nothing is charged. `failed` creates the settlement. Resolves with true when it is committed, with false if it never
 * will be.
 */
async function settleAsFailed(writer: Writer, failed: () => RequestSettlement): Promise<boolean> {
  for (;;) {
    await Bun.sleep(VOID_STEP_MS);
    try {
      await writer.write({ kind: "settleRequest", settlement: failed() });
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

type OpenMeter = Pick<Meter, "abandon" | "isSettling" | "pausedMs">;

export function createOpenMeters(clock: Clock): OpenMeters {
  const open = new Map<string, { meter: OpenMeter; dueMs: number }>();
  let overdue: ReadonlySet<string> = new Set();
  return {
    add(requestId, meter, withinMs) {
      open.set(requestId, { meter, dueMs: clock.monotonicMs() + withinMs });
    },
    remove: (requestId) => void open.delete(requestId),
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
        void meter.abandon();
      }
      return leaked.map(([requestId]) => requestId);
    },
  };
}
