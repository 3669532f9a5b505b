import type { BilledUsage, Ending } from "../billing/meter.ts";
import { formatRoubles } from "../lib/money.ts";
import { ExcessError, usageOfUnread, type UsageMember } from "../providers/provider.ts";
import type { AttemptEnded, Dispatched } from "../routing/dispatch.ts";
import type { Candidate } from "../routing/order.ts";
import type { Admitted } from "./admit.ts";
import type { Answer } from "./answer.ts";
import type { NamedObject } from "./decoding/answerDecoder.ts";
import { collectText } from "./collectText.ts";
import { conclude, servedBy } from "./conclude.ts";
import { billedUsage, estimatedUsage } from "./billedUsage.ts";
import { watchClient } from "./detachment.ts";
import { concludeFailure, sendTo, tryRoutes, type Journey } from "./journey.ts";
import { objectRecorder } from "./ownership.ts";
import { breakOff, reportedFailure } from "./readFailure.ts";

/** A JSON answer that was read whole: everything that could fail about it is done before it is charged. */
export interface ReadAnswer {
  /** What the client gets. */
  readonly text: string;
  /** Undefined where the provider itself reports that it failed: relayed, and not charged. */
  readonly billed: BilledUsage | undefined;
  /** What the account may name from now on. */
  readonly objects: readonly NamedObject[];
  /** What a request that continues this answer by its id begins with. */
  readonly historyTokens: number;
}

/** How the JSON answers of one endpoint are read. */
interface AnswerReader {
  /** Throws AnswerError. */
  read(text: string, candidate: Candidate): ReadAnswer;
  usageMember(candidate: Candidate): UsageMember | undefined;
}

/**
 * Answers in JSON by the first route whose answer `reader` accepts, and charges it. A client that goes
 * away changes nothing about that. Throws ApiError; by then the meter is finished.
 */
export async function answerJson(journey: Journey, reader: AnswerReader): Promise<Answer> {
  const { visit, admitted } = journey;
  const { exchanges } = journey.gateway.traffic;
  const client = watchClient(journey.gateway, visit.signal);
  let last: Candidate | undefined;
  /** There once its caller chose what no answer to it can be read for. */
  let inVain: Ending | undefined;
  const attempt = async (candidate: Candidate, ended: AttemptEnded): Promise<ReadAnswer> => {
    last = candidate;
    const exchange = sendTo(journey, candidate, false);
    client.useExchange(exchange);
    let text = "";
    try {
      text = await collectText(exchange);
      const answer = reader.read(text, candidate);
      ended(answer.billed ? undefined : reportedFailure());
      return answer;
    } catch (error) {
      if (error instanceof ExcessError) {
        inVain = endingInVain(admitted, candidate, text, reader.usageMember(candidate));
      }
      throw breakOff(exchange, error);
    } finally {
      exchanges.delete(exchange);
      client.leaveExchange();
    }
  };
  let answered: Dispatched<ReadAnswer>;
  try {
    answered = await tryRoutes(journey, () => client.isGivenUp, attempt);
    const record = objectRecorder(journey.gateway, visit, admitted.meter);
    const { objects, historyTokens } = answered.answer;
    await record(objects, answered.candidate.provider.id, historyTokens);
  } catch (error) {
    const status = visit.signal.aborted ? "cancelled" : "failed";
    const owed =
      last && client.isGivenUp && client.isSent
        ? { usage: estimatedUsage(admitted, 0), ...servedBy(last) }
        : {};
    throw await concludeFailure(journey, error, inVain ?? { status, ...owed });
  } finally {
    client.end();
  }
  const { answer, candidate } = answered;
  const status = visit.signal.aborted ? "cancelled" : answer.billed ? "done" : "failed";
  const { charge } = await conclude(visit, admitted, {
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
function endingInVain(
  admitted: Admitted,
  candidate: Candidate,
  text: string,
  member: UsageMember | undefined,
): Ending {
  const usage = member && usageOfUnread(text, member);
  const textBytes = Buffer.byteLength(text);
  return {
    status: "cancelled",
    usage: billedUsage(admitted, { usage, isUsageFinal: true, textBytes }),
    ...servedBy(candidate),
  };
}
