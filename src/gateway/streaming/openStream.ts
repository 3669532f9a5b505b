import type { ApiError } from "../../contract/errors.ts";
import { Deadline } from "../../lib/clock.ts";
import type { EndAttempt } from "../../routing/dispatch.ts";
import type { Candidate } from "../../routing/candidates.ts";
import type { Answer, StreamChunk, Relay } from "../answer.ts";
import type { AnswerDecoder } from "../decoding/answerDecoder.ts";
import {
  logReceipt,
  logUncommitted,
  settleFailure,
  sendTo,
  tryRoutes,
  type AdmittedRequest,
} from "../admittedRequest.ts";
import { objectRecorder } from "../admission/objectOwnership.ts";
import { StreamRelay, type RelayOptions } from "./streamRelay.ts";

/** The client's 200 is held back so long for the first content, so that a failure can still be a 502. */
const HEAD_WAIT_MS = 15_000;

/**
 * Answers with a stream:
 * 1. Routes are tried in their order, and the client hears nothing: all may still end in an error of its own status.
 * 2. The stream begins: the first content of a route has come. Now the answer is this route's, and the 200 leaves.
 * 3. Where 2 takes too long for a client that may give up on silence the 200 leaves before it: the stream begins late.
 * 4. The relay goes on to the end, and finishes the meter.
 * Throws ApiError when the routes fail before the 200; by then the meter is finished.
 */
export async function openStream(
  admittedRequest: AdmittedRequest,
  decoderFor: (candidate: Candidate) => AnswerDecoder,
): Promise<Answer> {
  const { sseKeepaliveMs } = admittedRequest.context.snapshot.config.server;
  const beginning = beginStream(admittedRequest, decoderFor);
  // Bun sends the head with the first byte of the body. Without comments an early 200 would come no sooner, and a
  // failure could no longer be a 502.
  if (sseKeepaliveMs === 0) return { kind: "stream", relay: await beginning, beginning: undefined };
  // Where comments are wanted sooner than that, so is the head before them.
  const waitMs = Math.min(sseKeepaliveMs, HEAD_WAIT_MS);
  const waited = Promise.withResolvers<undefined>();
  const holdWait = new Deadline(admittedRequest.gateway.clock, () => waited.resolve(undefined));
  holdWait.set(waitMs);
  try {
    const relay = await Promise.race([beginning, waited.promise]);
    if (relay) return { kind: "stream", relay, beginning: undefined };
  } finally {
    holdWait.clear();
  }
  const late = beginLate(admittedRequest, beginning);
  return { kind: "stream", relay: lateRelay(late), beginning: late };
}

/** Resolves once content has come; from then on the relay finishes the meter. Else finishes it and throws ApiError. */
async function beginStream(
  admittedRequest: AdmittedRequest,
  decoderFor: (candidate: Candidate) => AnswerDecoder,
): Promise<Relay> {
  const { context, admission } = admittedRequest;
  const { clock, inFlight } = admittedRequest.gateway;
  let last: StreamRelay | undefined;
  let firstAttemptMs: number | undefined;
  const attempt = async (candidate: Candidate, attemptEnded: EndAttempt): Promise<StreamRelay> => {
    const startedMs = clock.monotonicMs();
    firstAttemptMs ??= startedMs;
    const decoder = decoderFor(candidate);
    const exchange = sendTo(admittedRequest, candidate, true);
    const relay = relayFor(admittedRequest, {
      candidate,
      attemptEnded,
      decoder,
      exchange,
      firstAttemptMs,
    });
    last = relay;
    try {
      await relay.begin();
      admission.meter.firstByte(Math.round(clock.monotonicMs() - startedMs));
      return relay;
    } catch (error) {
      inFlight.exchanges.delete(exchange);
      throw error;
    }
  };
  try {
    const { answer } = await tryRoutes(admittedRequest, () => context.signal.aborted, attempt);
    answer.goOn();
    return answer;
  } catch (error) {
    const status = context.signal.aborted ? "cancelled" : "failed";
    throw await settleFailure(admittedRequest, error, last?.billableOutcome() ?? { status });
  }
}

/** No closure here may capture the journey (of closures: gateway.ts). */
function relayFor(
  admittedRequest: AdmittedRequest,
  parts: Pick<
    RelayOptions,
    "candidate" | "attemptEnded" | "decoder" | "exchange" | "firstAttemptMs"
  >,
): StreamRelay {
  const { gateway, context, admission } = admittedRequest;
  const { exchanges } = gateway.inFlight;
  return new StreamRelay({
    ...parts,
    admission,
    clock: gateway.clock,
    signal: context.signal,
    disconnectGraceMs: context.snapshot.config.billing.disconnectGraceMs,
    record: objectRecorder(gateway, context, admission.meter),
    ended(receipt, error) {
      exchanges.delete(parts.exchange);
      try {
        if (receipt) logReceipt(context, receipt);
        else logUncommitted(context);
        if (error !== undefined) context.logFailure(error);
      } finally {
        context.onStreamEnd();
      }
    },
  });
}

/** How a stream goes on whose 200 has left before any content: where it fails, in the form of the stream. */
async function beginLate(
  admittedRequest: AdmittedRequest,
  beginning: Promise<Relay>,
): Promise<Relay> {
  const { context } = admittedRequest;
  try {
    return await beginning;
  } catch (error) {
    // `beginStream` throws nothing else.
    const failure = error as ApiError;
    if (failure.cause !== undefined) context.logFailure(failure.cause);
    context.onStreamEnd();
    return lastWords(admittedRequest.streamFailure(failure));
  }
}

/** A stream that is there before its content; a function of its own, for it outlives the journey (of closures: gateway.ts). */
function lateRelay(beginning: Promise<Relay>): Relay {
  let relay: Relay | undefined;
  return {
    ready: (send) =>
      relay?.ready(send) ??
      beginning.then((begun) => {
        relay = begun;
        return relay.ready(send);
      }),
    take: () => relay?.take(),
    pauses: () => relay?.pauses(),
    resumes: () => relay?.resumes(),
  };
}

/** The rest of a stream that is one piece. */
function lastWords(piece: StreamChunk): Relay {
  let left: StreamChunk | undefined = piece;
  return {
    ready: () => Promise.resolve(),
    take() {
      const taken = left;
      left = undefined;
      return taken;
    },
    pauses() {},
    resumes() {},
  };
}
