import type { RequestOutcome, Receipt } from "../../billing/meter.ts";
import { gatewayFailure, upstreamFailure, type StreamFailure } from "../../contract/errors.ts";
import type { Span } from "../../lib/span.ts";
import { UpstreamError, type UpstreamExchange } from "../../providers/upstream.ts";
import { streamTimeoutMs } from "../../routing/candidates.ts";
import type { Attempt } from "../../routing/attempts.ts";
import {
  joinChunks,
  type StreamChunk,
  type Relay,
  type SendChunk,
  abortExchange,
  clientGone,
  isCallerFault,
  toUpstreamError,
  reportedFailure,
} from "../answer.ts";
import type { AnswerDecoder, StoredObject } from "../decoding/answerDecoder.ts";
import { AnswerReader } from "./answerReader.ts";
import { ClientBackpressure } from "./backpressure.ts";
import {
  billedUsage,
  disconnectUsage,
  generatedTokensOf,
  historyTokensOf,
  isFailureBilled,
  reportedWithFailure,
} from "../billedUsage.ts";
import { GenerationTime } from "./generationTime.ts";
import { Leave } from "./leave.ts";
import { recordObjects } from "../admission/objectOwnership.ts";
import type { AdmittedScope } from "../requestScope.ts";
import { logReceipt, logUncommitted, servedBy, tellUnpriced } from "../settlement.ts";

/**
 * Moves a provider's stream through a decoder to the client, one read for one write. It settles the meter exactly once,
 * however the stream ends. The end of the answer is sent after its charge is committed. It listens to the client's signal.
 */
export class StreamRelay implements Relay, EventListenerObject {
  readonly #scope: AdmittedScope;
  readonly #attempt: Attempt;
  readonly #decoder: AnswerDecoder;
  readonly #exchange: UpstreamExchange;
  readonly #reader: AnswerReader;
  readonly #backpressure: ClientBackpressure;
  readonly #generation: GenerationTime;
  readonly #leave: Leave;
  #output: StreamChunk | undefined;
  /** Set while the client waits for the next chunk. */
  #send: SendChunk | undefined;
  #hasBegun = false;
  #isDraining = false;
  #hasDisconnected = false;
  /** The answer was aborted because of the client (disconnect or excessive answer), so it is charged. */
  #isBillable = false;
  #hasEnded = false;
  /** When the whole attempt ends, in monotonic time. */
  #endsAtMs: number;
  #firstContentMs: number | undefined;
  /** The bytes of text and the last report of usage that `#observe` saw. */
  #textBytes = 0;
  #usageText: AnswerDecoder["usageText"];
  #hiddenAtUsage = 0;

