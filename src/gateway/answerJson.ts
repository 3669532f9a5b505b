import type { BilledUsage, RequestOutcome } from "../billing/meter.ts";
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
import type { RouteSpeed } from "../routing/routeSpeeds.ts";
import type { Admission } from "./admission/admit.ts";
import { objectRecorder } from "./admission/objectOwnership.ts";
import {
  answerHeaders,
  AttemptRecorder,
  mustStop,
  refusalOf,
  sendTo,
  servedBy,
  settleFailure,
  settleRequest,
  tellUnpriced,
  type AdmittedRequest,
} from "./admittedRequest.ts";
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
import type { StoredObject } from "./decoding/answerDecoder.ts";
import { brokenRelay, lateRelay, singleChunkRelay, withEarlyHead } from "./earlyHead.ts";
import type { RequestContext } from "./gateway.ts";

/** A JSON answer that was read completely. Everything that can fail happens before it is charged. */
export interface ReadAnswer {
  /** The answer for the client, as text or in UTF-8. */
  readonly body: string | Uint8Array;
  /** Undefined if nothing is charged. */
  readonly billed: BilledUsage | undefined;
  /** The provider reports that it failed. The answer is relayed. It is charged only by its usage, where it has text. */
  readonly isFailed?: boolean;
  /** The provider ran tools of its own. */
  readonly hasProviderCalls?: boolean;
  /** What served the answer and costs more than the usual service. */
  readonly expensiveServices?: readonly string[] | undefined;
  /** Stored objects that the account may name from now on. */
  readonly objects: readonly StoredObject[];
  /** Prompt tokens of a request that continues this answer by its id, before its own input. */
  readonly historyTokens: number;
  /** The provider's name for the model that answered, unchecked. For traces, as `finishReasons` is. */
  readonly model?: unknown;
  /** One for each choice. */
  readonly finishReasons?: readonly unknown[];
}

/** Reads the JSON answers of one endpoint. */
interface JsonAnswerReader {
  /** Throws AnswerError. */
  read(answer: Uint8Array, candidate: Candidate): ReadAnswer;
  usageMember(candidate: Candidate): UsageMember | undefined;
}

/**
 * Answers in JSON with the first route whose answer `reader` accepts, and charges it, also if the client disconnects.
 * Throws ApiError; the meter is settled by then. If the answer takes longer than `sse_keepalive`, the 200 is sent before
 * it, so that no proxy closes the connection. Routes are still tried then.
 */
export function answerJson(
  admittedRequest: AdmittedRequest,
  reader: JsonAnswerReader,
): Promise<Answer> {
  const { context, gateway } = admittedRequest;
  const { sseKeepaliveMs, jsonKeepalive } = context.snapshot.config.server;
  const answer = new JsonAnswer(admittedRequest, reader).run();
  return withEarlyHead(gateway.deadlines, jsonKeepalive ? sseKeepaliveMs : 0, answer, () => {
    const late = endLate(context, answer);
    return { kind: "lateJson", relay: lateRelay(late), beginning: late, headers: {} };
  });
}

/**
 * Ends an answer whose 200 was sent early. After a failure the connection is closed: a client would take an error object
 * under a 200 for the answer. Never rejects.
 */
async function endLate(context: RequestContext, answer: Promise<WholeAnswer>): Promise<Relay> {
  try {
    return singleChunkRelay((await answer).body);
  } catch (error) {
    const cause = error instanceof ApiError ? error.cause : error;
    if (cause !== undefined) context.logFailure(cause);
    return brokenRelay;
  } finally {
    context.onStreamEnd();
  }
}

/** One answer in JSON. It also listens to the client's signal: after a disconnect the answer is read to its end. */
class JsonAnswer implements EventListenerObject {
  readonly #admittedRequest: AdmittedRequest;
  readonly #reader: JsonAnswerReader;
  readonly #signal: AbortSignal;
  /** The candidate of the last attempt. */
  #last: Candidate | undefined;
  /** The exchange of that attempt until it has ended. A provider that failed before the disconnect is not charged for. */
  #exchange: UpstreamExchange | undefined;
  /** Set if the caller asked for an answer that exceeds a limit. */
  #excess: RequestOutcome | undefined;
  /** Gives the place among the answers that are read on after a disconnect back. */
  #release: (() => void) | undefined;
  /** The exchange was aborted because too many answers are read on after a disconnect. */
  #isAborted = false;
  /** Of the last attempt. */
  #generation: GenerationTime | undefined;
  #hasEnded = false;

