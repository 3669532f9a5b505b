import type { RequestOutcome } from "../../billing/meter.ts";
import type { ApiError } from "../../contract/errors.ts";
import { Attempts, type Attempt } from "../../routing/attempts.ts";
import type { Candidate } from "../../routing/candidates.ts";
import type { Answer, Relay } from "../answer.ts";
import type { AnswerDecoder } from "../decoding/answerDecoder.ts";
import {
  answerHeaders,
  AttemptRecorder,
  mustStop,
  refusalOf,
  sendTo,
  settleFailure,
  type AdmittedRequest,
} from "../admittedRequest.ts";
import { lateRelay, singleChunkRelay, withEarlyHead } from "../earlyHead.ts";
import { StreamRelay } from "./streamRelay.ts";

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
export function openStream(
  admittedRequest: AdmittedRequest,
  decoderFor: (candidate: Candidate) => AnswerDecoder,
): Promise<Answer> {
  const { sseKeepaliveMs } = admittedRequest.context.snapshot.config.server;
  const stream = new StreamBeginning(admittedRequest, decoderFor);
  const beginning = stream.run();
  // Bun sends the head with the first byte of the body, so without keep-alive comments an early 200 has no effect.
  const waitMs = Math.min(sseKeepaliveMs, HEAD_WAIT_MS);
  return withEarlyHead(
    admittedRequest.gateway.deadlines,
    waitMs,
    openedStream(beginning, stream),
    () => {
      const late = beginLate(admittedRequest, beginning);
      // Which model will answer is not known yet.
      return { kind: "stream", relay: lateRelay(late), beginning: late, headers: {} };
    },
  );
}

/** The answer of a stream that has begun. */
async function openedStream(beginning: Promise<Relay>, stream: StreamBeginning): Promise<Answer> {
  const relay = await beginning;
  return { kind: "stream", relay, beginning: undefined, headers: stream.headers };
}

/** The beginning of one stream: the attempts up to the first content. */
class StreamBeginning {
  readonly #admittedRequest: AdmittedRequest;
  readonly #decoderFor: (candidate: Candidate) => AnswerDecoder;
  #last: StreamRelay | undefined;
  /** The headers of the answer that the last attempt began. */
  headers: Readonly<Record<string, string>> = {};

  constructor(
    admittedRequest: AdmittedRequest,
    decoderFor: (candidate: Candidate) => AnswerDecoder,
  ) {
    this.#admittedRequest = admittedRequest;
    this.#decoderFor = decoderFor;
  }

  /** Resolves after the first content; the relay then settles the meter. Otherwise settles it and throws ApiError. */
  async run(): Promise<Relay> {
    try {
      const relay = await this.#firstRelay();
      relay.start();
      return relay;
    } catch (error) {
      throw await settleFailure(this.#admittedRequest, error, this.#failedOutcome());
    }
  }

  /** The relay of the first route whose answer has content. */
  async #firstRelay(): Promise<StreamRelay> {
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
        const relay = await this.#try(attempt);
        attempt.answered();
        return relay;
      } catch (thrown) {
        const refusal = refusalOf(this.#admittedRequest, thrown);
        attempts.failed(attempt, thrown, refusal, this.#isAbandoned);
      }
    }
    throw attempts.failure();
  }

  #try(attempt: Attempt): Promise<StreamRelay> {
    const { gateway, context, admission } = this.#admittedRequest;
    const decoder = this.#decoderFor(attempt.candidate);
    const exchange = sendTo(this.#admittedRequest, attempt.candidate, true);
    // The relay must not retain the admitted request (memory rules: docs/architecture.md).
    const relay = new StreamRelay({
      gateway,
      context,
      admission,
      attempt,
      decoder,
      exchange,
    });
    this.#last = relay;
    this.headers = answerHeaders(this.#admittedRequest, attempt.candidate);
    return relay.begin();
  }

  get #isAbandoned(): boolean {
    return this.#admittedRequest.context.signal.aborted || mustStop(this.#admittedRequest);
  }

  #failedOutcome(): RequestOutcome {
    const status = this.#admittedRequest.context.signal.aborted ? "cancelled" : "failed";
    return this.#last?.billableOutcome() ?? { status };
  }
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
    // `StreamBeginning.run` throws ApiError only.
    const failure = error as ApiError;
    if (failure.cause !== undefined) context.logFailure(failure.cause);
    context.onStreamEnd();
    return singleChunkRelay(admittedRequest.streamFailure(failure));
  }
}
