import type { GeneratedText } from "../../billing/estimate.ts";
import type { StreamFailure } from "../../contract/errors.ts";
import type { Usage } from "../../contract/usage.ts";
import type { Span } from "../../lib/span.ts";
import type { StreamChunk } from "../answer.ts";

/**
 * Decodes the stream of one answer: bytes of the provider go in, bytes for the client come out. It does no I/O.
 * `push`, `pass` and `end` throw AnswerError, SseLimitError or SseEncodingError if the stream breaks the rules of its
 * interface.
 */
export interface AnswerDecoder {
  /** Reads the next bytes of the stream. `take` returns what they add for the client. */
  push(bytes: Uint8Array): void;
  /**
   * The fast path for bytes that are exactly one event which matches a template. Returns the event for the client.
   * Undefined if there is no match: then nothing has changed, and the caller must `push` the bytes.
   */
  pass?(span: Span): StreamChunk | undefined;
  /** The stream has ended. Finishes the answer if it is complete, with or without the interface's own terminator. */
  end(): void;
  /** Returns what may be sent to the client now, each byte once. Undefined if there is nothing. Never the answer's end. */
  take(): StreamChunk | undefined;
  /** The first content has arrived. From now on there is no failover. */
  readonly hasContent: boolean;
  /** The answer is complete. Its usage may still follow. */
  readonly isFinished: boolean;
  /** The gateway ended the answer at a stop sequence. The provider continues, and reports its usage at its own end. */
  readonly isCutShort?: boolean;
  /** The rest of the stream does not matter. Nothing more needs to be pushed. */
  readonly isClosed: boolean;
  /** The answer's own last event reports a failure. It is relayed as it is, and nothing is charged. */
  readonly reportsFailure: boolean;
  /** The largest usage that was reported so far. Undefined if there was no plausible report. */
  readonly usage: Usage | undefined;
  /** `usage` counts the whole answer. If false, it may be an early figure. */
  readonly isUsageFinal: boolean;
  /** The text that had arrived when the completion tokens of `usage` last grew. Undefined if `usage` is always final. */
  readonly usageText?: GeneratedText | undefined;
  /** What is wrong with the reports of usage, also with those that `usage` ignores. */
  readonly usageProblem?: UsageProblem | undefined;
  /** What serves the answer, as far as it is known, and costs more than the usual service. */
  readonly expensiveServices?: readonly string[];
  /** Finished calls of tools that the provider runs. Their results, and one more prompt for each round, are in its usage. */
  readonly providerCalls?: number;
  /** Finished web searches that the provider bills one by one, also without a usage. Undefined if `usage` always has them. */
  readonly webSearches?: number;
  /** UTF-8 bytes of the text that was generated so far, for the estimate. The client may get less. */
  readonly textBytes: number;
  /** The number of deltas with some of that text. Undefined if it is not a stream. */
  readonly textDeltas?: number;
  /** The most UTF-8 bytes of reasoning that arrived encrypted and not as text. `textBytes` does not count them. */
  readonly encryptedReasoningBytes?: number;
  /** The provider's name for the model that answers, unchecked. For traces, as `finishReasons` is. */
  readonly model?: unknown;
  /** The finish reasons that have arrived, one for each choice. */
  readonly finishReasons?: readonly unknown[];
  /** Returns the stored objects that the answer has named since the last call. */
  takeObjects(): readonly StoredObject[];
  /** The end of a finished answer, which is held back until the charge is committed. `billed`: the usage to show. */
  ending(billed: Usage): StreamChunk;
  /** The end of a stream that failed after the first content. */
  failure(error: StreamFailure): StreamChunk;
}

/**
 * A problem with reported usage that is logged for the operator:
 * - `implausible`: no answer has this many tokens. Another report of the same answer is charged, or the estimate.
 * - `above model limit`: more completion tokens than the model can produce. They are charged as reported.
 * - `decreased`: less than an earlier report of the same answer. The larger figures are charged.
 */
export type UsageProblem =
  | "implausible"
  | "above model limit"
  | "decreased"
  | "total above its parts";

/** A stored object that an answer names. Its account may name it in later requests. */
export interface StoredObject {
  readonly id: string;
  /** The tokens that it adds to a prompt that names it. Undefined for a response, which adds its whole conversation. */
  readonly tokens: number | undefined;
}
