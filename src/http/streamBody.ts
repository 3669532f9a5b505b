import type { StreamChunk, StreamedAnswer } from "../gateway/answer.ts";
import { type Clock, Deadline } from "../lib/clock.ts";

/** A comment that clients skip and that keeps the connection in use. */
const KEEP_ALIVE = ": keep-alive\n\n";

/**
 * The body of a streamed answer: one piece of the relay for one write, and nothing is read of a provider
 * while its client does not read. A direct stream takes the pieces to the socket without a queue between,
 * which is a seventh of what an event costs. `keepaliveMs` 0 sends no comments.
 */
export function streamBody(
  answer: StreamedAnswer,
  clock: Clock,
  signal: AbortSignal,
  keepaliveMs: number,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      type: "direct",
      pull: (sink) => new Delivery(answer, sink, { clock, signal, keepaliveMs }).run(),
    },
    // Each write leaves by itself: nothing is gathered for a flush.
    { highWaterMark: 1 },
  );
}

interface DeliveryOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly keepaliveMs: number;
}

/** The way of one answer's pieces to the socket of its client. */
class Delivery {
  readonly #answer: StreamedAnswer;
  readonly #sink: ReadableStreamDirectController;
  readonly #options: DeliveryOptions;
  /** When nothing has been written for so long that a comment is due. */
  readonly #quiet: Deadline;
  #isWaiting = false;
  /** What was written and is not taken yet. */
  #pause = 0;

  constructor(
    answer: StreamedAnswer,
    sink: ReadableStreamDirectController,
    options: DeliveryOptions,
  ) {
    this.#answer = answer;
    this.#sink = sink;
    this.#options = options;
    this.#quiet = new Deadline(options.clock, () => this.#breakSilence());
  }

  /** Resolves at the end of the stream. Where the relay rejects, the connection breaks off. */
  async run(): Promise<void> {
    const { relay, beginning } = this.#answer;
    const send = (piece: StreamChunk): boolean => this.#send(piece);
    try {
      this.#expectWrite();
      // The head leaves with the first byte, and a late answer's client has waited for that.
      if (beginning && this.#options.keepaliveMs > 0) void this.#write(KEEP_ALIVE);
      for (;;) {
        this.#isWaiting = true;
        await relay.ready(send);
        this.#isWaiting = false;
        const piece = relay.take();
        if (piece === undefined) break;
        const taken = this.#write(piece);
        if (typeof taken !== "number") await this.#untilTaken(taken);
      }
      void this.#sink.end();
    } finally {
      this.#quiet.clear();
    }
  }

  /** What the relay has while somebody waits for it. False: the client does not take it yet. */
  #send(piece: StreamChunk): boolean {
    const taken = this.#write(piece);
    if (typeof taken === "number") return true;
    void this.#untilTaken(taken);
    return false;
  }

  #write(piece: StreamChunk): number | Promise<number> {
    const taken = this.#sink.write(piece);
    this.#expectWrite();
    return taken;
  }

  async #untilTaken(taken: Promise<number>): Promise<void> {
    const { relay } = this.#answer;
    this.#pause += 1;
    relay.pause();
    await taken;
    relay.resume();
    this.#pause -= 1;
  }

  #expectWrite(): void {
    const { keepaliveMs } = this.#options;
    if (keepaliveMs > 0) this.#quiet.set(keepaliveMs);
  }

  #breakSilence(): void {
    if (this.#options.signal.aborted) return;
    // A client that does not read needs no comment either.
    if (this.#isWaiting && this.#pause === 0) void this.#write(KEEP_ALIVE);
    this.#quiet.set(this.#options.keepaliveMs);
  }
}
