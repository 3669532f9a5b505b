import { estimateTokens, estimateUsage } from "../billing/estimate.ts";
import type { BilledUsage, Ending, Receipt } from "../billing/meter.ts";
import { AssertionError } from "../lib/assert.ts";
import type { Clock } from "../lib/clock.ts";
import { createDeadline, type Deadline } from "../lib/deadline.ts";
import { SseLimitError } from "../lib/sse.ts";
import { SseEncodingError } from "../lib/sseEvent.ts";
import { AnswerError } from "../providers/provider.ts";
import { UpstreamError, type UpstreamExchange } from "../providers/upstream.ts";
import type { Candidate } from "../routing/order.ts";
import type { Admitted } from "./admit.ts";
import { joined, type Piece, type Relay } from "./answer.ts";
import type { AnswerDecoder } from "./answerDecoder.ts";

export interface RelayOptions {
  exchange: UpstreamExchange;
  decoder: AnswerDecoder;
  admitted: Admitted;
  candidate: Candidate;
  clock: Clock;
  /** Fires when the client goes away. */
  signal: AbortSignal;
  disconnectGraceMs: number;
  /** Records the ids that the answer names as the account's own; settles when that is committed. */
  own(objectIds: readonly string[], providerId: string): Promise<void>;
  /** Called once: the receipt, if the ending could be committed, and why the answer failed, if it did. */
  ended(receipt: Receipt | undefined, error: unknown): void;
}

/** After the finish reason: how long the usage and the terminator may take. */
const USAGE_TIMEOUT_MS = 2000;
/** A client that reads nothing for so long has gone away. */
const CLIENT_STALL_MS = 120_000;
/** A failure right behind such a pause of the client's is the pause's, not the provider's. */
const CLIENT_PAUSE_MS = 1000;
/** A client that leaves a provider which said nothing for so long pays nothing. */
const SILENCE_MS = 30_000;

/** The client went away, or might as well have: nothing more can be said to it. */
class ClientGone extends Error {
  override readonly name = "ClientGone";
}

/**
 * Pulls the provider's stream through a decoder, one read for one write, and finishes the meter
 * exactly once, whichever way it ends. The end of the answer leaves after its charge is committed.
 */
export class StreamRelay implements Relay {
  readonly #options: RelayOptions;
  readonly #decoder: AnswerDecoder;
  readonly #exchange: UpstreamExchange;
  readonly #startedMs: number;
  readonly #stall: Deadline;
  readonly #grace: Deadline;
  #output: Piece | undefined;
  #hasHead = false;
  #hasBegun = false;
  #isStepping = false;
  #isGone = false;
  /** Given up because the client is gone, not because the provider failed. */
  #isGivenUp = false;
  /** What broke the stream off, behind what came before it in the same read. */
  #broken: UpstreamError | undefined;
  #silentMs = 0;
  #handedOverMs: number;
  #isOver = false;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#decoder = options.decoder;
    this.#exchange = options.exchange;
    this.#startedMs = options.clock.monotonicMs();
    this.#handedOverMs = this.#startedMs;
    this.#stall = createDeadline(options.clock, () => this.#leave());
    this.#grace = createDeadline(options.clock, () => this.#giveUp());
    if (options.signal.aborted) this.#leave();
    else options.signal.addEventListener("abort", () => this.#leave(), { once: true });
  }

