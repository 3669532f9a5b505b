import type { Clock } from "../../lib/clock.ts";
import type { Span } from "../../lib/span.ts";
import { UpstreamError, type UpstreamExchange } from "../../providers/upstream.ts";
import { type StreamChunk, abortExchange, streamBreakCause } from "../answer.ts";
import type { AnswerDecoder } from "../decoding/answerDecoder.ts";
import type { AdmittedScope } from "../requestScope.ts";

/** How long usage and terminator may take after a finished answer. */
const USAGE_TIMEOUT_MS = 2000;
/**
 * Most texts have four to eight bytes per token. The longest tokens of OpenAI's vocabularies (runs of dashes or spaces)
 * have 128.
 */
const BYTES_PER_TOKEN_MAX = 128;
const TOLERANCE = 1.5;
/** A minimum for answers with a bound of few tokens. */
const BYTES_ALWAYS_ALLOWED = 64 * 1024;

/** Reads the stream of one provider into a decoder. */
export class AnswerReader {
  readonly #exchange: UpstreamExchange;
  readonly #decoder: AnswerDecoder;
  /** A stream with more text than the model can generate is taken for endless. */
  readonly #textBytesMax: number;
  readonly #clock: Clock;
  /** The deadline for usage and terminator. Set at the first read after the answer finished. */
  #usageDueMs: number | undefined;
  /** A failure that came in the same read after content. It is reported at the next read. */
  #failure: UpstreamError | undefined;

  constructor(scope: AdmittedScope, exchange: UpstreamExchange, decoder: AnswerDecoder) {
    this.#exchange = exchange;
    this.#decoder = decoder;
    this.#clock = scope.gateway.clock;
    const { tokenLimits, modelTokensMax } = scope.admitted;
    // Not the caller's bound alone: with some providers it excludes reasoning.
    const tokensMax = Math.max(tokenLimits.completionTokens, modelTokensMax);
    this.#textBytesMax = BYTES_ALWAYS_ALLOWED + tokensMax * TOLERANCE * BYTES_PER_TOKEN_MAX;
  }

  /** Reads once. Rejects if the stream failed, is incomplete or endless. */
  async read(): Promise<void> {
    if (this.#failure || this.#decoder.isFinished) await this.#readRest();
    else this.#push(await this.#exchange.read());
  }

  /** The client's event for plain bytes, without decoding. Undefined if they must be decoded. */
  pass(span: Span): StreamChunk | undefined {
    if (this.#decoder.isFinished || this.#exceedsText(span.end - span.start)) return undefined;
    return this.#decoder.pass?.(span);
  }

  /** Reads usage and terminator after a finished answer. Both may be missing. */
  async #readRest(): Promise<void> {
    const { isFinished } = this.#decoder;
    try {
      if (this.#failure) throw this.#failure;
      // If a stop sequence ended the answer, the provider still generates, so the ordinary time-out holds.
      if (!this.#decoder.isCutShort) this.#exchange.setReadTimeout(this.#remainingUsageMs());
      this.#push(await this.#exchange.read());
    } catch (error) {
      if (!isFinished) throw error;
      abortExchange(this.#exchange, error);
      this.#push(undefined);
    }
  }

  #remainingUsageMs(): number {
    const nowMs = this.#clock.monotonicMs();
    this.#usageDueMs ??= nowMs + USAGE_TIMEOUT_MS;
    // A read with data at hand never times out, so an endless provider needs this check.
    if (this.#usageDueMs <= nowMs) throw new UpstreamError("provider", "timeout");
    return this.#usageDueMs - nowMs;
  }

  /** `undefined` is the end of the provider's stream. */
  #push(bytes: Uint8Array | undefined): void {
    if (bytes === undefined) return this.#end();
    try {
      this.#decoder.push(bytes);
      if (this.#exceedsText(0)) throw new UpstreamError("provider", "endless answer");
    } catch (error) {
      // Content before the failure counts, also if it came in the same read.
      this.#failure = this.#decoder.hasContent ? streamBreakCause(error) : undefined;
      if (!this.#failure) throw error;
    }
  }

  #end(): void {
    this.#decoder.end();
    if (!this.#decoder.isClosed) throw new UpstreamError("provider", "incomplete answer");
  }

  #exceedsText(nextBytes: number): boolean {
    return this.#decoder.textBytes + nextBytes > this.#textBytesMax;
  }
}
