import { SseLimitError } from "../lib/sse.ts";
import { SseEncodingError } from "../lib/sseEvent.ts";
import { AnswerError, MisfireError } from "../providers/provider.ts";
import { ConnectionError, UpstreamError, upstreamErrorOf } from "../providers/upstream.ts";

/** Whether the provider's answer is to blame, and not our own code or store. */
export function isReadFailure(error: unknown): boolean {
  return (
    error instanceof UpstreamError ||
    error instanceof ConnectionError ||
    error instanceof AnswerError ||
    error instanceof SseLimitError ||
    error instanceof SseEncodingError
  );
}

/** Whatever broke an answer off, as the reason to end its exchange. */
export function readFailure(error: unknown): UpstreamError {
  if (error instanceof UpstreamError) return error;
  if (error instanceof MisfireError || error instanceof ConnectionError)
    return upstreamErrorOf(error);
  const isAnswer = isReadFailure(error);
  return new UpstreamError(isAnswer ? "provider" : "gateway", isAnswer ? "answer" : "internal", {
    cause: error,
  });
}

/**
 * What becomes of an attempt whose answer says itself that it failed. A client can bring that about as often as it
 * likes, so nobody's health hears of it.
 */
export function reportedFailure(): UpstreamError {
  return new UpstreamError("misfire", "reported failure");
}
