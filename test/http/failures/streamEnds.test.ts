import { describe, expect, test } from "bun:test";
import {
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, openChat } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  piece,
  raw,
  stream,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { beginChat } from "../../support/gateway/steppedChat.ts";
import { until } from "../../support/until.ts";

const TOTAL_TIMEOUT_MS = 60_000;
const at = openOneModelBefore(
  { billing: { disconnect_grace: "100ms" } },
  { total_timeout: `${TOTAL_TIMEOUT_MS}ms` },
);
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

interface ChunkPart {
  readonly index: number;
  readonly delta: { readonly content?: string };
  readonly finish_reason: string | null;
}

/** One chunk with these parts, in this order. */
function partsEvent(...parts: readonly (readonly [number, string, string | null])[]): string {
  const choices = parts.map(([index, content, reason]) => ({
    index,
    delta: content === "" ? {} : { content },
    finish_reason: reason,
  }));
  const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m" };
  return `data: ${JSON.stringify({ ...head, choices })}\n\n`;
}

/** The parts of all chunks, in the order in which the client sees them. */
function partsOf(seen: { text: string }): string[] {
  return chunksOf(seen)
    .flatMap(({ choices }) => choices as readonly ChunkPart[])
    .map(({ index, delta, finish_reason: reason }) => `${index}:${delta.content ?? ""}:${reason}`);
}

describe("a stream of two choices", () => {
  const two = { stream: true, n: 2 };

  test("has the text of each choice in order when one ends in a chunk with text of the other", async () => {
    at.provider.answer = stream(
      partsEvent([0, "A", null], [1, "1", null]),
      partsEvent([0, "B", "stop"], [1, "2", null]),
      partsEvent([1, "3", null]),
      partsEvent([1, "", "length"]),
      usageEvent,
      doneEvent,
    );
    const key = await at.gateway.key();
    const parts = partsOf(await chat(at.gateway, key, two));
    expect(parts).toEqual([
      "0:A:null",
      "1:1:null",
      "1:2:null",
      "1:3:null",
      "0:B:stop",
      "1::length",
    ]);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
  });

  test("sends the end of the first after the second has ended and all is charged", async () => {
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      const first = [partsEvent([0, "A", null]), partsEvent([0, "", "stop"], [1, "1", null])];
      await raw(streamHead, ...first.map(piece))(peer, request);
      await go.promise;
      const rest = [partsEvent([1, "", "stop"]), usageEvent, doneEvent];
      await raw(...rest.map(piece), streamEnd)(peer, request);
    };
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, two);
    await client.seen('"content":"1"');
    expect(client.text).not.toContain('"finish_reason":"');
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n);
    go.resolve();
    await client.seen("[DONE]");
    expect(partsOf(client)).toEqual(["0:A:null", "1:1:null", "0::stop", "1::stop"]);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - cost);
  });
});

test("a provider that never ends the body after its [DONE] loses the connection, and its client does not wait", async () => {
  let isClosed = false;
  at.provider.answer = async (peer, request) => {
    void peer.closed.then(() => (isClosed = true));
    const events = [helloEvent, stopEvent, usageEvent, doneEvent];
    await raw(streamHead, ...events.map(piece))(peer, request);
  };
  const client = await openChat(at.gateway, await at.gateway.key(), { stream: true });
  await client.seen("[DONE]");
  expect(isClosed).toBe(false);
  await until("the connection is closed", () => isClosed, TOTAL_TIMEOUT_MS / 2);
});

describe("a provider that continues after the finish reason", () => {
  const finished = [helloEvent, stopEvent].map(piece);
  /** The time in which the usage must come. */
  const USAGE_TIMEOUT_MS = 2000;

  test.each([
    ["comments", ": still here\n\n"],
    ["empty events", "data:\n\n"],
    ["chunks without choices or usage", 'data: {"choices":[]}\n\n'],
  ])("with endless %s: the answer ends, charged by the estimate", async (_, surplus) => {
    const closed = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      void peer.closed.then(closed.resolve);
      await raw(streamHead, ...finished)(peer, request);
      for (;;) {
        await peer.send(piece(surplus));
        await Bun.sleep(100);
      }
    };
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen("Hello");
    const helloAtMs = performance.now();
    await client.seen("[DONE]");
    expect(performance.now() - helloAtMs).toBeWithin(USAGE_TIMEOUT_MS - 500, TOTAL_TIMEOUT_MS / 2);
    expect(chunksOf(client).at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }] });
    await closed.promise;
    const charge = costOf({ prompt: 2, completion: 2 });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, charge },
    ]);
  });

  test("is aborted soon after its client has disconnected", async () => {
    const { key, client, provide, disconnect, givenUp } = await beginChat(at, { stream: true });
    await provide(streamHead, ...finished);
    await client.seen("Hello");
    await disconnect();
    const leftAtMs = performance.now();
    const over = new AbortController();
    void givenUp.then(() => over.abort());
    while (!over.signal.aborted) {
      await provide(piece(": still here\n\n")).catch(() => undefined);
      await Bun.sleep(50);
    }
    expect(performance.now() - leftAtMs).toBeLessThan(USAGE_TIMEOUT_MS);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "cancelled", estimated: true, charge: costOf({ prompt: 2, completion: 2 }) },
    ]);
  });
});
