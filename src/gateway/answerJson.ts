import type { BilledUsage, RequestOutcome } from "../billing/meter.ts";
import { formatRoubles } from "../lib/money.ts";
import { ExcessiveAnswerError, usageOfUnread, type UsageMember } from "../providers/provider.ts";
import type { EndAttempt, DispatchResult } from "../routing/dispatch.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { Admission } from "./admission/admit.ts";
import { type Answer, abortExchange, reportedFailure, clientGone } from "./answer.ts";
import { type StoredObject, ANSWER_BYTES_MAX } from "./decoding/answerDecoder.ts";
import {
  settleRequest,
  servedBy,
  settleFailure,
  sendTo,
  tryRoutes,
  type AdmittedRequest,
} from "./admittedRequest.ts";
import { billedUsage, estimatedUsage } from "./billedUsage.ts";
import { objectRecorder } from "./admission/objectOwnership.ts";
import { UpstreamError, type UpstreamExchange } from "../providers/upstream.ts";
import type { Gateway } from "./gateway.ts";

/** A JSON answer that was read completely. Everything that can fail happens before it is charged. */
export interface ReadAnswer {
  /** The text for the client. */
  readonly text: string;
  /** Undefined if the provider reports that it failed: the answer is relayed and not charged. */
  readonly billed: BilledUsage | undefined;
  /** Stored objects that the account may name from now on. */
  readonly objects: readonly StoredObject[];
  /** Prompt tokens of a request that continues this answer by its id, before its own input. */
  readonly historyTokens: number;
}

/** Reads the JSON answers of one endpoint. */
interface JsonAnswerReader {
  /** Throws AnswerError. */
  read(text: string, candidate: Candidate): ReadAnswer;
  usageMember(candidate: Candidate): UsageMember | undefined;
}

/**
 * Answers in JSON with the first route whose answer `reader` accepts, and charges it, also if the client disconnects.
 * Throws ApiError; the meter is settled by then.
 */
export async function answerJson(
  admittedRequest: AdmittedRequest,
  reader: JsonAnswerReader,
): Promise<Answer> {
  const { context, admission } = admittedRequest;
  const { exchanges } = admittedRequest.gateway.inFlight;
  const client = watchDisconnect(admittedRequest.gateway, context.signal);
  let last: Candidate | undefined;
  /** Set if the caller asked for an answer that exceeds a limit. */
  let excess: RequestOutcome | undefined;
  const attempt = async (candidate: Candidate, ended: EndAttempt): Promise<ReadAnswer> => {
    last = candidate;
    const exchange = sendTo(admittedRequest, candidate, false);
    client.useExchange(exchange);
    let text = "";
    try {
      text = await collectText(exchange);
      const answer = reader.read(text, candidate);
      ended(answer.billed ? undefined : reportedFailure());
      return answer;
    } catch (error) {
      if (error instanceof ExcessiveAnswerError) {
        excess = excessOutcome(admission, candidate, text, reader.usageMember(candidate));
      }
      throw abortExchange(exchange, error);
    } finally {
      exchanges.delete(exchange);
      client.exchangeEnded();
    }
  };
  let answered: DispatchResult<ReadAnswer>;
  try {
    answered = await tryRoutes(admittedRequest, () => client.isAborted, attempt);
    const record = objectRecorder(admittedRequest.gateway, context);
    const { objects, historyTokens } = answered.answer;
    await record(objects, answered.candidate.provider.id, historyTokens);
  } catch (error) {
    const status = context.signal.aborted ? "cancelled" : "failed";
    const owed =
      last && client.isAborted && client.isSent
        ? { usage: estimatedUsage(admission, 0), ...servedBy(last) }
        : {};
    throw await settleFailure(admittedRequest, error, excess ?? { status, ...owed });
  } finally {
    client.end();
  }
  const { answer, candidate } = answered;
  const status = context.signal.aborted ? "cancelled" : answer.billed ? "done" : "failed";
  const { charge } = await settleRequest(context, admission, {
    status,
    usage: answer.billed,
    ...servedBy(candidate),
  });
  return { kind: "json", text: answer.text, costRub: formatRoubles(charge) };
}

/**
 * The outcome of a request whose answer exceeds a limit and cannot be read. It is charged like a disconnect, so that no
 * caller gets the provider's work for free. All bytes of the text count for the estimate.
 */
function excessOutcome(
  admission: Admission,
  candidate: Candidate,
  text: string,
  member: UsageMember | undefined,
): RequestOutcome {
  const usage = member && usageOfUnread(text, member);
  const textBytes = Buffer.byteLength(text);
  return {
    status: "cancelled",
    usage: billedUsage(admission, { usage, isUsageFinal: true, textBytes }),
    ...servedBy(candidate),
  };
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads the text of a JSON answer. Throws UpstreamError if it is incomplete, too large or not UTF-8. A caller can make an
 * answer too large (with log probabilities), so that does not count for the route's health.
 */
export async function collectText(exchange: UpstreamExchange): Promise<string> {
  await exchange.head;
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (let chunk = await exchange.read(); chunk; chunk = await exchange.read()) {
    length += chunk.byteLength;
    if (length > ANSWER_BYTES_MAX) throw new UpstreamError("isolated", "too large");
    chunks.push(chunk);
  }
  const [only] = chunks;
  try {
    return utf8.decode(chunks.length === 1 && only ? only : Buffer.concat(chunks, length));
  } catch (cause) {
    throw new UpstreamError("provider", "invalid answer", { cause });
  }
}

/** How many JSON answers at once are read to their end after a disconnect. */
const DISCONNECTED_MAX = 256;

/** Handles a disconnect during a JSON answer. The answer is read to its end, unless too many are already. */
export interface DisconnectWatch {
  /** The exchange was aborted because too many answers are read after a disconnect. */
  readonly isAborted: boolean;
  /** A provider may have received the request. */
  readonly isSent: boolean;
  /** Sets the exchange to abort. */
  useExchange(exchange: UpstreamExchange): void;
  /** The exchange has ended. A provider that failed before the disconnect is not charged for. */
  exchangeEnded(): void;
  /** The request has ended. */
  end(): void;
}

function watchDisconnect(gateway: Gateway, signal: AbortSignal): DisconnectWatch {
  const { inFlight } = gateway;
  let exchange: UpstreamExchange | undefined;
  let isCounted = false;
  let isAborted = false;
  let hasEnded = false;
  const onDisconnect = (): void => {
    // The listener is not removed, because that would cost as much as adding it.
    if (hasEnded) return;
    if (inFlight.disconnectedCount < DISCONNECTED_MAX) {
      isCounted = true;
      inFlight.disconnectedCount += 1;
      return;
    }
    isAborted = true;
    exchange?.abort(clientGone());
  };
  // A signal that is aborted already fires no event.
  if (signal.aborted) onDisconnect();
  else signal.addEventListener("abort", onDisconnect, { once: true });
  return {
    get isAborted() {
      return isAborted;
    },
    get isSent() {
      return exchange?.isSent ?? false;
    },
    useExchange(next) {
      exchange = next;
      if (isAborted) next.abort(clientGone());
    },
    exchangeEnded() {
      if (!isAborted) exchange = undefined;
    },
    end() {
      hasEnded = true;
      if (isCounted) inFlight.disconnectedCount -= 1;
    },
  };
}
