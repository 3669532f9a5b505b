import type { BilledUsage, RequestOutcome } from "../billing/meter.ts";
import { formatRoubles } from "../lib/money.ts";
import { ExcessiveAnswerError, usageOfUnread, type UsageMember } from "../providers/provider.ts";
import type { EndAttempt, DispatchResult } from "../routing/dispatch.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { Admission } from "./admission/admit.ts";
import type { Answer } from "./answer.ts";
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
import { abortExchange, reportedFailure, clientGone } from "./answerFailure.ts";
import { UpstreamError, type UpstreamExchange } from "../providers/upstream.ts";
import type { Gateway } from "./gateway.ts";

/** A JSON answer that was read whole: everything that could fail about it is done before it is charged. */
export interface ReadAnswer {
  /** What the client gets. */
  readonly text: string;
  /** Undefined where the provider itself reports that it failed: relayed, and not charged. */
  readonly billed: BilledUsage | undefined;
  /** What the account may name from now on. */
  readonly objects: readonly StoredObject[];
  /** What a request that continues this answer by its id begins with. */
  readonly historyTokens: number;
}

/** How the JSON answers of one endpoint are read. */
interface JsonAnswerReader {
  /** Throws AnswerError. */
  read(text: string, candidate: Candidate): ReadAnswer;
  usageMember(candidate: Candidate): UsageMember | undefined;
}

/**
 * Answers in JSON by the first route whose answer `reader` accepts, and charges it. A client that goes
 * away changes nothing about that. Throws ApiError; by then the meter is finished.
 */
export async function answerJson(
  admittedRequest: AdmittedRequest,
  reader: JsonAnswerReader,
): Promise<Answer> {
  const { context, admission } = admittedRequest;
  const { exchanges } = admittedRequest.gateway.inFlight;
  const client = watchDisconnect(admittedRequest.gateway, context.signal);
  let last: Candidate | undefined;
  /** There once its caller chose what no answer to it can be read for. */
  let inVain: RequestOutcome | undefined;
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
        inVain = excessOutcome(admission, candidate, text, reader.usageMember(candidate));
      }
      throw abortExchange(exchange, error);
    } finally {
      exchanges.delete(exchange);
      client.leaveExchange();
    }
  };
  let answered: DispatchResult<ReadAnswer>;
  try {
    answered = await tryRoutes(admittedRequest, () => client.isGivenUp, attempt);
    const record = objectRecorder(admittedRequest.gateway, context, admission.meter);
    const { objects, historyTokens } = answered.answer;
    await record(objects, answered.candidate.provider.id, historyTokens);
  } catch (error) {
    const status = context.signal.aborted ? "cancelled" : "failed";
    const owed =
      last && client.isGivenUp && client.isSent
        ? { usage: estimatedUsage(admission, 0), ...servedBy(last) }
        : {};
    throw await settleFailure(admittedRequest, error, inVain ?? { status, ...owed });
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
 * How a request ends whose answer came, and cannot be read: paid as by a client that left, lest whoever knows how to
 * bring that about has the provider work for nothing. What was said cannot be told from the rest of the text then.
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
 * The whole text of a JSON answer. Throws UpstreamError where it is cut, too large or not UTF-8. How large it is the
 * caller can choose, by asking for all that is known of each token: that says nothing of the provider.
 */
export async function collectText(exchange: UpstreamExchange): Promise<string> {
  await exchange.head;
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (let piece = await exchange.read(); piece; piece = await exchange.read()) {
    length += piece.byteLength;
    if (length > ANSWER_BYTES_MAX) throw new UpstreamError("misfire", "too large");
    pieces.push(piece);
  }
  const [only] = pieces;
  try {
    return utf8.decode(pieces.length === 1 && only ? only : Buffer.concat(pieces, length));
  } catch (cause) {
    throw new UpstreamError("provider", "answer", { cause });
  }
}

/** So many JSON answers at once are read to their end after their client went away. */
const DISCONNECTED_MAX = 256;

/** What becomes of a JSON answer whose client went away: it is read on, unless too many are already. */
export interface DisconnectWatch {
  /** The provider was given up, because no place was left. */
  readonly isGivenUp: boolean;
  /** Some provider may have the request: the exchange in use was sent, or the one that was given up amid its use. */
  readonly isSent: boolean;
  /** The exchange that is to end if no place is left. */
  useExchange(exchange: UpstreamExchange): void;
  /** The exchange in use has ended: a provider that failed before its client left is paid nothing. */
  leaveExchange(): void;
  /** The request is over. */
  end(): void;
}

function watchDisconnect(gateway: Gateway, signal: AbortSignal): DisconnectWatch {
  const { inFlight } = gateway;
  let exchange: UpstreamExchange | undefined;
  let isDetached = false;
  let isGivenUp = false;
  let isOver = false;
  const leave = (): void => {
    // The listener stays: to take it away would cost as much as to put it there.
    if (isOver) return;
    if (inFlight.disconnectedCount < DISCONNECTED_MAX) {
      isDetached = true;
      inFlight.disconnectedCount += 1;
      return;
    }
    isGivenUp = true;
    exchange?.abort(clientGone());
  };
  // A signal that has fired already tells nobody any more.
  if (signal.aborted) leave();
  else signal.addEventListener("abort", leave, { once: true });
  return {
    get isGivenUp() {
      return isGivenUp;
    },
    get isSent() {
      return exchange?.isSent ?? false;
    },
    useExchange(next) {
      exchange = next;
      if (isGivenUp) next.abort(clientGone());
    },
    leaveExchange() {
      if (!isGivenUp) exchange = undefined;
    },
    end() {
      isOver = true;
      if (isDetached) inFlight.disconnectedCount -= 1;
    },
  };
}
