import type { OtherCounts } from "../../contract/figures.ts";
import type { GeneratedText } from "../../billing/estimate.ts";
import type { StreamFailure } from "../../contract/errors.ts";
import { type Usage, hasDecreased, isImplausible, largerUsage } from "../../contract/usage.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { lazy } from "../../lib/lazy.ts";
import type { Span } from "../../lib/span.ts";
import type { SseEvent } from "../../lib/sse.ts";
import {
  ANSWER_BYTES_MAX,
  AnswerError,
  ExcessiveAnswerError,
  parseAnswerJson,
} from "../../providers/provider.ts";
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
  /** The answer has ended. What follows in the stream is ignored. */
  readonly isClosed: boolean;
  /** The answer's own last event reports a failure. It is relayed as it is. It is charged only if text of it was delivered and it reports usage. */
  readonly reportsFailure: boolean;
  /** The largest usage that was reported so far. Undefined if there was no plausible report. */
  readonly usage: Usage | undefined;
  /** `usage` counts the whole answer. If false, it may be an early figure. */
  readonly isUsageFinal: boolean;
  /** The text that had arrived when the completion tokens of `usage` last grew. Undefined if `usage` is always final. */
  readonly usageText?: GeneratedText | undefined;
  /** What is wrong with the reports of usage, also with those that `usage` ignores. */
  readonly usageProblem?: UsageProblem | undefined;
  /** Services that the answer used and that cost more than the usual one, as far as the provider names them. */
  readonly services?: readonly string[];
  /** Finished calls of tools that the provider runs. Their results, and one more prompt for each round, are in its usage. */
  readonly providerCalls?: number;
  /** What has arrived of what is billed one by one, also without a usage. Undefined if `usage` always has it. */
  readonly counts?: OtherCounts;
  /** UTF-8 bytes of the text that was generated so far, for the estimate. The client may get less. */
  readonly textBytes: number;
  /** The number of deltas with generated text. Undefined for JSON. */
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

/** The limit for what comes before the content, and for what is kept back. */
const BUFFERED_MAX = 2 * ANSWER_BYTES_MAX;

/**
 * What a decoder has for the client: pieces that may be sent now, and what is kept back until the charge is committed. Text is
 * measured in characters.
 */
export class AnswerBuffer<Piece extends StreamChunk, Kept = Piece> {
  readonly #kept: Kept[] = [];
  readonly #tooMuchKept: string;
  #pieces: Piece[] = [];
  #openingSize = 0;
  #keptSize = 0;

  /** `tooMuchKept`: the message of the AnswerError if too much is kept back. */
  constructor(tooMuchKept: string) {
    this.#tooMuchKept = tooMuchKept;
  }

  get kept(): readonly Kept[] {
    return this.#kept;
  }

  /** `hasContent`: the answer has content with this piece. Throws AnswerError if too much comes before the content. */
  send(piece: Piece, hasContent: boolean): void {
    if (piece.length > 0) this.#pieces.push(piece);
    if (hasContent) return;
    this.#openingSize += piece.length;
    if (this.#openingSize > BUFFERED_MAX) throw new AnswerError("the answer does not begin");
  }

  keep(piece: Kept, size: number): void {
    this.#keptSize += size;
    if (this.#keptSize > BUFFERED_MAX) throw new AnswerError(this.#tooMuchKept);
    this.#kept.push(piece);
  }

  /** What may be sent now, each piece once. Undefined if there is nothing. */
  take(): Piece | undefined {
    const pieces = this.#pieces;
    if (pieces.length === 0) return undefined;
    this.#pieces = [];
    return pieces.length === 1 ? pieces[0] : joined(pieces);
  }
}

function joined<Piece extends StreamChunk>(pieces: readonly Piece[]): Piece {
  const isText = typeof pieces[0] === "string";
  // All pieces of a buffer are of one type.
  return (isText ? pieces.join("") : Buffer.concat(pieces as readonly Uint8Array[])) as Piece;
}

/**
 * The usage that a provider reports in one stream. Some servers report in every chunk, or report zeros until the
 * end. A report is final if it may be one of the whole answer and no text follows it.
 */
export class ReportedUsage {
  usage: Usage | undefined;
  /** The text that had arrived when the completion tokens of `usage` last grew. */
  text: GeneratedText | undefined;
  problem: UsageProblem | undefined;
  /** The bytes of text that had arrived at the last report that may count the whole answer. */
  #countedBytes: number | undefined;
  /** The last report came in a chunk without choices and has completion tokens, so it is not a placeholder. */
  #isCountedAlone = false;

  /** Adds a report that came after `text`. `isAlone`: the report came in a chunk without choices. `mayBeWhole`: it may count the whole answer. */
  add(reported: Usage, text: GeneratedText, isAlone: boolean, mayBeWhole: boolean): void {
    this.#isCountedAlone = isAlone && reported.completionTokens > 0;
    if (isImplausible(reported)) {
      this.problem = "implausible";
      return;
    }
    if (this.usage && hasDecreased(this.usage, reported)) this.problem ??= "decreased";
    if (reported.completionTokens > (this.usage?.completionTokens ?? 0)) this.text = text;
    this.usage = this.usage ? largerUsage(this.usage, reported) : reported;
    if (mayBeWhole) this.#countedBytes = text.bytes;
  }

  /** Whether `usage` counts the whole answer, which has this many bytes of text. */
  isFinal(isFinished: boolean, textBytes: number): boolean {
    if (!isFinished && !this.#isCountedAlone) return false;
    return this.#countedBytes === textBytes;
  }
}

/** Parses an event's data at the first call. Most events only need their name. */
export type EventFields = () => JsonFields;

/** Lenient: bytes that are not UTF-8, or not JSON, are relayed too, and must not hide the end of an answer. */
export function eventFields(event: SseEvent): EventFields {
  return lazy(() => {
    const data = event.lenientData;
    if (data === undefined) return {};
    try {
      const value = parseAnswerJson(data);
      return isJsonObject(value) ? value : {};
    } catch (error) {
      if (error instanceof ExcessiveAnswerError) throw error;
      return {};
    }
  });
}
