import type { StreamedAnswer } from "../gateway/answer.ts";
import type { Clock } from "../lib/clock.ts";
import { createDeadline } from "../lib/deadline.ts";

/** A comment that clients skip and that keeps the connection in use. */
const KEEP_ALIVE = Buffer.from(": keep-alive\n\n");

/**
 * The body of a streamed answer. It is pulled: one piece of the relay for one write, and nothing is
 * read of a provider while its client does not read. `keepaliveMs` 0 sends no comments.
 */
export function streamBody(
  { relay, isLate }: StreamedAnswer,
  clock: Clock,
  signal: AbortSignal,
  keepaliveMs: number,
): ReadableStream<Uint8Array> {
  let isPulling = false;
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const quiet = createDeadline(clock, () => {
    if (signal.aborted) return;
    // A client that does not read needs no comment either.
    if (isPulling) controller?.enqueue(KEEP_ALIVE);
    quiet.set(keepaliveMs);
  });
  return new ReadableStream<Uint8Array>(
    {
      start(started) {
        controller = started;
        if (keepaliveMs === 0) return;
        quiet.set(keepaliveMs);
        // The head leaves with the first byte, and a late answer's client has waited for that.
        if (isLate) started.enqueue(KEEP_ALIVE);
      },
      async pull(pulled) {
        isPulling = true;
        try {
          const piece = await relay.next();
          if (piece === undefined) {
            quiet.clear();
            pulled.close();
          } else {
            if (keepaliveMs > 0) quiet.set(keepaliveMs);
            pulled.enqueue(typeof piece === "string" ? Buffer.from(piece) : piece);
          }
        } catch (error) {
          quiet.clear();
          throw error;
        } finally {
          isPulling = false;
        }
      },
      cancel() {
        quiet.clear();
        controller = undefined;
      },
    },
    { highWaterMark: 0 },
  );
}
