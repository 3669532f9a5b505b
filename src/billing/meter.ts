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
  readonly isRefused: boolean;
  attempted(attempt: AttemptRecord): void;
  /** The last attempt began well and is over now: its outcome is this after all, and it took until now. */
  amendAttempt(outcome: string): void;
  /** The first byte for the client is there. */
  firstByte(): void;
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

export function startMeter(options: {
  writer: Writer;
  clock: Clock;
  hold: Hold;
  price: Price;
  request: MeteredRequest;
  /** Told once how the request ended: as it is committed, or as failed where it cannot be. Must not throw. */
  ended(receipt: Receipt): void;
}): Meter {
  const { writer, clock, hold, price, request } = options;
  const startedMs = clock.monotonicMs();
  const attempts: AttemptRecord[] = [];
  let attemptedAtMs = startedMs;
  let firstByteMs: number | undefined;
  let firstContentMs: number | undefined;
  let pausedMs = 0;
  let finished = false;
  const row = openedRequest(request, hold, price);
  const opened = writer.write({ kind: "open", request: row }).then(() => undefined);
  /** Why there is no row, which says more than that there is none to end. */
  let refusal: Error | undefined;
  const isOpened = opened.then(
    () => true,
    (error: Error) => {
      refusal = error;
      return false;
    },
  );
  const elapsedMs = (): number => Math.round(clock.monotonicMs() - startedMs);

  const endOf = ({ status, usage, provider, operatorPrice }: Ending): RequestEnd => {
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
      attempts,
      durationMs: elapsedMs(),
      firstByteMs: firstByteMs ?? null,
    };
  };
  const receiptOf = (
    { status, usage, provider }: Ending,
    durationMs: number,
    { charge, writeOff }: Pick<Receipt, "charge" | "writeOff"> = { charge: 0n, writeOff: 0n },
  ): Receipt => ({
    status,
    usage: usage?.tokens ?? noUsage,
    estimated: usage?.estimated ?? false,
    charge,
    writeOff,
    provider,
    attempts,
    durationMs,
    firstByteMs,
    firstContentMs,
  });
  /** Without a row nothing is promised; with one, the store still says that the money is held. */
  const releaseUncommitted = async (provider: string | undefined): Promise<void> => {
    const failed = (): RequestEnd => endOf({ status: "failed", provider });
    if (!(await isOpened) || (await voidEnd(writer, failed))) hold.release();
  };
  const finish = async (ending: Ending): Promise<Receipt> => {
    assert(!finished, "a request is finished twice");
    finished = true;
    hold.ending();
    try {
      // Without its row there is nothing to end.
      if (refusal) throw refusal;
      const end = endOf(ending);
      const isWanted = (): boolean => refusal === undefined;
      const { charge, writeOff } = await commit(writer, clock, { kind: "end", end }, isWanted);
      hold.release();
      const receipt = receiptOf(ending, end.durationMs, { charge, writeOff });
      options.ended(receipt);
      return receipt;
    } catch (error) {
      options.ended(receiptOf({ status: "failed", provider: ending.provider }, elapsedMs()));
      void releaseUncommitted(ending.provider);
      throw refusal ?? error;
    }
  };

  return {
    opened,
    get isRefused() {
      return refusal !== undefined;
    },
    attempted(attempt) {
      attempts.push(attempt);
      attemptedAtMs = clock.monotonicMs();
    },
    amendAttempt(outcome) {
      const last = attempts.pop();
      if (!last) return;
      const sinceMs = Math.round(clock.monotonicMs() - attemptedAtMs);
      attempts.push({ ...last, outcome, durationMs: last.durationMs + sinceMs });
    },
    firstByte() {
      firstByteMs ??= elapsedMs();
      firstContentMs ??= attempts.at(-1)?.durationMs;
    },
    paused(forMs) {
      pausedMs += forMs;
    },
    get pausedMs() {
      return pausedMs;
    },
    get isEnding() {
      return finished;
    },
    finish,
    async abandon() {
      if (finished) return;
      await finish({ status: "failed" }).catch(() => undefined);
    },
  };
}

function openedRequest(request: MeteredRequest, hold: Hold, price: Price): OpenedRequest {
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
