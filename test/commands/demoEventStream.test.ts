import { describe, expect, test } from "bun:test";
import { eventStream, type StreamedEvent } from "../../src/commands/demo/answer.ts";

describe("the writing of events", () => {
  /** Events without end, and what became of their source. */
  function endless(isWord = false): {
    events: Generator<StreamedEvent>;
    made: () => number;
    closed: Promise<void>;
  } {
    const { promise, resolve } = Promise.withResolvers<void>();
    let made = 0;
    function* events(): Generator<StreamedEvent> {
      try {
        while (true) yield { frame: `data: ${made++}\n\n`, isWord };
      } finally {
        resolve();
      }
    }
    return { events: events(), made: () => made, closed: promise };
  }

  test("makes no event before the client asks for it", async () => {
    const { events, made } = endless();
    const reader = eventStream(events, 0).body?.getReader();
    expect(made()).toBe(0);
    for (let read = 1; read <= 50; read += 1) {
      await reader?.read();
      expect(made()).toBe(read);
    }
    await reader?.cancel();
  });

  test.each([
    ["between two events", 0],
    ["during a pause", 3_600_000],
  ])("closes its source when the client goes away %s", async (_, wordDelayMs) => {
    const { events, closed } = endless(wordDelayMs > 0);
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () => eventStream(events, wordDelayMs),
    });
    const abort = new AbortController();
    const request = fetch(server.url, { signal: abort.signal });
    if (wordDelayMs === 0) await (await request).body?.getReader().read();
    else await waitUntil(() => server.pendingRequests === 1);
    abort.abort();
    await request.catch(() => undefined);
    await closed;
    await server.stop(true);
  });

  /** Lets the event loop turn until a condition holds; the test's time-out is the limit. */
  async function waitUntil(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise((resolve) => setImmediate(resolve));
  }
});
