import type { RequestOutcome, Receipt } from "../../billing/meter.ts";
import { type Clock, Deadline } from "../../lib/clock.ts";
import type { Span } from "../../lib/span.ts";
import { UpstreamError, type UpstreamExchange } from "../../providers/upstream.ts";
import type { EndAttempt } from "../../routing/dispatch.ts";
import type { Candidate } from "../../routing/candidates.ts";
import type { Admission } from "../admission/admit.ts";
import { joinChunks, type StreamChunk, type Relay, type SendChunk } from "../answer.ts";
import type { AnswerDecoder, StoredObject } from "../decoding/answerDecoder.ts";
import { AnswerReader } from "./answerReader.ts";
import { ClientBackpressure } from "./backpressure.ts";
import { billedUsage, historyTokensOf, disconnectUsage } from "../billedUsage.ts";
import { servedBy } from "../admittedRequest.ts";
import type { RecordObjects } from "../admission/objectOwnership.ts";
import {
  abortExchange,
  clientGone,
  isCallerFault,
  toUpstreamError,
  reportedFailure,
} from "../answerFailure.ts";

export interface RelayOptions {
  exchange: UpstreamExchange;
  decoder: AnswerDecoder;
  admission: Admission;
  candidate: Candidate;
  /** Hears how the attempt ended, once the answer has begun. */
  readonly attemptEnded: EndAttempt;
  clock: Clock;
  /** When the request's first attempt began, by the monotonic clock: so long has its client heard of no provider. */
  firstAttemptMs: number;
  /** Fires when the client goes away. */
  signal: AbortSignal;
  disconnectGraceMs: number;
  readonly record: RecordObjects;
  /** Called once if the answer has begun: the receipt, where it could be committed, and why the answer failed, if it did. */
  ended(receipt: Receipt | undefined, error: unknown): void;
}

/** A client that leaves when no provider has said anything for so long pays nothing. */
const SILENCE_MS = 30_000;

/**
 * Pulls the provider's stream through a decoder, one read for one write, and finishes the meter
 * exactly once, whichever way it ends. The end of the answer leaves after its charge is committed.
 */
export class StreamRelay implements Relay {
  readonly #options: RelayOptions;
  readonly #decoder: AnswerDecoder;
  readonly #exchange: UpstreamExchange;
  readonly #reading: AnswerReader;
  readonly #pace: ClientBackpressure;
  readonly #grace: Deadline;
  #output: StreamChunk | undefined;
  /** There while the client waits for the next piece. */
  #send: SendChunk | undefined;
  #hasHead = false;
  #hasBegun = false;
  #isStepping = false;
  #isGone = false;
  /** Given up for what the client did, not because the provider failed: it left, or chose what cannot be read. */
  #isGivenUp = false;
  #silentMs = 0;
  #isOver = false;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#decoder = options.decoder;
    this.#exchange = options.exchange;
    this.#pace = new ClientBackpressure(options.clock, () => this.#leave());
    this.#reading = new AnswerReader(options);
    this.#grace = new Deadline(options.clock, () => this.#giveUp());
    if (options.signal.aborted) this.#leave();
    else options.signal.addEventListener("abort", () => this.#leave(), { once: true });
  }

