import { describe, expect, test } from "bun:test";
import {
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, openChat, type OpenReply } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  piece,
  raw,
  stream,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

const at = openOneModelBefore();
const streaming = { stream: true };

/** The deltas of a stream in order, each with its finish reason. */
function steps(reply: { text: string }): (readonly [delta: object, reason: string | null])[] {
  return chunksOf(reply).flatMap(({ choices }) =>
    (choices as { delta: object; finish_reason: string | null }[]).map(
      ({ delta, finish_reason: reason }) => [delta, reason] as const,
    ),
  );
}

describe("a finish reason without meaning does not end a choice", () => {
  test.each(["", "null"])("%p in each chunk: the text arrives as it comes", async (nothing) => {
    const words = ["one", "two", "three", "four"];
    const opened = Promise.withResolvers<OpenReply>();
    at.provider.answer = async (peer) => {
      await peer.send(streamHead);
      await peer.send(piece(chatEvent({ role: "assistant", content: "" }, nothing)));
      for (const word of words) {
        await peer.send(piece(chatEvent({ content: word }, nothing)));
        await (await opened.promise).seen(word);
      }
      for (const event of [stopEvent, usageEvent, doneEvent]) await peer.send(piece(event));
      await peer.send(streamEnd);
    };
    const key = await at.gateway.key();
    const reply = await openChat(at.gateway, key, streaming);
    opened.resolve(reply);
    await reply.seen("[DONE]");
    expect(steps(reply)).toEqual([
      [{ role: "assistant", content: "" }, null],
      ...words.map((content) => [{ content }, null] as const),
      [{}, "stop"],
    ]);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", estimated: false }]);
  });
});

describe("[DONE] after content ends a stream without a finish reason", () => {
  const call = {
    tool_calls: [{ index: 0, id: "call_1", function: { name: "f", arguments: "{}" } }],
  };
  const usual = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
  /** The event of a second choice. */
  const second = (event: string): string => event.replace('"index":0', '"index":1');

  test.each([
    ["a text", helloEvent, "stop"],
    ["a tool call", chatEvent(call), "tool_calls"],
    ["a text with an empty reason", chatEvent({ content: "Hello" }, ""), "stop"],
  ])(
    "%s: it is complete, with its usage on its end, and charged by it",
    async (_, event, reason) => {
      at.provider.answer = stream(roleEvent, event, usageEvent, doneEvent);
      const key = await at.gateway.key();
      const asked = { ...streaming, stream_options: { include_usage: true } };
      const reply = await chat(at.gateway, key, asked);
      expect(steps(reply).at(-1)).toEqual([{}, reason]);
      expect(chunksOf(reply).at(-1)).toMatchObject({ usage: { total_tokens: 27 } });
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "done", estimated: false, charge: usual },
      ]);
    },
  );

  test("without usage it is charged by the estimate", async () => {
    at.provider.answer = stream(helloEvent, doneEvent);
    const key = await at.gateway.key();
    expect(steps(await chat(at.gateway, key, streaming)).at(-1)).toEqual([{}, "stop"]);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", estimated: true }]);
  });

  test("ends each choice separately: one that ended keeps its reason", async () => {
    const ended = chatEvent({}, "length");
    at.provider.answer = stream(helloEvent, second(chatEvent(call)), ended, usageEvent, doneEvent);
    const reply = await chat(at.gateway, await at.gateway.key(), { ...streaming, n: 2 });
    const ends = chunksOf(reply)
      .flatMap(({ choices }) => choices as { index: number; finish_reason: string | null }[])
      .filter(({ finish_reason: reason }) => reason !== null);
    expect(ends).toEqual([
      expect.objectContaining({ index: 0, finish_reason: "length" }),
      expect.objectContaining({ index: 1, finish_reason: "tool_calls" }),
    ]);
  });

  test("a stream that ends without [DONE] ends with an error, and is not charged", async () => {
    at.provider.answer = stream(second(helloEvent), helloEvent, stopEvent, usageEvent);
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { ...streaming, n: 2 });
    expect(chunksOf(reply).at(-1)).toMatchObject({ error: { type: "provider_error" } });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });

  test("a choice with only a role gets no end", async () => {
    at.provider.answer = stream(helloEvent, second(roleEvent), usageEvent, doneEvent);
    const reply = await chat(at.gateway, await at.gateway.key(), { ...streaming, n: 2 });
    expect(reply.text.match(/"finish_reason":"/g)).toHaveLength(1);
  });
});

describe("data after the end of an answer", () => {
  const finished = [streamHead, piece(helloEvent + stopEvent)];
  const estimate = costOf({ prompt: 2, completion: 2 });

  test("without a pause is read only for as long as the usage may take", async () => {
    const comments = piece(": still here\n\n".repeat(5000));
    const comes = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      void peer.closed.then(closed.resolve);
      await raw(...finished, comments)(peer, request);
      comes.resolve();
      for (;;) await peer.send(comments);
    };
    const key = await at.gateway.key();
    const reply = await openChat(at.gateway, key, streaming);
    await reply.seen("Hello");
    await comes.promise;
    at.gateway.clock.advance(2000);
    await reply.seen("[DONE]");
    expect(steps(reply).at(-1)).toEqual([{}, "stop"]);
    await closed.promise;
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, charge: estimate },
    ]);
  });
});
