import type { Clock } from "../../lib/clock.ts";
import type { Span } from "../../lib/span.ts";
import { UpstreamError, type UpstreamExchange } from "../../providers/upstream.ts";
import type { Admission } from "../admission/admit.ts";
import type { StreamChunk } from "../answer.ts";
import type { AnswerDecoder } from "../decoding/answerDecoder.ts";
import { abortExchange, streamBreakCause } from "../answerFailure.ts";

/** How long the usage and the terminator may take behind a finished answer. */
const USAGE_TIMEOUT_MS = 2000;
/**
 * Most texts have four to eight bytes for a token, but a client may ask for a text of the longest tokens that there
 * are: lines of dashes, and indentation, of which OpenAI's vocabularies hold runs of 128 bytes.
 */
const BYTES_PER_TOKEN_MAX = 128;
const TOLERANCE = 1.5;
/** Room for answers whose bound is a handful of tokens. */
const BYTES_ALWAYS_ALLOWED = 64 * 1024;

/** Reads one provider's stream into its decoder. */
export class AnswerReader {
  readonly #exchange: UpstreamExchange;
  readonly #decoder: AnswerDecoder;
  /** A stream that has said more than this, far beyond all that its model can say, would never end. */
  readonly #textBytesMax: number;
  readonly #clock: Clock;
  /** When the time for what follows a finished answer is over; it begins when that is first asked for. */
  #usageDueMs: number | undefined;
  /** What broke the stream off, behind what came before it in the same read. */
  #broken: UpstreamError | undefined;

  constructor(options: {
    exchange: UpstreamExchange;
    decoder: AnswerDecoder;
    admission: Pick<Admission, "tokenLimits" | "modelTokensMax">;
    clock: Clock;
  }) {
    this.#exchange = options.exchange;
    this.#decoder = options.decoder;
    this.#clock = options.clock;
    const { tokenLimits, modelTokensMax } = options.admission;
    // Not the caller's bound alone: some providers' leaves out the thoughts, and a caller who gives a small one could
    // have them for nothing, and a route that is well put aside for everybody.
    const tokensMax = Math.max(tokenLimits.completionTokens, modelTokensMax);
    this.#textBytesMax = BYTES_ALWAYS_ALLOWED + tokensMax * TOLERANCE * BYTES_PER_TOKEN_MAX;
  }

  /** One read of what the decoder still wants. Rejects where the stream is broken, cut or endless. */
  async read(): Promise<void> {
    if (this.#broken || this.#decoder.isFinished) await this.#readRest();
    else this.#push(await this.#exchange.read());
  }

  /** What the client gets for bytes that need no more than a look; undefined: they must be read. */
  pass(span: Span): StreamChunk | undefined {
    if (this.#decoder.isFinished || this.#isRunaway(span.end - span.start)) return undefined;
    return this.#decoder.pass?.(span);
  }

  /** What follows an answer that is whole, which is its usage and its terminator, may be missing. */
  async #readRest(): Promise<void> {
    const { isFinished } = this.#decoder;
    try {
      if (this.#broken) throw this.#broken;
      // Where the gateway ended the answer the provider has more to say: its time is that amid an answer.
      if (!this.#decoder.isCutShort) this.#exchange.setReadTimeout(this.#usageLeftMs());
      this.#push(await this.#exchange.read());
    } catch (error) {
      if (!isFinished) throw error;
      abortExchange(this.#exchange, error);
      this.#push(undefined);
    }
  }

  #usageLeftMs(): number {
    const nowMs = this.#clock.monotonicMs();
    this.#usageDueMs ??= nowMs + USAGE_TIMEOUT_MS;
    // A read that need not wait never times out: a provider that goes on and on would be read for ever.
    if (this.#usageDueMs <= nowMs) throw new UpstreamError("provider", "timeout");
    return this.#usageDueMs - nowMs;
  }

  /** Undefined: the provider's stream has ended. */
  #push(bytes: Uint8Array | undefined): void {
    if (bytes === undefined) return this.#end();
    try {
      this.#decoder.push(bytes);
      if (this.#isRunaway(0)) throw new UpstreamError("provider", "runaway");
    } catch (error) {
      // What came before it counts as if it had come alone, however the network cut the stream.
      this.#broken = this.#decoder.hasContent ? streamBreakCause(error) : undefined;
      if (!this.#broken) throw error;
    }
  }

  #end(): void {
    this.#decoder.end();
    if (!this.#decoder.isClosed) throw new UpstreamError("provider", "cut");
  }

  #isRunaway(nextBytes: number): boolean {
    return this.#decoder.textBytes + nextBytes > this.#textBytesMax;
  }
}