  /** Waits for the first content; call `start` next. When it throws UpstreamError nothing was promised: another provider may take over. */
  async begin(): Promise<void> {
    try {
      await this.#exchange.head;
      this.#hasHead = true;
      while (!this.#decoder.hasContent) {
        await this.#reading.read();
        if (this.#decoder.isThinking) this.#expectMore();
        if (!this.#decoder.hasContent && this.#decoder.isClosed) {
          throw new UpstreamError("provider", "empty answer");
        }
      }
      // The provider was in time: what the books take is not its fault.
      this.#expectMore();
      const objects = this.#decoder.takeObjects();
      await Promise.all([
        this.#options.admission.meter.opened,
        objects.length > 0 ? this.#record(objects) : undefined,
      ]);
    } catch (error) {
      this.#isOver = true;
      this.#grace.clear();
      const failure = abortExchange(this.#exchange, error);
      this.#isGivenUp ||= isCallerFault(failure);
      throw failure;
    }
  }

  /** Once its attempt is in the books: from here on there is somebody to go on reading when nobody pulls any more. */
  start(): void {
    this.#hasBegun = true;
    this.#exchange.offerTo((span) => this.#pass(span));
    if (this.#isGone) void this.#drain();
  }

  ready(send: SendChunk): Promise<void> {
    if (this.#output !== undefined || this.#isGone) return Promise.resolve();
    this.#send = send;
    return this.#drain();
  }

  take(): StreamChunk | undefined {
    this.#send = undefined;
    if (this.#isGone) throw new Error("the client went away, or might as well have");
    const piece = this.#output;
    this.#output = undefined;
    return piece;
  }

  pause(): void {
    if (!this.#isOver) this.#exchange.rest();
    this.#pace.pause();
  }

  resume(): void {
    this.#options.admission.meter.addPause(this.#pace.resume());
    if (!this.#isOver && !this.#pace.isPausing) this.#exchange.expect();
  }

  /** How a request ends whose answer did not begin, where it was given up and is paid for all the same. */
  billableOutcome(): RequestOutcome | undefined {
    const usage = this.#isGivenUp ? this.#disconnectUsage() : undefined;
    return usage && { status: "cancelled", usage, ...servedBy(this.#options.candidate) };
  }

  /** From now on each piece may take as long as one amid an answer. */
  #expectMore(): void {
    this.#exchange.setReadTimeout(this.#options.candidate.provider.config.idleTimeoutMs);
  }

  /** Goes on until there is something to hand over, or, when the client is gone, to the end. Never rejects. */
  async #drain(): Promise<void> {
    if (this.#isStepping) return;
    this.#isStepping = true;
    try {
      this.#collect();
      while (!this.#isOver && this.#wantsMore()) {
        try {
          if (!this.#decoder.isClosed) await this.#reading.read();
          const objects = this.#decoder.takeObjects();
          if (objects.length > 0) await this.#record(objects);
        } catch (error) {
          // A fault of our own amid the read has ended it all.
          if (!this.#isOver) await this.#fail(error);
          break;
        }
        this.#collect();
        this.#pace.goesOn();
        if (this.#decoder.isClosed) await this.#end();
      }
    } catch (error) {
      this.#collapse(error);
    } finally {
      this.#isStepping = false;
    }
  }

  /** The last piece waits for the end, so that a stream which came in one read leaves in one write. */
  #wantsMore(): boolean {
    return this.#output === undefined || this.#isGone || this.#decoder.isClosed;
  }

  /** Most events of a stream ask for no decision: they pass without any of the loop's promises. */
  #pass(span: Span): boolean {
    if (this.#send === undefined || this.#isGone) return false;
    try {
      const piece = this.#reading.pass(span);
      if (piece === undefined) return false;
      if (!this.#send(piece)) this.#send = undefined;
      this.#pace.goesOn();
    } catch (error) {
      this.#collapse(error);
    }
    return true;
  }

  async #record(objects: readonly StoredObject[]): Promise<void> {
    this.#exchange.rest();
    const { admission, candidate, record } = this.#options;
    const historyTokens = historyTokensOf(admission, this.#decoder);
    await record(objects, candidate.provider.id, historyTokens);
  }

  #collect(): void {
    // Behind the end comes nothing, whatever the decoder still had.
    if (this.#isOver) return;
    const piece = this.#decoder.take();
    if (piece !== undefined && !this.#isGone) this.#output = joinChunks(this.#output, piece);
  }

  async #end(): Promise<void> {
    if (!this.#decoder.isFinished) return this.#fail(new UpstreamError("provider", "cut"));
    this.#exchange.finished();
    const failure = this.#decoder.reportsFailure ? reportedFailure() : undefined;
    this.#options.attemptEnded(failure);
    const status = this.#isGone ? "cancelled" : failure ? "failed" : "done";
    const usage = failure ? undefined : billedUsage(this.#options.admission, this.#decoder);
    await this.#finish({ status, usage }, { isWhole: true });
  }

  async #fail(error: unknown): Promise<void> {
    const failure = toUpstreamError(error);
    this.#exchange.abort(failure);
    const isAway = this.#isGone || this.#pace.explains(failure.outcome);
    const isClients = isAway && failure.fault !== "gateway";
    const cause = isClients ? clientGone() : failure;
    this.#attemptFailed(cause);
    // Else whoever knows how to bring about what cannot be read would get all that comes before it for nothing.
    const ending: RequestOutcome =
      isClients || isCallerFault(failure)
        ? { status: "cancelled", usage: this.#disconnectUsage() }
        : { status: "failed" };
    // A client that left is no fault that the operator must hear of.
    await this.#finish(ending, { isWhole: false, told: isClients ? undefined : failure });
  }

  /**
   * Writes the ending, and puts what may leave only after that behind what is left: the answer's own end where it
   * `isWhole`. The operator hears of `told`.
   */
  async #finish(
    ending: RequestOutcome,
    { isWhole, told }: { isWhole: boolean; told?: UpstreamError | undefined },
  ): Promise<void> {
    this.#grace.clear();
    this.#pace.stop();
    const { admission, candidate } = this.#options;
    let receipt: Receipt | undefined;
    let problem: unknown = told;
    try {
      receipt = await admission.meter.settle({ ...ending, ...servedBy(candidate) });
    } catch (error) {
      // Not committed: the client must not see an end that looks whole.
      problem = error;
    }
    const last = receipt && isWhole ? this.#decoder.ending(receipt.usage) : this.#decoder.failure();
    this.#output = joinChunks(this.#output, last);
    this.#isOver = true;
    this.#options.ended(receipt, problem);
  }

  /** A fault of our own: the client sees a broken connection, and nothing of the request is left behind. */
  #collapse(error: unknown): void {
    this.#grace.clear();
    this.#pace.stop();
    this.#exchange.abort(toUpstreamError(error));
    this.#attemptFailed(toUpstreamError(error));
    this.#isGone = true;
    if (this.#isOver) return;
    this.#isOver = true;
    void this.#options.admission.meter.abandon();
    this.#options.ended(undefined, error);
  }

  #attemptFailed(failure: UpstreamError): void {
    this.#options.attemptEnded(failure.withStatus(this.#exchange.status));
  }

  #leave(): void {
    if (this.#isOver || this.#isGone) return;
    this.#isGone = true;
    this.#silentMs = this.#options.clock.monotonicMs() - this.#options.firstAttemptMs;
    this.#pace.stop();
    this.#grace.set(this.#options.disconnectGraceMs);
    if (this.#hasBegun) void this.#drain();
  }

  #giveUp(): void {
    this.#isGivenUp = true;
    this.#exchange.abort(clientGone());
  }

  #disconnectUsage(): RequestOutcome["usage"] {
    if (!this.#exchange.isSent) return undefined;
    if (!this.#hasHead && this.#silentMs >= SILENCE_MS) return undefined;
    return disconnectUsage(this.#options.admission, this.#decoder);
  }
}
