import type { GeneratedText } from "../../billing/estimate.ts";
import type { Usage } from "../../contract/usage.ts";
import type { Span } from "../../lib/span.ts";
import type { StreamChunk } from "../answer.ts";

/**
 * Reads a provider's stream and says what the client gets of it. Pure: bytes go in, pieces come out.
 * `push` and `end` throw AnswerError, SseLimitError or SseEncodingError for what the interface does not promise.
 */
export interface AnswerDecoder {
  push(bytes: Uint8Array): void;
  /**
   * The fast path beside `push`: what the client gets for bytes that are one event like others before it, so that
   * nothing is to be decided. Undefined: it is none, and they must be pushed.
   */
  pass?(span: Span): StreamChunk | undefined;
  /** The stream ended. What was complete by then is finished, even without the interface's own terminator. */
  end(): void;
  /** What may go to the client now; undefined when there is nothing. The answer's end is not among it. */
  take(): StreamChunk | undefined;
  /** The first content has come: the answer belongs to this provider now. */
  readonly hasContent: boolean;
  /** Before its first content the provider says that the model thinks: it is at work, and may be silent as amid an answer. */
  readonly isThinking?: boolean;
  /** The answer is whole; its usage may still follow. */
  readonly isFinished: boolean;
  /** It is whole only because the gateway itself ended it: the provider goes on, and reports its usage at its own end. */
  readonly isCutShort?: boolean;
  /** Nothing that matters follows. */
  readonly isClosed: boolean;
  /** The provider itself reports, in the answer's form, that it failed: relayed as it is, and not charged. */
  readonly reportsFailure: boolean;
  readonly usage: Usage | undefined;
  /** The usage is that of the whole answer, not an early figure of one that went on. */
  readonly isUsageFinal: boolean;
  /** The text that had come when `usage` got its number of completion tokens. Undefined where that is final. */
  readonly usageText?: GeneratedText | undefined;
  /** What was wrong with a report of usage, one that `usage` leaves out among them. */
  readonly usageProblem?: UsageProblem | undefined;
  /** Finished calls of tools that the provider runs: its usage counts the prompt of each round, and what they brought in. */
  readonly providerCalls?: number;
  /** UTF-8 bytes of the text that was generated so far, for the estimate. */
  readonly textBytes: number;
  /** The number of deltas that had some of that text. Undefined where it came whole. */
  readonly textDeltas?: number;
  /** The same of thoughts that came encrypted and not as text, at most: whoever leaves has them too. */
  readonly hiddenBytes?: number;
  /** Stored objects that the answer has named since the last call. */
  takeObjects(): readonly StoredObject[];
  /** The end that was kept back, for after the charge. */
  ending(billed: Usage): StreamChunk;
  /** How the stream ends when its provider failed after content. */
  failure(): StreamChunk;
}

/**
 * What an operator must hear of a provider's figures:
 * - `implausible`: no answer has so many tokens; another figure of the provider's is charged, or the estimate
 * - `beyond the model`: more of a completion than the model can make; charged as reported
 * - `fallen`: less than the provider had reported before; the larger figures are charged
 */
export type UsageProblem = "implausible" | "beyond the model" | "fallen";

/** A stored object of the provider's that an answer names: what its account may name again. */
export interface StoredObject {
  readonly id: string;
  /** What it brings into a prompt that names it; undefined for the response, which brings in the conversation that it ends. */
  readonly tokens: number | undefined;
}

/**
 * The largest answer in JSON that a provider may give, and the largest event of a stream: the last one of a response
 * says all of it once more, with what is known of each token, the caller's instructions, and pictures.
 */
export const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
