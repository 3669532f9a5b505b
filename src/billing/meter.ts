import type { OperatorPrice, Price } from "../config/schema.ts";
import type { FinalStatus } from "../contract/requestForm.ts";
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

/** How a request ended. `cancelled`: its client went away. Without `usage` nothing is billed. */
export interface RequestOutcome {
  status: FinalStatus;
  usage?: BilledUsage | undefined;
  provider?: string | undefined;
  /** The operator's own prices on the route that answered, where configured. */
  operatorPrice?: OperatorPrice | undefined;
}

/** What the books say of an ended request; nano-roubles. */
export interface Receipt {
  status: FinalStatus;
  usage: Usage;
  estimated: boolean;
  charge: bigint;
  writeOff: bigint;
  provider: string | undefined;
  attempts: readonly AttemptRecord[];
  durationMs: number;
  firstByteMs: number | undefined;
  /** The same from the start of the attempt that answered. */
  firstContentMs: number | undefined;
}

/** The taximeter of one request: started with its hold, finished exactly once. */
export interface Meter {
  /** Resolves once the request's row is committed; awaited before the first byte to the client. */
  readonly opened: Promise<void>;
  /** The request's row could not be committed: nothing may be done for it any more. */
  readonly couldNotOpen: boolean;
  /** An attempt is over. */
  attempted(attempt: AttemptRecord): void;
  /** The first byte for the client is there, so long after the start of the attempt that answers; once. */
  firstByte(attemptMs: number): void;
  /** The client, which did not take what it was sent for so long, took it. */
  paused(forMs: number): void;
  /** How long all such pauses were together. */
  readonly pausedMs: number;
  /** Its end was asked for, and may not be committed yet. */
  readonly isSettling: boolean;
  /**
   * Replaces the hold by the charge in one transaction and resolves once that is committed. Rejects
   * with WriteError when it cannot be: then the answer's end must not leave, and the money stays held
   * until the store can be told that nothing was charged.
   */
  settle(ending: RequestOutcome): Promise<Receipt>;
  /** The last resort after a fault of our own: ends the request as failed if nothing has. Never rejects. */
  abandon(): Promise<void>;
}

/** What the row of a request says besides its hold and its prices. */
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
  /** Told once how the request ended: as it is committed, or as failed where it cannot be. Must not throw. */
  ended(receipt: Receipt): void;
}

/** The meter of one request. It opens the request in the books as it is made, and refers to nothing of its body. */
export class RequestMeter implements Meter {
  readonly opened: Promise<void>;
  pausedMs = 0;
  isSettling = false;
  readonly #options: MeterOptions;
  readonly #startedMs: number;
  readonly #attempts: AttemptRecord[] = [];
  #firstByteMs: number | undefined;
  #firstContentMs: number | undefined;
  /** Why there is no row, which says more than that there is none to end. */
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

  paused(forMs: number): void {
    this.pausedMs += forMs;
  }

  async settle(ending: RequestOutcome): Promise<Receipt> {
    const { writer, clock, hold } = this.#options;
    assert(!this.isSettling, "a request is finished twice");
    this.isSettling = true;
    hold.ending();
    try {
      // Without its row there is nothing to end.
      if (this.#openFailure) throw this.#openFailure;
      const end = this.#endOf(ending);
      const isWanted = (): boolean => !this.couldNotOpen;
      const { charge, writeOff } = await commit(
        writer,
        clock,
        { kind: "settleRequest", settlement: end },
        isWanted,
      );
      hold.release();
      const receipt = this.#receiptOf(ending, end.durationMs, { charge, writeOff });
      this.#options.ended(receipt);
      return receipt;
    } catch (error) {
      const { provider } = ending;
      const receipt = this.#receiptOf({ status: "failed", provider }, this.#elapsedMs());
      this.#options.ended(receipt);
      void this.#releaseUncommitted(provider);
      throw this.#openFailure ?? error;
    }
  }

  async abandon(): Promise<void> {
    if (this.isSettling) return;
    await this.settle({ status: "failed" }).catch(() => undefined);
  }

  /** Without a row nothing is promised; with one, the store still says that the money is held. */
  async #releaseUncommitted(provider: string | undefined): Promise<void> {
    const { writer, hold } = this.#options;
    const failed = (): RequestSettlement => this.#endOf({ status: "failed", provider });
    await Promise.allSettled([this.opened]);
    if (this.couldNotOpen || (await voidEnd(writer, failed))) hold.release();
  }

  #elapsedMs(): number {
    return Math.round(this.#options.clock.monotonicMs() - this.#startedMs);
  }

  #endOf({ status, usage, provider, operatorPrice }: RequestOutcome): RequestSettlement {
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
    promised: hold.promised,
  };
}

/** How long the end of an answer waits for a store that is full or locked. */
const COMMIT_WITHIN_MS = 10_000;
const COMMIT_STEP_MS = 200;
const VOID_STEP_MS = 1000;

/**
 * Commits what an answer has to wait for, patient with a disk that is full and a lock that another process
 * holds. `isWanted` is asked before each further try. Rejects with WriteError.
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
      if (!isPassing(error) || clock.monotonicMs() >= giveUpAtMs) throw error;
      await Bun.sleep(COMMIT_STEP_MS);
      if (!isWanted()) throw error;
    }
  }
}

/**
 * After an end that could not be committed the client got no answer that looks whole, so nothing is
 * charged: `failed` makes out that end. Resolves with true once the store knows; with false where it never will.
 */
async function voidEnd(writer: Writer, failed: () => RequestSettlement): Promise<boolean> {
  for (;;) {
    await Bun.sleep(VOID_STEP_MS);
    try {
      await writer.write({ kind: "settleRequest", settlement: failed() });
      return true;
    } catch (error) {
      if (!isPassing(error)) return false;
    }
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof WriteError && isBlocked(error.failure);
}

/**
 * The meters that run. Each is finished by the path of its request; one that a fault of ours forgot would keep
 * its account's money until the next start, so somebody looks.
 */
export interface OpenMeters {
  /**
   * `withinMs`: by then the request must have ended, whatever its providers do. What its client paused is on
   * top of that: the end of an answer that its provider has long sent is the client's to take.
   */
  add(requestId: string, meter: OpenMeter, withinMs: number): void;
  remove(requestId: string): void;
  /** How many run, those that are ending included. */
  readonly count: number;
  /** How many of them wait for their end to be committed. */
  readonly settlingCount: number;
  /**
   * Ends those as failed that were overdue at the last look already: after a standstill of the process the
   * requests' own time limits come first. Nothing is charged. Returns the requests' ids.
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
      const forgotten = late.filter(([requestId]) => overdue.has(requestId));
      overdue = new Set(late.map(([requestId]) => requestId));
      for (const [requestId, { meter }] of forgotten) {
        open.delete(requestId);
        void meter.abandon();
      }
      return forgotten.map(([requestId]) => requestId);
    },
  };
}