  /**
   * The relay calls `onStreamEnd` of the scope once if the answer began. It ends the attempt, unless `begin` throws.
   */
  constructor(
    scope: AdmittedScope,
    attempt: Attempt,
    decoder: AnswerDecoder,
    exchange: UpstreamExchange,
  ) {
    const { gateway, checked, signal } = scope;
    const { candidate, startedMs } = attempt;
    this.#scope = scope;
    this.#attempt = attempt;
    this.#decoder = decoder;
    this.#exchange = exchange;
    this.#backpressure = new ClientBackpressure(gateway.deadlines, () => this.handleEvent());
    this.#reader = new AnswerReader(scope, exchange, decoder);
    const speed = gateway.speeds.of(candidate);
    this.#generation = new GenerationTime(speed, checked.choiceCount, startedMs);
    this.#leave = new Leave(scope, decoder, this.#generation, (isBillable) => {
      this.#isBillable ||= isBillable;
      this.#exchange.abort(clientGone());
    });
    this.#endsAtMs = startedMs + streamTimeoutMs(candidate);
    if (signal.aborted) this.handleEvent();
    else signal.addEventListener("abort", this);
  }

  /** Waits for the first content; call `start` next. If it throws UpstreamError, another route may be tried. */
  async begin(): Promise<this> {
    const { gateway, admitted } = this.#scope;
    const attempt = this.#attempt;
    try {
      await this.#exchange.answer;
      gateway.speeds.answerBegan(attempt.candidate, gateway.clock.monotonicMs());
      this.#leave.headArrived();
      while (!this.#decoder.hasContent) {
        await this.#reader.read();
        this.#observe();
        if (!this.#decoder.hasContent && this.#decoder.isClosed) {
          throw new UpstreamError("provider", "empty answer");
        }
      }
      this.#firstContentMs = gateway.clock.monotonicMs() - attempt.startedMs;
      // The time of the database writes below does not count for the provider.
      this.#exchange.setReadTimeout(attempt.candidate.provider.config.idleTimeoutMs);
      const objects = this.#decoder.takeObjects();
      const recorded = objects.length > 0 ? this.#record(objects) : undefined;
      const { secured } = admitted.meter;
      if (recorded ?? secured) await Promise.all([recorded, secured]);
      admitted.meter.firstByte(Math.round(gateway.clock.monotonicMs() - attempt.startedMs));
      return this;
    } catch (error) {
      this.#hasEnded = true;
      this.#leave.end();
      gateway.inFlight.exchanges.delete(this.#exchange);
      const failure = abortExchange(this.#exchange, error);
      this.#isBillable ||= isCallerFault(failure);
      throw failure;
    }
  }

  /** Starts relaying. From now on the relay itself reads on after a disconnect. */
  start(): void {
    this.#hasBegun = true;
    this.#collect();
    this.#exchange.offerTo((span) => this.#pass(span));
    if (this.#hasDisconnected) void this.#drain();
  }

  ready(send: SendChunk): Promise<void> | undefined {
    if (this.#output !== undefined || this.#hasDisconnected) return undefined;
    this.#send = send;
    return this.#drain();
  }

  take(): StreamChunk | undefined {
    this.#send = undefined;
    if (this.#hasDisconnected) throw new Error("the client disconnected");
    const piece = this.#output;
    this.#output = undefined;
    return piece;
  }

  pause(): void {
    if (!this.#hasEnded) this.#exchange.suspendReadTimeout();
    this.#backpressure.pause();
  }

  resume(): void {
    const { admitted, gateway } = this.#scope;
    admitted.meter.allowMore(this.#backpressure.resume());
    this.#generation.skipTo(gateway.clock.monotonicMs());
    if (!this.#hasEnded && !this.#backpressure.isPausing) this.#exchange.resumeReadTimeout();
  }

  /** The outcome of a request whose answer did not begin but is charged. Undefined if it is not charged. */
  billableOutcome(): RequestOutcome | undefined {
    const usage = this.#isBillable ? this.#disconnectUsage() : undefined;
    return usage && { status: "cancelled", usage, ...this.#servedBy() };
  }

  /** Reads until there is a chunk for the client, or to the end after a disconnect. Never rejects. */
  async #drain(): Promise<void> {
    if (this.#isDraining) return;
    this.#isDraining = true;
    try {
      this.#collect();
      while (!this.#hasEnded && this.#wantsMore()) {
        try {
          if (!this.#decoder.isClosed) await this.#reader.read();
          this.#observe();
          const objects = this.#decoder.takeObjects();
          if (objects.length > 0) await this.#record(objects);
        } catch (error) {
          // `#collapse` may have ended the relay during the read.
          if (!this.#hasEnded) await this.#fail(error);
          break;
        }
        this.#collect();
        this.#backpressure.onData();
        if (this.#decoder.isClosed) await this.#complete();
      }
    } catch (error) {
      this.#collapse(error);
    } finally {
      this.#isDraining = false;
    }
  }

  /** Content never waits for the end of the stream, which waits for a commit. */
  #wantsMore(): boolean {
    return this.#output === undefined || this.#hasDisconnected;
  }

  /** The fast path: plain events go from socket to socket without a promise. */
  #pass(span: Span): boolean {
    if (this.#send === undefined || this.#hasDisconnected) return false;
    try {
      const piece = this.#reader.pass(span);
      if (piece === undefined) return false;
      this.#observe();
      if (!this.#send(piece)) this.#send = undefined;
      this.#backpressure.onData();
    } catch (error) {
      this.#collapse(error);
    }
    return true;
  }

  /** Learns from the last read when text arrived. A stream that still writes is not ended by the time of the attempt. */
  #observe(): void {
    const { textBytes, usageText, isFinished } = this.#decoder;
    if (textBytes === this.#textBytes && usageText === this.#usageText && !isFinished) return;
    const { admitted, gateway } = this.#scope;
    const nowMs = gateway.clock.monotonicMs();
    if (isFinished) this.#generation.finished(nowMs);
    if (textBytes !== this.#textBytes) {
      this.#textBytes = textBytes;
      this.#generation.textArrived(nowMs, generatedTokensOf(this.#decoder));
      const moreMs = nowMs + this.#attempt.candidate.provider.config.idleTimeoutMs - this.#endsAtMs;
      // A client that reads slowly must not keep a provider busy for ever.
      if (moreMs > 0 && !this.#backpressure.isSlow) {
        this.#endsAtMs += moreMs;
        this.#exchange.extend(this.#endsAtMs);
        admitted.meter.allowMore(moreMs);
      }
    }
    if (usageText === this.#usageText) return;
    this.#usageText = usageText;
    this.#hiddenAtUsage = this.#generation.hiddenTokens(nowMs);
  }

  async #record(objects: readonly StoredObject[]): Promise<void> {
    this.#exchange.suspendReadTimeout();
    const historyTokens = historyTokensOf(this.#scope, this.#decoder);
    const { provider } = this.#attempt.candidate;
    await recordObjects(this.#scope, objects, provider.id, historyTokens);
  }

  #collect(): void {
    // Nothing is sent after the end.
    if (this.#hasEnded) return;
    const piece = this.#decoder.take();
    if (piece !== undefined && !this.#hasDisconnected)
      this.#output = joinChunks(this.#output, piece);
  }

  async #complete(): Promise<void> {
    if (!this.#decoder.isFinished)
      return this.#fail(new UpstreamError("provider", "incomplete answer"));
    this.#exchange.finished();
    const failure = this.#decoder.reportsFailure ? reportedFailure() : undefined;
    this.#attempt.ended(failure);
    const { model, finishReasons = [] } = this.#decoder;
    this.#scope.span?.answered(model, finishReasons);
    if (!failure) this.#learn();
    const isBilled = !failure || isFailureBilled(this.#decoder);
    const usage = isBilled ? billedUsage(this.#scope, this.#decoder) : undefined;
    const isCut = this.#hasDisconnected || (failure && isBilled);
    await this.#settle(
      { status: isCut ? "cancelled" : failure ? "failed" : "done", usage },
      { isComplete: true },
    );
  }

  /** Adds a whole answer with its reported usage to the figures of the route. */
  #learn(): void {
    const { checked, gateway } = this.#scope;
    const { candidate, startedMs } = this.#attempt;
    const { usage, isUsageFinal, providerCalls = 0 } = this.#decoder;
    const durationMs = this.#generation.lastTextMs - startedMs;
    // Tools of the provider add prompts of their own, and take time without tokens.
    if (!usage || !isUsageFinal || providerCalls > 0) return;
    if (checked.attachmentTokens === 0)
      gateway.promptCounts.add(candidate, checked.promptEstimate, usage.promptTokens);
    // A slow client takes time without tokens too.
    if (this.#backpressure.isSlow) return;
    gateway.speeds.finished(candidate, {
      tokens: usage.completionTokens,
      textTokens: generatedTokensOf(this.#decoder),
      choiceCount: checked.choiceCount,
      firstContentMs: this.#firstContentMs,
      durationMs,
    });
  }

  async #fail(error: unknown): Promise<void> {
    const failure = toUpstreamError(error);
    this.#exchange.abort(failure);
    const isClientCause =
      this.#hasDisconnected || this.#backpressure.causedFailure(failure.outcome);
    const isGateways = failure.fault === "gateway";
    const isClients = isClientCause && !isGateways;
    // The gateway's own time-out says nothing about the route: the provider had begun its answer.
    const isOurTimeout = !isGateways && failure.outcome === TIMEOUT_OUTCOME;
    const ended = isOurTimeout ? new UpstreamError("isolated", TIMEOUT_OUTCOME) : failure;
    // The provider may have died in the silence before it.
    if (isOurTimeout && !isClients)
      this.#generation.skipTo(this.#scope.gateway.clock.monotonicMs());
    this.#attemptFailed(isClients ? clientGone() : ended);
    // What the client got is charged if nothing of it is the provider's fault.
    const usage =
      isClients || isOurTimeout || isCallerFault(failure)
        ? this.#disconnectUsage()
        : reportedWithFailure(this.#scope, failure, this.#decoder);
    const outcome: RequestOutcome = usage ? { status: "cancelled", usage } : { status: "failed" };
    // A disconnect is not logged as a failure.
    await this.#settle(outcome, { isComplete: false, error: isClients ? undefined : failure });
  }

  #servedBy(): ReturnType<typeof servedBy> {
    return servedBy(this.#scope, this.#attempt.candidate, this.#decoder.services);
  }

  /**
   * Settles the request, then adds the end of the stream: the answer's own end if it `isComplete`, else an error. `error` is
   * logged.
   */
  async #settle(
    outcome: RequestOutcome,
    { isComplete, error }: { isComplete: boolean; error?: UpstreamError | undefined },
  ): Promise<void> {
    this.#leave.end();
    this.#backpressure.stop();
    const { admitted } = this.#scope;
    let receipt: Receipt | undefined;
    let failure: unknown = error;
    try {
      receipt = await admitted.meter.settle({ ...outcome, ...this.#servedBy() });
    } catch (uncommitted) {
      // Not committed: the client must not get a complete answer.
      failure = uncommitted;
    }
    const last =
      receipt && isComplete
        ? this.#decoder.ending(receipt.usage)
        : this.#decoder.failure(toldFailure(failure));
    this.#output = joinChunks(this.#output, last);
    this.#end(receipt, failure);
  }

  /** `receipt`: if the settlement was committed. `error`: if the answer failed. */
  #end(receipt: Receipt | undefined, error: unknown): void {
    const scope = this.#scope;
    this.#hasEnded = true;
    scope.gateway.inFlight.exchanges.delete(this.#exchange);
    try {
      if (receipt) {
        logReceipt(scope, receipt);
        const { services } = this.#decoder;
        tellUnpriced(scope, this.#attempt.candidate, receipt, services);
      } else logUncommitted(scope);
      if (error !== undefined) scope.logFailure(error);
    } finally {
      scope.onStreamEnd();
    }
  }

  /** An error of our own code: closes the connection and settles the request as failed. */
  #collapse(error: unknown): void {
    this.#leave.end();
    this.#backpressure.stop();
    this.#exchange.abort(toUpstreamError(error));
    this.#attemptFailed(toUpstreamError(error));
    this.#hasDisconnected = true;
    if (this.#hasEnded) return;
    void this.#scope.admitted.meter.abandon();
    this.#end(undefined, error);
  }

  #attemptFailed(failure: UpstreamError): void {
    this.#attempt.ended(failure.withStatus(this.#exchange.status));
  }

  /** The client disconnected. */
  handleEvent(): void {
    if (this.#hasEnded || this.#hasDisconnected) return;
    this.#hasDisconnected = true;
    this.#backpressure.stop();
    // A whole answer whose charge is being committed is not left.
    if (!this.#scope.admitted.meter.isSettling) this.#leave.begin();
    if (this.#hasBegun) void this.#drain();
  }

  #disconnectUsage(): RequestOutcome["usage"] {
    if (!this.#exchange.isSent) return undefined;
    const hidden = {
      tokens: this.#generation.hiddenTokens(this.#scope.gateway.clock.monotonicMs()),
      tokensAtUsage: this.#hiddenAtUsage,
    };
    return disconnectUsage(this.#scope, this.#decoder, hidden);
  }
}

/** What a client is told of a failure: whether the provider or the gateway failed. */
function toldFailure(failure: unknown): StreamFailure {
  const isProviders = failure instanceof UpstreamError && failure.fault !== "gateway";
  return isProviders ? upstreamFailure : gatewayFailure;
}

const TIMEOUT_OUTCOME = "timeout";
