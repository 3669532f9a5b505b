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
  const pause = new Pause();
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = source.next();
        if (next.done === true) {
          controller.close();
          return;
        }
        if (next.value.isWord) await pause.wait(wordDelayMs);
        if (!pause.isOver) controller.enqueue(encoder.encode(next.value.frame));
      },
      cancel() {
        pause.end();
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

/** A wait that can be cut short for good. */
class Pause {
  isOver = false;
  #wake: (() => void) | undefined;
  #timer: Timer | undefined;

  async wait(durationMs: number): Promise<void> {
    if (durationMs <= 0 || this.isOver) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    this.#timer = setTimeout(resolve, durationMs);
    await promise;
  }

  end(): void {
    this.isOver = true;
    clearTimeout(this.#timer);
    this.#wake?.();
  }
}
