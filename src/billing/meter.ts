import type { FinalStatus } from "../contract/account/requestStatus.ts";
import { tierOf, type PriceList, type PriceTier, type ServiceTier } from "../contract/priceList.ts";
import { noUsage, type Usage } from "../contract/usage.ts";
import { assert } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { formatRoubles } from "../lib/money.ts";
import {
  type AdmittedRecord,
  type AttemptRecord,
  type RequestRecord,
  type Writer,
  COMMIT_STEP_MS,
  isTemporary,
} from "../store/store.ts";
import type { Hold } from "./hold.ts";
import { cacheSaving, costOf } from "./cost.ts";
import type { OpenMeters } from "./openMeters.ts";

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
  /** The service tier of the answer. Undefined: the standard one. */
  service?: ServiceTier | undefined;
  /** The model whose route answered: a fallback, or the one that was asked for. It is recorded and charged. */
  sold?: SoldModel | undefined;
}

/** A model as it is sold on one route. */
export interface SoldModel {
  readonly model: string;
  readonly prices: PriceList;
  /** What the operator pays on the route, if configured. */
  readonly costs: PriceList | undefined;
}

/** The record of a settled request. Amounts are nano-roubles. */
export interface Receipt {
  status: FinalStatus;
  /** The model that answered, else the one that was asked for. */
  model: string;
  usage: Usage;
  estimated: boolean;
  charge: bigint;
  /** The charge in roubles, as answers and logs show it. */
  chargeRub: string;
  writeOff: bigint;
  /** What the prompt cache saved: negative where its writes cost more. Null: the operator's costs are not known. */
  cacheSaved: bigint | null;
  operatorSaved: bigint | null;
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
  /** `Hold.secured` of the request's hold: await it before the first byte to the client. Set: the request must not go on. */
  readonly secured: Promise<void> | undefined;
  /** Records an attempt that ended. */
  attempted(attempt: AttemptRecord): void;
  /** Records the time of the first byte. `attemptMs`: since the start of the attempt that answers. Call it once. */
  firstByte(attemptMs: number): void;
  /** The request may take longer: its client applied backpressure, or its answer is still being written. */
  allowMore(forMs: number): void;
  /** The sum of these times. */
  readonly allowedMoreMs: number;
  /** `settle` was called. The settlement may not be committed yet. */
  readonly isSettling: boolean;
  /**
   * Writes the request with its charge and releases the hold, in one step. Resolves when it is committed. Rejects with
   * WriteError if it cannot be: the end of the answer must not be sent then. The money stays held until the database
   * has recorded that nothing was charged.
   */
  settle(outcome: RequestOutcome): Promise<Receipt>;
  /**
   * Writes the row of the running request, so that commands show it. Once, after the request was open for a while.
   */
  writeRow(): void;
  /** Settles the request as failed, unless it is settled. For bugs of the gateway. Never rejects. */
  abandon(): Promise<void>;
}

interface MeterOptions {
  readonly writer: Writer;
  readonly clock: Clock;
  readonly hold: Hold;
  /** Those of the model that the request asks for. */
  readonly prices: PriceList;
  readonly request: AdmittedRecord;
  /** The longest time that the request can take. `allowMore` adds to it. */
  readonly withinMs: number;
  readonly open: OpenMeters;
  /** Called once with the committed receipt, or with a failed one if it cannot be committed. Must not throw. */
  onSettled(receipt: Receipt): void;
}

/** The part of a record that every end of a request changes. */
type RecordedOutcome = Omit<RequestRecord, keyof AdmittedRecord | "pricing">;

/** The meter of one request. It is open until it is settled. It does not retain the body. */
export class RequestMeter implements Meter {
  allowedMoreMs = 0;
  isSettling = false;
  readonly #options: MeterOptions;
  readonly requestId: string;
  /** When the request was admitted, and when it is overdue if the client never paused, in monotonic time. */
  readonly startedMs: number;
  readonly dueMs: number;
  readonly #attempts: AttemptRecord[] = [];
  #firstByteMs: number | undefined;
  #firstContentMs: number | undefined;
  #mayHaveRow = false;

