import type { RequestOutcome } from "../billing/meter.ts";
import { ApiError } from "../contract/errors.ts";
import {
  decodeAnswer,
  ExcessiveAnswerError,
  usageOfUnread,
  type UsageMember,
} from "../providers/provider.ts";
import type { UpstreamExchange } from "../providers/upstream.ts";
import { Attempts, type Attempt } from "../routing/attempts.ts";
import type { Candidate } from "../routing/candidates.ts";
import { recordObjects } from "./admission/objectOwnership.ts";
import {
  answerHeaders,
  attemptListener,
  exchangeBegan,
  mustStop,
  sendOptions,
} from "./attemptLog.ts";
import {
  type Answer,
  type Relay,
  type WholeAnswer,
  abortExchange,
  COST_HEADER,
  reportedFailure,
  clientGone,
} from "./answer.ts";
import { billedUsage, estimatedUsage } from "./billedUsage.ts";
import { GenerationTime } from "./streaming/generationTime.ts";
import { brokenRelay, lateRelay, singleChunkRelay, withEarlyHead } from "./earlyHead.ts";
import { refusalOf, type ProviderCall, type ReadAnswer } from "./providerCall.ts";
import type { AdmittedScope, RequestScope } from "./requestScope.ts";
import { servedBy, settleFailure, settleRequest, tellUnpriced } from "./settlement.ts";

/**
 * Answers in JSON with the first route whose answer `call` can read, and charges it, also if the client disconnects.
 * Throws ApiError; the meter is settled by then. If the answer takes longer than `sse_keepalive`, the 200 is sent before
 * it, so that no proxy closes the connection. Routes are still tried then.
 */
export function answerJson(scope: AdmittedScope, call: ProviderCall): Promise<Answer> {
  const { sseKeepaliveMs, jsonKeepalive } = scope.snapshot.config.server;
  const answer = new JsonAnswer(scope, call).run();
  return withEarlyHead(scope.gateway.deadlines, jsonKeepalive ? sseKeepaliveMs : 0, answer, () => {
    const late = endLate(scope, answer);
    return { kind: "lateJson", relay: lateRelay(late), beginning: late, headers: {} };
  });
}

/**
 * Ends an answer whose 200 was sent early. After a failure the connection is closed: a client would take an error object
 * under a 200 for the answer. Never rejects.
 */
async function endLate(scope: RequestScope, answer: Promise<WholeAnswer>): Promise<Relay> {
  try {
    return singleChunkRelay((await answer).body);
  } catch (error) {
    const cause = error instanceof ApiError ? error.cause : error;
    if (cause !== undefined) scope.logFailure(cause);
    return brokenRelay;
  } finally {
    scope.onStreamEnd();
  }
}

/** One answer in JSON. It also listens to the client's signal: after a disconnect the answer is read to its end. */
class JsonAnswer implements EventListenerObject {
  readonly #scope: AdmittedScope;
  readonly #call: ProviderCall;
  readonly #signal: AbortSignal;
  #last: Candidate | undefined;
  /** The exchange of the last attempt, while it runs. */
  #exchange: UpstreamExchange | undefined;
  /** Set if the caller asked for an answer that exceeds a limit. */
  #excess: RequestOutcome | undefined;
  /** Gives back the place among the answers that are read on after a disconnect. */
  #release: (() => void) | undefined;
  /** The exchange was aborted because too many answers are read on after a disconnect. */
  #isAborted = false;
  #generation: GenerationTime | undefined;
  #hasEnded = false;