  /**
   * Waits for the first content. Until it resolves nothing was promised to the client, and when it
   * throws UpstreamError another provider may take over.
   */
  async begin(): Promise<void> {
    try {
      await this.#exchange.head;
      this.#hasHead = true;
      while (!this.#decoder.hasContent) {
        const bytes = await this.#exchange.read();
        if (bytes) this.#push(bytes);
        else this.#endInput();
        if (!this.#decoder.hasContent && this.#decoder.isClosed) {
          throw new UpstreamError("provider", "empty answer");
        }
      }
      await Promise.all([this.#options.admitted.meter.opened, this.#own()]);
    } catch (error) {
      this.#grace.clear();
      this.#exchange.abort(readFailure(error));
      throw isReadFailure(error) ? readFailure(error) : error;
    }
    this.#hasBegun = true;
    this.#exchange.setReadTimeout(this.#options.candidate.provider.config.idleTimeoutMs);
    // From here on there is somebody to go on reading when nobody pulls any more.
    if (this.#isGone) void this.#drain();
  }

  async next(): Promise<Piece | undefined> {
    this.#stall.clear();
    const pausedMs = this.#options.clock.monotonicMs() - this.#handedOverMs;
    if (this.#output === undefined && !this.#isOver && !this.#isGone) await this.#drain(pausedMs);
    if (this.#isGone) throw new ClientGone("the client went away");
    const piece = this.#output;
    this.#output = undefined;
    this.#handedOverMs = this.#options.clock.monotonicMs();
    if (!this.#isOver) this.#stall.set(CLIENT_STALL_MS);
    return piece;
  }

  /** What is billed when the provider was given up because the client had left; else nothing. */
  abandonedUsage(): BilledUsage | undefined {
    return this.#isGivenUp ? this.#abandonedUsage() : undefined;
  }

  get #providerId(): string {
    return this.#options.candidate.provider.id;
  }

  /** Goes on until there is something to hand over, or, when the client is gone, to the end. */
  async #drain(pausedMs = 0): Promise<void> {
    if (this.#isStepping) return;
    this.#isStepping = true;
    this.#collect();
    let pauseBeforeMs = pausedMs;
    while (!this.#isOver && this.#wantsMore()) {
      await this.#step(pauseBeforeMs);
      pauseBeforeMs = 0;
    }
    this.#isStepping = false;
  }

  /** The last piece waits for the end, so that a stream which came in one read leaves in one write. */
  #wantsMore(): boolean {
    return this.#output === undefined || this.#isGone || this.#decoder.isClosed;
  }

  async #step(pausedMs: number): Promise<void> {
    try {
      if (!this.#decoder.isClosed) await this.#read();
      await this.#own();
      this.#collect();
    } catch (error) {
      await this.#fail(error, pausedMs);
      return;
    }
    if (this.#decoder.isFinished && this.#decoder.isClosed) await this.#complete();
    else if (this.#decoder.isClosed)
      await this.#fail(new UpstreamError("provider", "cut"), pausedMs);
  }

  async #read(): Promise<void> {
    const { isFinished } = this.#decoder;
    if (isFinished) this.#exchange.setReadTimeout(USAGE_TIMEOUT_MS);
    try {
      if (this.#broken) throw this.#broken;
      const bytes = await this.#exchange.read();
      if (bytes) this.#push(bytes);
      else this.#endInput();
    } catch (error) {
      // The answer was whole: what is missing is only its usage or its terminator.
      if (!isFinished || error instanceof AssertionError) throw error;
      this.#exchange.abort(readFailure(error));
      this.#endInput();
    }
  }

  #push(bytes: Uint8Array): void {
    try {
      this.#decoder.push(bytes);
    } catch (error) {
      // What came before it counts as if it had come alone, however the network cut the stream.
      if (!this.#decoder.hasContent || !isReadFailure(error)) throw error;
      this.#broken = readFailure(error);
    }
  }

  #endInput(): void {
    this.#decoder.end();
    if (!this.#decoder.isClosed) throw new UpstreamError("provider", "cut");
  }

  async #own(): Promise<void> {
    const ids = this.#decoder.takeObjectIds();
    if (ids.length > 0) await this.#options.own(ids, this.#providerId);
  }

  #collect(): void {
    const piece = this.#decoder.take();
    if (piece !== undefined && !this.#isGone) this.#output = joined(this.#output, piece);
  }

  async #complete(): Promise<void> {
    this.#exchange.finished();
    const { usage, isRefused } = this.#decoder;
    const status = this.#isGone ? "cancelled" : isRefused ? "failed" : "done";
    const billed = usage ? { tokens: usage, estimated: false } : this.#estimate();
    await this.#finish({ status, usage: isRefused ? undefined : billed });
  }

  async #fail(error: unknown, pausedMs: number): Promise<void> {
    const failure = readFailure(error);
    this.#exchange.abort(failure);
    const isClients =
      this.#isGivenUp || (pausedMs >= CLIENT_PAUSE_MS && failure.fault !== "shutdown");
    this.#options.admitted.meter.amendAttempt(isClients ? "client gone" : failure.outcome);
    if (isClients || (this.#isGone && this.#decoder.usage)) {
      await this.#finish({ status: "cancelled", usage: this.#abandonedUsage() });
    } else {
      await this.#finish({ status: this.#isGone ? "cancelled" : "failed" }, failure);
    }
  }

  /** Writes the ending, and puts what may leave only after that behind what is still to be handed over. */
  async #finish(ending: Ending, failure?: UpstreamError): Promise<void> {
    this.#grace.clear();
    this.#stall.clear();
    const { admitted, candidate } = this.#options;
    let receipt: Receipt | undefined;
    let problem: unknown = failure;
    try {
      const operatorPrice = candidate.route.cost;
      receipt = await admitted.meter.finish({
        ...ending,
        provider: this.#providerId,
        operatorPrice,
      });
    } catch (error) {
      // Not committed: the client must not see an end that looks whole.
      problem = error;
    }
    const isWhole = failure === undefined && this.#decoder.isFinished;
    const last = receipt && isWhole ? this.#decoder.ending(receipt.usage) : this.#decoder.failure();
    this.#output = joined(this.#output, last);
    this.#isOver = true;
    this.#options.ended(receipt, problem);
  }

  #leave(): void {
    if (this.#isOver || this.#isGone) return;
    this.#isGone = true;
    this.#silentMs = this.#options.clock.monotonicMs() - this.#startedMs;
    this.#stall.clear();
    this.#grace.set(this.#options.disconnectGraceMs);
    if (this.#hasBegun) void this.#drain();
  }

  #giveUp(): void {
    this.#isGivenUp = true;
    this.#exchange.abort(new UpstreamError("provider", "client gone"));
  }

  #abandonedUsage(): BilledUsage | undefined {
    if (this.#decoder.usage) return { tokens: this.#decoder.usage, estimated: false };
    if (!this.#hasHead && this.#silentMs >= SILENCE_MS) return undefined;
    return this.#estimate();
  }

  #estimate(): BilledUsage {
    return estimatedUsage(this.#options.admitted, this.#decoder.textBytes);
  }
}

/** The estimate of a prompt and of so many bytes of answer. */
export function estimatedUsage(admitted: Admitted, textBytes: number): BilledUsage {
  const { promptEstimate, ceiling } = admitted;
  const tokens = estimateUsage(promptEstimate, estimateTokens(textBytes), ceiling);
  return { tokens, estimated: true };
}

/** Whether the provider's stream is to blame, and not our own code or store. */
function isReadFailure(error: unknown): boolean {
  return (
    error instanceof UpstreamError ||
    error instanceof AnswerError ||
    error instanceof SseLimitError ||
    error instanceof SseEncodingError
  );
}

function readFailure(error: unknown): UpstreamError {
  if (error instanceof UpstreamError) return error;
  const outcome = isReadFailure(error) ? "answer" : "internal";
  return new UpstreamError("provider", outcome, { cause: error });
}
