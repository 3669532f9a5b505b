import type { StreamChunk, StreamedAnswer } from "../gateway/answer.ts";
import { Deadline, type Deadlines } from "../lib/clock.ts";

/** Clients ignore it, and it keeps the connection open: a comment, or white space before the JSON. */
const KEEP_ALIVES = { stream: ": keep-alive\n\n", lateJson: "\n" } as const;

/**
 * The body of a streamed answer. Each chunk of the relay is one write. Nothing is read from the provider while the
 * client does not read. A direct stream has no queue before the socket, which saves a seventh of the cost of an event.
 * Each `keepaliveMs` without a chunk a keep-alive is sent; 0 sends none.
 */
export function streamBody(
  answer: StreamedAnswer,
  deadlines: Deadlines,
  signal: AbortSignal,
  keepaliveMs: number,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      type: "direct",
      pull: (sink) => new Delivery(answer, sink, { deadlines, signal, keepaliveMs }).run(),
    },
    EACH_WRITE_AT_ONCE,
  );
}

const EACH_WRITE_AT_ONCE = { highWaterMark: 1 };

interface DeliveryOptions {
  readonly deadlines: Deadlines;
  readonly signal: AbortSignal;
  readonly keepaliveMs: number;
}

/** Writes the chunks of one answer to the client's socket. */
class Delivery {
  readonly #answer: StreamedAnswer;
  readonly #sink: ReadableStreamDirectController;
  readonly #options: DeliveryOptions;
  /** The time at which a keep-alive is due, if nothing is written before. */
  readonly #keepAlive: Deadline;
  readonly #keepAliveText: string;
  #isWaiting = false;
  /** Writes that the client has not read yet. */
  #pendingWrites = 0;

  constructor(
    answer: StreamedAnswer,
    sink: ReadableStreamDirectController,
    options: DeliveryOptions,
  ) {
    this.#answer = answer;
    this.#keepAliveText = KEEP_ALIVES[answer.kind];
    this.#sink = sink;
    this.#options = options;
    this.#keepAlive = new Deadline(options.deadlines, () => this.#sendKeepAlive());
  }

  /** Resolves at the end of the stream. If the relay rejects, the connection is closed. */
  async run(): Promise<void> {
    const { relay, beginning } = this.#answer;
    const send = (chunk: StreamChunk): boolean => this.#send(chunk);
    try {
      this.#expectWrite();
      // Bun sends the status with the first byte. This client must get its 200 before the content.
      if (beginning && this.#options.keepaliveMs > 0) void this.#write(this.#keepAliveText);
      for (let isFirst = true; ; isFirst = false) {
        const ready = relay.ready(send);
        if (ready !== undefined) {
          this.#isWaiting = true;
          await ready;
          this.#isWaiting = false;
        }
        const chunk = relay.take();
        if (chunk === undefined) break;
        const written = this.#write(chunk);
        // Flushes before `pull` returns: Bun then sends the head and the first chunk in one packet.
        if (isFirst) void this.#sink.flush();
        if (typeof written !== "number") await this.#untilRead(written);
      }
      void this.#sink.end();
    } finally {
      this.#keepAlive.clear();
    }
  }

  /** Sends a chunk while `run` waits for the relay. Returns false if the client applies backpressure. */
  #send(chunk: StreamChunk): boolean {
    const written = this.#write(chunk);
    if (typeof written === "number") return true;
    void this.#untilRead(written);
    return false;
  }

  #write(chunk: StreamChunk): number | Promise<number> {
    const written = this.#sink.write(chunk);
    this.#expectWrite();
    return written;
  }

  async #untilRead(written: Promise<number>): Promise<void> {
    const { relay } = this.#answer;
    this.#pendingWrites += 1;
    relay.pause();
    await written;
    relay.resume();
    this.#pendingWrites -= 1;
  }

  #expectWrite(): void {
    const { keepaliveMs } = this.#options;
    if (keepaliveMs > 0) this.#keepAlive.set(keepaliveMs);
  }

  #sendKeepAlive(): void {
    if (this.#options.signal.aborted) return;
    // A client that does not read gets no keep-alive.
    if (this.#isWaiting && this.#pendingWrites === 0) void this.#write(this.#keepAliveText);
    this.#keepAlive.set(this.#options.keepaliveMs);
  }
}