  constructor(scope: AdmittedScope, call: ProviderCall) {
    this.#scope = scope;
    this.#call = call;
    this.#signal = scope.signal;
    // A signal that is aborted already fires no event.
    if (this.#signal.aborted) this.handleEvent();
    else this.#signal.addEventListener("abort", this);
  }

  async run(): Promise<WholeAnswer> {
    const scope = this.#scope;
    let answer: ReadAnswer;
    try {
      answer = await this.#firstAnswer();
      if (answer.objects.length > 0)
        await Promise.all([scope.admitted.meter.secured, this.#record(answer)]);
    } catch (error) {
      throw await settleFailure(scope, error, this.#failedOutcome());
    } finally {
      this.#end();
    }
    const isCut = scope.signal.aborted || (answer.isFailed === true && answer.billed !== undefined);
    const status = isCut ? "cancelled" : answer.isFailed ? "failed" : "done";
    const receipt = await settleRequest(scope, {
      status,
      usage: answer.billed,
      ...this.#servedBy(answer.services),
    });
    if (this.#last) tellUnpriced(scope, this.#last, receipt, answer.services);
    const model = this.#last && answerHeaders(scope, this.#last);
    const headers = { ...model, [COST_HEADER]: receipt.chargeRub };
    return { kind: "json", body: answer.body, headers };
  }

  /** The answer of the first route that has a readable one. */
  async #firstAnswer(): Promise<ReadAnswer> {
    const { checked, caller, gateway } = this.#scope;
    const listener = attemptListener(this.#scope);
    const attempts = new Attempts(checked, caller.accountId, listener, gateway);
    for (const attempt of attempts) {
      if (attempt instanceof Promise) {
        await attempt;
        attempts.resumed(this.#isAbandoned);
        continue;
      }
      try {
        const answer = await this.#try(attempt);
        attempt.answered();
        return answer;
      } catch (thrown) {
        const refusal = refusalOf(this.#scope, thrown);
        attempts.failed(attempt, thrown, refusal, this.#isAbandoned);
      }
    }
    throw attempts.failure();
  }

  async #try(attempt: Attempt): Promise<ReadAnswer> {
    const { candidate } = attempt;
    this.#last = candidate;
    const scope = this.#scope;
    const speed = scope.gateway.speeds.of(candidate);
    this.#generation = new GenerationTime(speed, scope.checked.choiceCount, attempt.startedMs);
    const encoding = this.#call.encode(scope, candidate);
    const encoded = encoding instanceof Promise ? await encoding : encoding;
    const options = sendOptions(scope, candidate, false, encoded.headers);
    const exchange = candidate.provider.upstream.send({ ...encoded, ...options });
    exchangeBegan(scope, exchange);
    this.#exchange = exchange;
    if (this.#isAborted) exchange.abort(clientGone());
    let received: Uint8Array = new Uint8Array();
    try {
      received = await exchange.answer;
      const answer = this.#call.read(scope, received, candidate);
      attempt.ended(answer.isFailed ? reportedFailure() : undefined);
      if (!answer.isFailed) this.#learnSpeed(answer, attempt);
      scope.span?.answered(answer.model, answer.finishReasons ?? []);
      return answer;
    } catch (error) {
      if (error instanceof ExcessiveAnswerError) {
        const member = this.#call.usageMember(candidate);
        this.#excess = excessOutcome(scope, candidate, received, member);
      }
      throw abortExchange(exchange, error);
    } finally {
      scope.gateway.inFlight.exchanges.delete(exchange);
      if (!this.#isAborted) this.#exchange = undefined;
    }
  }

  get #isAbandoned(): boolean {
    return this.#isAborted || mustStop(this.#scope);
  }

  /** The client disconnected. The answer is read to its end, unless too many are already. */
  handleEvent(): void {
    // The listener is not removed, because that would cost as much as adding it.
    if (this.#hasEnded) return;
    this.#release = this.#scope.gateway.leftAnswers.take();
    if (this.#release) return;
    this.#isAborted = true;
    this.#exchange?.abort(clientGone());
  }

  #end(): void {
    this.#hasEnded = true;
    this.#release?.();
  }

  #failedOutcome(): RequestOutcome {
    if (this.#excess) return this.#excess;
    const status = this.#signal.aborted ? "cancelled" : "failed";
    // The provider may have received the request.
    if (!this.#isAborted || this.#exchange?.isSent !== true) return { status };
    const nowMs = this.#scope.gateway.clock.monotonicMs();
    const usage = estimatedUsage(this.#scope, this.#generation?.hiddenTokens(nowMs) ?? 0);
    return { status, usage, ...this.#servedBy() };
  }

  #learnSpeed({ billed, hasProviderCalls }: ReadAnswer, { candidate, startedMs }: Attempt): void {
    // Tools of the provider take time without tokens.
    if (!billed || billed.estimated || hasProviderCalls === true) return;
    const { gateway, checked } = this.#scope;
    const nowMs = gateway.clock.monotonicMs();
    gateway.speeds.answerBegan(candidate, nowMs);
    gateway.speeds.finished(candidate, {
      tokens: billed.tokens.completionTokens,
      textTokens: undefined,
      choiceCount: checked.choiceCount,
      firstContentMs: undefined,
      durationMs: nowMs - startedMs,
    });
  }

  #servedBy(services?: readonly string[]): ReturnType<typeof servedBy> | undefined {
    return this.#last && servedBy(this.#scope, this.#last, services);
  }

  #record({ objects, historyTokens }: ReadAnswer): Promise<void> {
    return recordObjects(this.#scope, objects, this.#last?.provider.id ?? "", historyTokens);
  }
}

/**
 * The outcome of a request whose answer exceeds a limit and cannot be read. It is charged like a disconnect, so that no
 * caller gets the provider's work for free. All bytes of the answer count for the estimate.
 */
function excessOutcome(
  scope: AdmittedScope,
  candidate: Candidate,
  answer: Uint8Array,
  member: UsageMember | undefined,
): RequestOutcome {
  const usage = member && usageOfUnread(decodeAnswer(answer), member);
  const textBytes = answer.length;
  return {
    status: "cancelled",
    usage: billedUsage(scope, { usage, isUsageFinal: true, textBytes }),
    ...servedBy(scope, candidate, undefined),
  };
}
