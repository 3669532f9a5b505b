import { setTimeout as pause } from "node:timers/promises";

/** One server-sent event, framed and ready to be written. */
export interface StreamedEvent {
  readonly frame: string;
  /** A word takes its time; everything else follows at once. */
  readonly isWord: boolean;
}

/**
 * Answers with events as they are asked for. The next event is made only when the client has taken the one before, so
 * a client that does not read costs nothing; when the client goes away, the source is closed and nothing more is made.
 */
export function eventStream(events: Iterable<StreamedEvent>, wordDelayMs: number): Response {
  const source = events[Symbol.iterator]();
  const leaving = new AbortController();
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = source.next();
        if (next.done === true) {
          controller.close();
          return;
        }
        if (next.value.isWord && wordDelayMs > 0) {
          // Cut short, it rejects; nobody is there then to be told.
          await pause(wordDelayMs, undefined, { signal: leaving.signal }).catch(() => undefined);
        }
        if (!leaving.signal.aborted) controller.enqueue(encoder.encode(next.value.frame));
      },
      cancel() {
        leaving.abort();
        source.return?.();
      },
    },
    { highWaterMark: 0 },
  );
  const headers = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
  };
  return new Response(body, { headers });
}
