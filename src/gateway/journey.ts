import type { Ending } from "../billing/meter.ts";
import { ApiError, allProvidersUnavailable, serviceUnavailable } from "../contract/errors.ts";
import type { EncodedRequest } from "../providers/provider.ts";
import { UpstreamError, upstreamErrorOf, type UpstreamExchange } from "../providers/upstream.ts";
import { dispatch, type Dispatched } from "../routing/dispatch.ts";
import { orderCandidates, type Candidate } from "../routing/order.ts";
import type { Admitted } from "./admit.ts";
import type { Relay } from "./answer.ts";
import type { AnswerDecoder } from "./answerDecoder.ts";
import { collectText, watchClient } from "./collect.ts";
import { conclude, logFailedAttempt, noteReceipt } from "./conclude.ts";
import type { Gateway, Visit } from "./gateway.ts";
import { estimatedUsage, StreamRelay } from "./relay.ts";

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

/** A JSON answer that was read whole and is not charged yet. */
export interface Collected<Read> {
  readonly read: Read;
  readonly candidate: Candidate;
  /** Its client went away meanwhile. */
  readonly isGone: boolean;
}

/**
 * Gets a whole JSON answer from the first route that gives one which `read` accepts. A client that
 * goes away changes nothing about it. Otherwise finishes the meter and throws ApiError.
 */
export async function collectAnswer<Read>(
  journey: Journey,
  read: (text: string, candidate: Candidate) => Read,
): Promise<Collected<Read>> {
  const client = watchClient(journey.gateway, journey.visit.signal);
  const { exchanges } = journey.gateway.traffic;
  const attempt = async (candidate: Candidate): Promise<Read> => {
    const exchange = send(journey, candidate, false);
    client.watch(exchange);
    try {
      return read(await collectText(exchange), candidate);
    } catch (error) {
      const failure = upstreamErrorOf(error);
      exchange.abort(failure);
      throw failure;
    } finally {
      exchanges.delete(exchange);
    }
  };
  try {
    const { answer, candidate } = await walk(journey, () => client.isGivenUp, attempt);
    return { read: answer, candidate, isGone: client.isGone };
  } catch (error) {
    const usage = client.isGivenUp ? estimatedUsage(journey.admitted, 0) : undefined;
    throw await concludeFailure(journey, error, {
      status: client.isGone ? "cancelled" : "failed",
      usage,
    });
  } finally {
    client.end();
  }
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
        if (receipt) noteReceipt(visit, receipt);
        if (error !== undefined) visit.fail(error);
        visit.over();
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
    isAbandoned: () => gateway.traffic.isCut || isAbandoned(),
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
