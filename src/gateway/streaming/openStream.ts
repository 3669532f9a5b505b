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

/** How long the 200 waits for the first content, so that a failure can still be a 502. */
const HEAD_WAIT_MS = 15_000;

/**
 * Answers with a stream:
 * 1. Routes are tried in order. Nothing is sent to the client, so an error can still have its own status.
 * 2. The first content of a route arrives. From now on the answer is this route's. The 200 is sent.
 * 3. If step 2 takes too long, the 200 is sent before it, so that the client does not time out.
 * 4. The relay continues to the end and settles the meter.
 * Throws ApiError if all routes fail before the 200; the meter is settled by then.
 */
export async function openStream(
  admittedRequest: AdmittedRequest,
  decoderFor: (candidate: Candidate) => AnswerDecoder,
): Promise<Answer> {
  const { sseKeepaliveMs } = admittedRequest.context.snapshot.config.server;
  const beginning = beginStream(admittedRequest, decoderFor);
  // Bun sends the head with the first byte of the body, so without keep-alive comments an early 200 has no effect.
  if (sseKeepaliveMs === 0) return { kind: "stream", relay: await beginning, beginning: undefined };
  const waitMs = Math.min(sseKeepaliveMs, HEAD_WAIT_MS);
  const waited = Promise.withResolvers<undefined>();
  const headWait = new Deadline(admittedRequest.gateway.clock, () => waited.resolve(undefined));
  headWait.set(waitMs);
  try {
    const relay = await Promise.race([beginning, waited.promise]);
    if (relay) return { kind: "stream", relay, beginning: undefined };
  } finally {
    headWait.clear();
  }
  const late = beginLate(admittedRequest, beginning);
  return { kind: "stream", relay: lateRelay(late), beginning: late };
}

/** Resolves after the first content; the relay then settles the meter. Otherwise settles it and throws ApiError. */
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
    answer.start();
    return answer;
  } catch (error) {
    const status = context.signal.aborted ? "cancelled" : "failed";
    throw await settleFailure(admittedRequest, error, last?.billableOutcome() ?? { status });
  }
}

/** No closure here may capture the admitted request (memory rules: docs/architecture.md). */
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
    record: objectRecorder(gateway, context),
    onEnd(receipt, error) {
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

/** Continues a stream whose 200 was sent before any content. A failure becomes the end of the stream. */
async function beginLate(
  admittedRequest: AdmittedRequest,
  beginning: Promise<Relay>,
): Promise<Relay> {
  const { context } = admittedRequest;
  try {
    return await beginning;
  } catch (error) {
    // `beginStream` throws ApiError only.
    const failure = error as ApiError;
    if (failure.cause !== undefined) context.logFailure(failure.cause);
    context.onStreamEnd();
    return singleChunkRelay(admittedRequest.streamFailure(failure));
  }
}

/** A relay that waits for another one. A separate function, because it outlives the admitted request. */
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
    pause: () => relay?.pause(),
    resume: () => relay?.resume(),
  };
}

/** A relay of one chunk. */
function singleChunkRelay(chunk: StreamChunk): Relay {
  let left: StreamChunk | undefined = chunk;
  return {
    ready: () => Promise.resolve(),
    take() {
      const taken = left;
      left = undefined;
      return taken;
    },
    pause() {},
    resume() {},
  };
}
