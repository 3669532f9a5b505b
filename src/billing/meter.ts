import type { OperatorPrice, Price } from "../config/schema.ts";
import type { EndStatus } from "../contract/requestForm.ts";
import { noUsage, type Usage } from "../contract/usage.ts";
import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import type { AttemptRecord, OpenedRequest, RequestEnd, Writer } from "../store/store.ts";
import { commit, voidEnd } from "./commit.ts";
import type { Hold } from "./holds.ts";
import { costOf, operatorCostOf } from "./price.ts";

/** Tokens to be charged, and whether they are our own estimate. */
export interface BilledUsage {
  tokens: Usage;
  estimated: boolean;
}

/** How a request ended. `cancelled`: its client went away. Without `usage` nothing is billed. */
export interface Ending {
  status: EndStatus;
  usage?: BilledUsage | undefined;
  provider?: string | undefined;
  /** The operator's own prices on the route that answered, where configured. */
  operatorPrice?: OperatorPrice | undefined;
}

/** What the books say of an ended request; nano-roubles. */
export interface Receipt {
  status: EndStatus;
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
  readonly isEnding: boolean;
  /**
   * Replaces the hold by the charge in one transaction and resolves once that is committed. Rejects
   * with WriteError when it cannot be: then the answer's end must not leave, and the money stays held
   * until the store can be told that nothing was charged.
   */
  finish(ending: Ending): Promise<Receipt>;
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
  isEnding = false;
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
    this.opened = options.writer.write({ kind: "open", request }).then(() => undefined);
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

  async finish(ending: Ending): Promise<Receipt> {
    const { writer, clock, hold } = this.#options;
    assert(!this.isEnding, "a request is finished twice");
    this.isEnding = true;
    hold.ending();
    try {
      // Without its row there is nothing to end.
      if (this.#openFailure) throw this.#openFailure;
      const end = this.#endOf(ending);
      const isWanted = (): boolean => !this.couldNotOpen;
      const { charge, writeOff } = await commit(writer, clock, { kind: "end", end }, isWanted);
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
    if (this.isEnding) return;
    await this.finish({ status: "failed" }).catch(() => undefined);
  }

  /** Without a row nothing is promised; with one, the store still says that the money is held. */
  async #releaseUncommitted(provider: string | undefined): Promise<void> {
    const { writer, hold } = this.#options;
    const failed = (): RequestEnd => this.#endOf({ status: "failed", provider });
    await Promise.allSettled([this.opened]);
    if (this.couldNotOpen || (await voidEnd(writer, failed))) hold.release();
  }

  #elapsedMs(): number {
    return Math.round(this.#options.clock.monotonicMs() - this.#startedMs);
  }

  #endOf({ status, usage, provider, operatorPrice }: Ending): RequestEnd {
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
    { status, usage, provider }: Ending,
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
