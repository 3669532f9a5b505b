import type { BilledUsage, Ending } from "../billing/meter.ts";
import { ApiError, allProvidersUnavailable, serviceUnavailable } from "../contract/errors.ts";
import { formatRoubles } from "../lib/money.ts";
import type { EncodedRequest } from "../providers/provider.ts";
import { UpstreamError, type UpstreamExchange } from "../providers/upstream.ts";
import { dispatch, type Dispatched } from "../routing/dispatch.ts";
import { orderCandidates, type Candidate } from "../routing/order.ts";
import type { Admitted } from "./admit.ts";
import type { Answer, Relay } from "./answer.ts";
import type { AnswerDecoder } from "./answerDecoder.ts";
import { collectText, watchClient } from "./collect.ts";
import { conclude, logFailedAttempt, noteReceipt } from "./conclude.ts";
import type { Gateway, Visit } from "./gateway.ts";
import { estimatedUsage } from "./estimated.ts";
import { isReadFailure, readFailure } from "./readFailure.ts";
import { StreamRelay } from "./relay.ts";

/** One admitted request and the routes that can serve it: what both endpoints have in common. */
export interface Journey {
  readonly gateway: Gateway;
  readonly visit: Visit;
  readonly admitted: Admitted;
  readonly candidates: readonly Candidate[];
  /** The request in the words of this route's provider. */
  encode(candidate: Candidate): EncodedRequest;
  /** The failure of an attempt that is the caller's own, as the client sees it: no other route is tried. */
  callerFault(error: UpstreamError): ApiError | undefined;
  /** Records ids that an answer names as the account's own; settles when that is committed. */
  own(objectIds: readonly string[], providerId: string): Promise<void>;
}

/** A JSON answer that was read whole: everything that could fail about it is done before it is charged. */
export interface ReadAnswer {
  /** What the client gets. */
  readonly text: string;
  /** Undefined where the provider itself reports that it failed: relayed, and not charged. */
  readonly billed: BilledUsage | undefined;
  /** Ids that the account may name from now on. */
  readonly objectIds: readonly string[];
}

/**
 * Answers in JSON by the first route whose answer `read` accepts, and charges it. A client that goes
 * away changes nothing about that. Throws ApiError; by then the meter is finished.
 */
export async function answerJson(
  journey: Journey,
  read: (text: string, candidate: Candidate) => ReadAnswer,
): Promise<Answer> {
  const { visit, admitted } = journey;
  const { exchanges } = journey.gateway.traffic;
  const client = watchClient(journey.gateway, visit.signal);
  const attempt = async (candidate: Candidate): Promise<ReadAnswer> => {
    const exchange = send(journey, candidate, false);
    client.watch(exchange);
    try {
      return read(await collectText(exchange), candidate);
    } catch (error) {
      const failure = readFailure(error);
      exchange.abort(failure);
      throw isReadFailure(error) ? failure : error;
    } finally {
      exchanges.delete(exchange);
    }
  };
  let answered: Dispatched<ReadAnswer>;
  try {
    answered = await walk(journey, () => client.isGivenUp, attempt);
    await journey.own(answered.answer.objectIds, answered.candidate.provider.id);
  } catch (error) {
    const usage = client.isGivenUp ? estimatedUsage(admitted, 0) : undefined;
    throw await concludeFailure(journey, error, {
      status: client.isGone ? "cancelled" : "failed",
      usage,
    });
  } finally {
    client.end();
  }
  const { answer, candidate } = answered;
  const status = client.isGone ? "cancelled" : answer.billed ? "done" : "failed";
  const { charge } = await conclude(visit, admitted, {
    status,
    usage: answer.billed,
    provider: candidate.provider.id,
    operatorPrice: candidate.route.cost,
  });
  return { kind: "json", text: answer.text, costRub: formatRoubles(charge) };
}

/**
 * Opens a stream on the first route that begins to answer; from then on the relay finishes the meter.
 * Otherwise finishes it here and throws ApiError.
 */
export async function openStream(
  journey: Journey,
  decoderFor: (candidate: Candidate) => AnswerDecoder,
): Promise<Relay> {
  const { gateway, visit, admitted } = journey;
  const { exchanges } = gateway.traffic;
  let last: StreamRelay | undefined;
  const attempt = async (candidate: Candidate): Promise<Relay> => {
    const exchange = send(journey, candidate, true);
    const relay = new StreamRelay({
      exchange,
      decoder: decoderFor(candidate),
      admitted,
      candidate,
      clock: gateway.clock,
      signal: visit.signal,
      disconnectGraceMs: gateway.current.config.billing.disconnectGraceMs,
      own: (objectIds, providerId) => journey.own(objectIds, providerId),
      ended(receipt, error) {
        exchanges.delete(exchange);
        try {
          if (receipt) noteReceipt(visit, receipt);
          if (error !== undefined) visit.fail(error);
        } finally {
          visit.over();
        }
      },
    });
    last = relay;
    try {
      await relay.begin();
    } catch (error) {
      exchanges.delete(exchange);
      throw error;
    }
    return relay;
  };
  try {
    const { answer } = await walk(journey, () => visit.signal.aborted, attempt);
    admitted.meter.firstByte();
    return answer;
  } catch (error) {
    const status = visit.signal.aborted ? "cancelled" : "failed";
    throw await concludeFailure(journey, error, { status, usage: last?.abandonedUsage() });
  }
}

function send(journey: Journey, candidate: Candidate, stream: boolean): UpstreamExchange {
  const { requestId } = journey.visit;
  const exchange = candidate.provider.upstream.send({
    ...journey.encode(candidate),
    stream,
    requestId,
  });
  journey.gateway.traffic.exchanges.add(exchange);
  // A request that is not in the books costs nobody anything, so it must not cost the operator either.
  journey.admitted.meter.opened.catch(() => exchange.abort(new UpstreamError("gateway", "store")));
  return exchange;
}

function walk<Answer>(
  journey: Journey,
  isAbandoned: () => boolean,
  attempt: (candidate: Candidate) => Promise<Answer>,
): Promise<Dispatched<Answer>> {
  const { gateway, visit, admitted } = journey;
  return dispatch({
    candidates: orderCandidates(journey.candidates, gateway.random),
    cooldowns: gateway.current.cooldowns,
    clock: gateway.clock,
    attempt,
    attempted(record, candidate, failure) {
      admitted.meter.attempted(record);
      if (failure) logFailedAttempt(gateway, visit, candidate, failure);
    },
    callerFault: (error) => journey.callerFault(error),
    isAbandoned: () => gateway.traffic.isCut || admitted.meter.isRefused || isAbandoned(),
  });
}

/** Ends a request that got no answer, and says what its client is told. */
async function concludeFailure(
  journey: Journey,
  error: unknown,
  ending: Ending,
): Promise<ApiError> {
  try {
    await conclude(journey.visit, journey.admitted, ending);
  } catch (unwritten) {
    return unwritten instanceof ApiError ? unwritten : serviceUnavailable(unwritten);
  }
  if (error instanceof ApiError) return error;
  if (journey.gateway.traffic.isCut) return serviceUnavailable(error);
  return error instanceof UpstreamError ? allProvidersUnavailable() : serviceUnavailable(error);
}