  constructor(options: MeterOptions) {
    this.#options = options;
    this.requestId = options.request.publicId;
    this.startedMs = options.clock.monotonicMs();
    this.dueMs = this.startedMs + options.withinMs;
    options.open.add(this);
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

  allowMore(forMs: number): void {
    this.allowedMoreMs += forMs;
  }

  async settle(outcome: RequestOutcome): Promise<Receipt> {
    const { writer, hold } = this.#options;
    assert(!this.isSettling, "a request is settled twice");
    this.isSettling = true;
    const holds = [hold];
    try {
      if (hold.secured !== undefined) await hold.secured;
      const usage = outcome.usage?.tokens ?? noUsage;
      const tier = this.#tierOf(outcome);
      const cost = costOf(usage, tier.price);
      const charge = cost <= hold.amount ? cost : await this.#chargeBeyondHold(cost, holds);
      const record = this.#recordOf(outcome, tier, charge, cost - charge);
      await writer.writeWithin({ kind: "recordRequest", record }, holds);
      const receipt = this.#receiptOf(outcome, record.durationMs ?? 0, record);
      this.#settled(receipt);
      return receipt;
    } catch (error) {
      const { provider } = outcome;
      const receipt = this.#receiptOf({ status: "failed", provider }, this.#elapsedMs());
      this.#settled(receipt);
      void this.#releaseUncommitted(provider, holds);
      throw error;
    }
  }

  writeRow(): void {
    if (this.isSettling || this.#mayHaveRow || this.#options.hold.secured !== undefined) return;
    this.#mayHaveRow = true;
    const { request, prices } = this.#options;
    const pricing = prices.standard[0].note;
    const record: RequestRecord = { ...request, pricing, ...NOT_ENDED };
    // Without its row the request only stays out of the lists while it runs.
    this.#options.writer.write({ kind: "recordRequest", record }).catch(() => undefined);
  }

  async abandon(): Promise<void> {
    if (this.isSettling) return;
    await this.settle({ status: "failed" }).catch(() => undefined);
  }

  #settled(receipt: Receipt): void {
    this.#options.open.remove(this);
    this.#options.onSettled(receipt);
  }

  /**
   * Charges more than was held, as far as no other request holds the money. Adds what it holds to `holds`. Rejects with
   * WriteError if the database cannot be written for too long.
   */
  async #chargeBeyondHold(cost: bigint, holds: Hold[]): Promise<bigint> {
    const { hold, clock } = this.#options;
    const giveUpAtMs = clock.monotonicMs() + this.#options.writer.commitWithinMs;
    for (;;) {
      const more = hold.extend(cost - hold.amount);
      if (more === undefined) return hold.amount;
      try {
        await more.secured;
        holds.push(more);
        return hold.amount + more.amount;
      } catch (error) {
        more.release();
        // No money is free.
        if (!isTemporary(error)) return hold.amount;
        if (clock.monotonicMs() >= giveUpAtMs) throw error;
      }
      await Bun.sleep(COMMIT_STEP_MS);
    }
  }

  /** Records the request as failed. Releases the holds when it is certain that it is not charged. */
  async #releaseUncommitted(provider: string | undefined, holds: readonly Hold[]): Promise<void> {
    const outcome: RequestOutcome = { status: "failed", provider };
    const failed = (): RequestRecord => this.#recordOf(outcome, this.#tierOf(outcome), 0n, 0n);
    if (await recordAsFailed(this.#options.writer, failed, holds)) return;
    for (const hold of holds) hold.release();
  }

  #elapsedMs(): number {
    return Math.round(this.#options.clock.monotonicMs() - this.startedMs);
  }

  /** The whole request is charged at the tier of its prompt, in the service tier of the answer. */
  #tierOf({ usage, sold, service }: RequestOutcome): PriceTier {
    const prices = sold?.prices ?? this.#options.prices;
    return tierOf(prices, service, usage?.tokens.promptTokens ?? 0);
  }

  #recordOf(
    { status, usage, provider, sold, service }: RequestOutcome,
    { price, note }: PriceTier,
    charge: bigint,
    writeOff: bigint,
  ): RequestRecord {
    const costs =
      sold?.costs && usage && tierOf(sold.costs, service, usage.tokens.promptTokens).price;
    const tokens = usage?.tokens ?? noUsage;
    const outcome: RecordedOutcome = {
      status,
      mayHaveRow: this.#mayHaveRow,
      provider: provider ?? null,
      charge,
      writeOff,
      ...tokens,
      estimated: usage?.estimated ?? false,
      operatorCost: costs ? costOf(tokens, costs) : null,
      cacheSaved: cacheSaving(tokens, price),
      operatorSaved: costs ? cacheSaving(tokens, costs) : null,
      attempts: this.#attempts,
      durationMs: this.#elapsedMs(),
      firstByteMs: this.#firstByteMs ?? null,
    };
    const answered = sold && { model: sold.model };
    return { ...this.#options.request, ...answered, price, pricing: note, ...outcome };
  }

  #receiptOf(
    { status, usage, provider, sold }: RequestOutcome,
    durationMs: number,
    { charge, writeOff, cacheSaved, operatorSaved }: SettledMoney = NO_MONEY,
  ): Receipt {
    return {
      status,
      model: sold?.model ?? this.#options.request.model,
      usage: usage?.tokens ?? noUsage,
      estimated: usage?.estimated ?? false,
      charge,
      chargeRub: formatRoubles(charge),
      writeOff,
      cacheSaved,
      operatorSaved,
      provider,
      attempts: this.#attempts,
      durationMs,
      firstByteMs: this.#firstByteMs,
      firstContentMs: this.#firstContentMs,
    };
  }
}

type SettledMoney = Pick<Receipt, "charge" | "writeOff" | "cacheSaved" | "operatorSaved">;

const NO_MONEY: SettledMoney = { charge: 0n, writeOff: 0n, cacheSaved: 0n, operatorSaved: null };

const NOT_ENDED: RecordedOutcome = {
  status: "running",
  mayHaveRow: false,
  provider: null,
  charge: 0n,
  writeOff: 0n,
  ...noUsage,
  estimated: false,
  operatorCost: null,
  cacheSaved: null,
  operatorSaved: null,
  attempts: [],
  durationMs: null,
  firstByteMs: null,
};

/** The pause before a request is recorded as failed again. */
const VOID_STEP_MS = 1000;

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
    try {
      await writer.writeWithin({ kind: "recordRequest", record: failed() }, holds);
      return true;
    } catch (error) {
      if (!isTemporary(error)) return false;
    }
    await Bun.sleep(VOID_STEP_MS);
  }
}
