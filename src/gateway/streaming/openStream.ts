import type { RequestOutcome } from "../../billing/meter.ts";
import type { ApiError } from "../../contract/errors.ts";
import type { EncodedRequest } from "../../providers/provider.ts";
import { Attempts, type Attempt } from "../../routing/attempts.ts";
import type { Answer, Relay, StreamChunk } from "../answer.ts";
import {
  answerHeaders,
  attemptListener,
  exchangeBegan,
  mustStop,
  sendOptions,
} from "../attemptLog.ts";
import { lateRelay, singleChunkRelay, withEarlyHead } from "../earlyHead.ts";
import { refusalOf, type ProviderCall } from "../providerCall.ts";
import type { AdmittedScope } from "../requestScope.ts";
import { settleFailure } from "../settlement.ts";
import { StreamRelay } from "./streamRelay.ts";

/** How long the 200 waits for the first content, so that a failure can still be a 502. */
const HEAD_WAIT_MS = 15_000;

/**
 * Answers with a stream:
 * 1. Routes are tried in order. Nothing is sent to the client, so an error can still have its own status.
 * 2. The first content of a route arrives. From now on the answer is this route's. The 200 is sent.
 * 3. If step 2 takes too long, the 200 is sent before it, so that the client does not time out.
 * 4. The relay continues to the end and settles the meter.
 * Throws ApiError if all routes fail before the 200; the meter is settled by then. `failureOf`: the end of a stream that
 * failed after the 200 and before any content.
 */
export function openStream(
  scope: AdmittedScope,
  call: ProviderCall,
  failureOf: (error: ApiError) => StreamChunk,
): Promise<Answer> {
  const { sseKeepaliveMs } = scope.snapshot.config.server;
  const stream = new StreamBeginning(scope, call);
  const beginning = stream.run();
  // Bun sends the head with the first byte of the body, so without keep-alive comments an early 200 has no effect.
  const waitMs = Math.min(sseKeepaliveMs, HEAD_WAIT_MS);
  return withEarlyHead(scope.gateway.deadlines, waitMs, openedStream(beginning, stream), () => {
    const late = beginLate(scope, beginning, failureOf);
    // Which model will answer is not known yet.
    return { kind: "stream", relay: lateRelay(late), beginning: late, headers: {} };
  });
}

async function openedStream(beginning: Promise<Relay>, stream: StreamBeginning): Promise<Answer> {
  const relay = await beginning;
  return { kind: "stream", relay, beginning: undefined, headers: stream.headers };
}

/** The beginning of one stream: the attempts up to the first content. */
class StreamBeginning {
  readonly #scope: AdmittedScope;
  readonly #call: ProviderCall;
  #last: StreamRelay | undefined;
  /** The headers of the answer that the last attempt began. */
  headers: Readonly<Record<string, string>> = {};

  constructor(scope: AdmittedScope, call: ProviderCall) {
    this.#scope = scope;
    this.#call = call;
  }

  /** Resolves after the first content; the relay then settles the meter. Otherwise settles it and throws ApiError. */
  async run(): Promise<Relay> {
    try {
      const relay = await this.#firstRelay();
      relay.start();
      return relay;
    } catch (error) {
      throw await settleFailure(this.#scope, error, this.#failedOutcome());
    }
  }

  /** The relay of the first route whose answer has content. */
  async #firstRelay(): Promise<StreamRelay> {
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
        const relay = await this.#try(attempt);
        attempt.answered();
        return relay;
      } catch (thrown) {
        const refusal = refusalOf(this.#scope, thrown);
        attempts.failed(attempt, thrown, refusal, this.#isAbandoned);
      }
    }
    throw attempts.failure();
  }

  #try(attempt: Attempt): Promise<StreamRelay> {
    const encoding = this.#call.encode(this.#scope, attempt.candidate);
    return encoding instanceof Promise
      ? encoding.then((encoded) => this.#send(attempt, encoded))
      : this.#send(attempt, encoding);
  }

  #send(attempt: Attempt, encoded: EncodedRequest): Promise<StreamRelay> {
    const scope = this.#scope;
    const { candidate } = attempt;
    const decoder = this.#call.decoder(candidate);
    const options = sendOptions(scope, candidate, true, encoded.headers);
    const exchange = candidate.provider.upstream.send({ ...encoded, ...options });
    exchangeBegan(scope, exchange);
    // The relay must not retain the call, which has the body (memory rules: docs/contribute/architecture.md).
    const relay = new StreamRelay(scope, attempt, decoder, exchange);
    this.#last = relay;
    this.headers = answerHeaders(scope, candidate);
    return relay.begin();
  }

  get #isAbandoned(): boolean {
    return this.#scope.signal.aborted || mustStop(this.#scope);
  }

  #failedOutcome(): RequestOutcome {
    const status = this.#scope.signal.aborted ? "cancelled" : "failed";
    return this.#last?.billableOutcome() ?? { status };
  }
}

/** Continues a stream whose 200 was sent before any content. A failure becomes the end of the stream. */
async function beginLate(
  scope: AdmittedScope,
  beginning: Promise<Relay>,
  failureOf: (error: ApiError) => StreamChunk,
): Promise<Relay> {
  try {
    return await beginning;
  } catch (error) {
    // `StreamBeginning.run` throws ApiError only.
    const failure = error as ApiError;
    if (failure.cause !== undefined) scope.logFailure(failure.cause);
    scope.onStreamEnd();
    return singleChunkRelay(failureOf(failure));
  }
}
