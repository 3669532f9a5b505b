import type { Piece, StreamedAnswer } from "../gateway/answer.ts";
import type { Clock } from "../lib/clock.ts";
import { Deadline } from "../lib/deadline.ts";

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
      pull: (sink) => passOn(answer, sink, { clock, signal, keepaliveMs }),
    },
    // Each write leaves by itself: nothing is gathered for a flush.
    { highWaterMark: 1 },
  );
}

/** Resolves at the end of the stream. Where the relay rejects, the connection breaks off. */
async function passOn(
  { relay, beginning }: StreamedAnswer,
  sink: ReadableStreamDirectController,
  { clock, signal, keepaliveMs }: { clock: Clock; signal: AbortSignal; keepaliveMs: number },
): Promise<void> {
  let isWaiting = false;
  /** What was written and is not taken yet. */
  let pauses = 0;
  const quiet = new Deadline(clock, () => {
    if (signal.aborted) return;
    // A client that does not read needs no comment either.
    if (isWaiting && pauses === 0) void write(KEEP_ALIVE);
    quiet.set(keepaliveMs);
  });
  const write = (piece: Piece): number | Promise<number> => {
    const taken = sink.write(piece);
    if (keepaliveMs > 0) quiet.set(keepaliveMs);
    return taken;
  };
  const untilTaken = async (taken: Promise<number>): Promise<void> => {
    pauses += 1;
    relay.pauses();
    await taken;
    relay.resumes();
    pauses -= 1;
  };
  const send = (piece: Piece): boolean => {
    const taken = write(piece);
    if (typeof taken === "number") return true;
    void untilTaken(taken);
    return false;
  };
  try {
    if (keepaliveMs > 0) {
      quiet.set(keepaliveMs);
      // The head leaves with the first byte, and a late answer's client has waited for that.
      if (beginning) void write(KEEP_ALIVE);
    }
    for (;;) {
      isWaiting = true;
      await relay.ready(send);
      isWaiting = false;
      const piece = relay.take();
      if (piece === undefined) break;
      const taken = write(piece);
      if (typeof taken !== "number") await untilTaken(taken);
    }
    void sink.end();
  } finally {
    quiet.clear();
  }
}