  constructor(admittedRequest: AdmittedRequest, reader: JsonAnswerReader) {
    this.#admittedRequest = admittedRequest;
    this.#reader = reader;
    this.#signal = admittedRequest.context.signal;
    // A signal that is aborted already fires no event.
    if (this.#signal.aborted) this.handleEvent();
    else this.#signal.addEventListener("abort", this);
  }

  async run(): Promise<WholeAnswer> {
    const { gateway, context, admission } = this.#admittedRequest;
    let answer: ReadAnswer;
    try {
      answer = await this.#firstAnswer();
      if (answer.objects.length > 0)
        await Promise.all([admission.meter.secured, this.#record(answer)]);
    } catch (error) {
      throw await settleFailure(this.#admittedRequest, error, this.#failedOutcome());
    } finally {
      this.#end();
    }
    const isCut =
      context.signal.aborted || (answer.isFailed === true && answer.billed !== undefined);
    const status = isCut ? "cancelled" : answer.isFailed ? "failed" : "done";
    const receipt = await settleRequest(context, admission, {
      status,
      usage: answer.billed,
      ...this.#servedBy(),
    });
    if (this.#last) tellUnpriced(gateway, context, this.#last, receipt, answer.expensiveServices);
    const model = this.#last && answerHeaders(this.#admittedRequest, this.#last);
    const headers = { ...model, [COST_HEADER]: receipt.chargeRub };
    return { kind: "json", body: answer.body, headers };
  }

  /** The answer of the first route that has a readable one. */
  async #firstAnswer(): Promise<ReadAnswer> {
    const { gateway, context, candidates } = this.#admittedRequest;
    const listener = new AttemptRecorder(this.#admittedRequest);
    const attempts = new Attempts(candidates, context.caller.accountId, listener, gateway);
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
        const refusal = refusalOf(this.#admittedRequest, thrown);
        attempts.failed(attempt, thrown, refusal, this.#isAbandoned);
      }
    }
    throw attempts.failure();
  }

  async #try(attempt: Attempt): Promise<ReadAnswer> {
    const { candidate } = attempt;
    this.#last = candidate;
    const { gateway, admission } = this.#admittedRequest;
    const speed = gateway.speeds.of(candidate);
    this.#generation = new GenerationTime(speed, admission.choiceCount, attempt.startedMs);
    const exchange = sendTo(this.#admittedRequest, candidate, false);
    this.#exchange = exchange;
    if (this.#isAborted) exchange.abort(clientGone());
    let received: Uint8Array = new Uint8Array();
    try {
      received = await exchange.answer;
      const answer = this.#reader.read(received, candidate);
      attempt.ended(answer.isFailed ? reportedFailure() : undefined);
      if (!answer.isFailed) this.#learnSpeed(speed, answer, attempt);
      this.#admittedRequest.context.span?.answered(answer.model, answer.finishReasons ?? []);
      return answer;
    } catch (error) {
      if (error instanceof ExcessiveAnswerError) {
        const member = this.#reader.usageMember(candidate);
        this.#excess = excessOutcome(this.#admittedRequest.admission, candidate, received, member);
      }
      throw abortExchange(exchange, error);
    } finally {
      this.#admittedRequest.gateway.inFlight.exchanges.delete(exchange);
      if (!this.#isAborted) this.#exchange = undefined;
    }
  }

  get #isAbandoned(): boolean {
    return this.#isAborted || mustStop(this.#admittedRequest);
  }

  /** The client disconnected. The answer is read to its end, unless too many are already. */
  handleEvent(): void {
    // The listener is not removed, because that would cost as much as adding it.
    if (this.#hasEnded) return;
    this.#release = this.#admittedRequest.gateway.leftAnswers.take();
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
    const { admission, gateway } = this.#admittedRequest;
    const nowMs = gateway.clock.monotonicMs();
    const usage = estimatedUsage(admission, this.#generation?.hiddenTokens(nowMs) ?? 0);
    return { status, usage, ...this.#servedBy() };
  }

  #learnSpeed(speed: RouteSpeed, { billed, hasProviderCalls }: ReadAnswer, attempt: Attempt): void {
    // Tools of the provider take time without tokens.
    if (!billed || billed.estimated || hasProviderCalls === true) return;
    const { gateway, admission } = this.#admittedRequest;
    const nowMs = gateway.clock.monotonicMs();
    speed.answerBegan(nowMs);
    speed.add({
      tokens: billed.tokens.completionTokens,
      textTokens: undefined,
      choiceCount: admission.choiceCount,
      firstContentMs: undefined,
      durationMs: nowMs - attempt.startedMs,
    });
  }

  #servedBy(): ReturnType<typeof servedBy> | undefined {
    return this.#last && servedBy(this.#last);
  }

  #record({ objects, historyTokens }: ReadAnswer): Promise<void> {
    const { gateway, context } = this.#admittedRequest;
    const record = objectRecorder(gateway, context);
    return record(objects, this.#last?.provider.id ?? "", historyTokens);
  }
}

/**
 * The outcome of a request whose answer exceeds a limit and cannot be read. It is charged like a disconnect, so that no
 * caller gets the provider's work for free. All bytes of the answer count for the estimate.
 */
function excessOutcome(
  admission: Admission,
  candidate: Candidate,
  answer: Uint8Array,
  member: UsageMember | undefined,
): RequestOutcome {
  const usage = member && usageOfUnread(decodeAnswer(answer), member);
  const textBytes = answer.length;
  return {
    status: "cancelled",
    usage: billedUsage(admission, { usage, isUsageFinal: true, textBytes }),
    ...servedBy(candidate),
  };
}
