import { describe, expect, test } from "bun:test";
import {
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  streamed,
  usage,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, openChat } from "../../support/gateway/chatCalls.ts";
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
const talkative = openOneModelBefore({ server: { sse_keepalive: "30ms" } });
const strict = openOneModelBefore({ api: { unknown_fields: "reject" } });
const shortTimeouts = openOneModelBefore(
  { api: { unknown_fields: "reject" } },
  { first_byte_timeout: "400ms" },
);

interface Chunk {
  choices: { index: number; delta: Record<string, unknown>; finish_reason: string | null }[];
}

/** The chunks that a client gets of a stream of these texts. */
async function relayed(texts: readonly (string | Uint8Array)[], request = {}): Promise<Chunk[]> {
  at.provider.answer = stream(...texts);
  const reply = await chat(at.gateway, await at.gateway.key(), { stream: true, ...request });
  expect(reply.status).toBe(200);
  return chunksOf(reply) as unknown as Chunk[];
}

/** The joined text and the finish reason of each choice. */
function said(chunks: readonly Chunk[]): Record<number, [string, string | null]> {
  const texts: Record<number, [string, string | null]> = {};
  for (const { index, delta, finish_reason: reason } of chunks.flatMap(({ choices }) => choices)) {
    const [text, end] = texts[index] ?? ["", null];
    texts[index] = [text + ((delta["content"] as string | undefined) ?? ""), reason ?? end];
  }
  return texts;
}

describe("fields of chunks without choices", () => {
  const filters = { prompt_filter_results: [{ prompt_index: 0 }] };
  const moderation = { moderation: { flagged: false } };
  const aside = (fields: object) => chatEvent({}, null, { choices: [], ...fields });
  const bearers = (chunks: readonly object[], field: string) =>
    chunks.flatMap((chunk, at) => (field in chunk ? [at] : []));

  test("are on the next chunk with choices; after the last text, on the chunk that ends the stream", async () => {
    const chunks = await relayed([
      aside(filters),
      roleEvent,
      helloEvent,
      helloEvent,
      aside({ ...moderation, obfuscation: "x", usage: null, nothing: null }),
      helloEvent,
      stopEvent,
      aside({ late: 1 }),
      usageEvent,
      doneEvent,
    ]);
    expect(chunks[0]).toMatchObject(filters);
    expect(chunks[3]).toMatchObject(moderation);
    expect(chunks.at(-1)).toMatchObject({ late: 1, choices: [{ finish_reason: "stop" }] });
    const fields = ["prompt_filter_results", "moderation", "late", "obfuscation", "nothing"];
    expect(fields.map((field) => bearers(chunks, field))).toEqual([[0], [3], [4], [], []]);
    expect(said(chunks)).toEqual({ 0: ["HelloHelloHello", "stop"] });
  });

  test("do not replace fields of the chunk, and are no content", async () => {
    const chunks = await relayed([
      aside({ service_tier: "flex", id: "theirs" }),
      chatEvent({ content: "a" }, null, { service_tier: "default" }),
      stopEvent,
      doneEvent,
    ]);
    expect(chunks[0]).toMatchObject({ service_tier: "default" });
    expect(chunks[0]).not.toMatchObject({ id: "theirs" });
  });

  test("are bounded: more of them are dropped", async () => {
    const names = Array.from({ length: 100 }, (_, index) => `field_${index}`);
    const chunks = await relayed([
      ...names.map((name) => aside({ [name]: 1 })),
      helloEvent,
      stopEvent,
      doneEvent,
    ]);
    const borne = names.filter((name) => name in (chunks[0] ?? {}));
    expect(borne).toEqual(names.slice(0, 64));
  });

  test("are dropped with unknown_fields = reject", async () => {
    strict.provider.answer = stream(
      aside(filters),
      helloEvent,
      stopEvent,
      aside(moderation),
      doneEvent,
    );
    const reply = await chat(strict.gateway, await strict.gateway.key(), { stream: true });
    for (const field of ["prompt_filter_results", "moderation"]) {
      expect(bearers(chunksOf(reply), field)).toEqual([]);
    }
  });
});

describe("a stream", () => {
  test("has chunks of the documented form, with the role first and [DONE] last", async () => {
    at.provider.answer = streamed;
    const reply = await chat(at.gateway, await at.gateway.key(), { stream: true });
    const head = {
      id: reply.id.replace("req_", "chatcmpl-"),
      object: "chat.completion.chunk",
      created: 1,
      model: "small",
    };
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta, finish_reason }],
    });
    expect(chunksOf(reply)).toEqual([
      chunk({ role: "assistant", content: "" }),
      chunk({ content: "Hello" }),
      chunk({ content: " there" }),
      chunk({}, "stop"),
    ]);
  });

  test("has the gateway's headers and no header of the provider", async () => {
    const events = [helloEvent, stopEvent, usageEvent, doneEvent].map(piece);
    const foreign = "set-cookie: a=b\r\nopenai-organization: org-x\r\nx-request-id: theirs\r\n\r\n";
    at.provider.answer = raw(streamHead.replace(/\r\n$/, foreign), ...events, streamEnd);
    const { headers, id } = await chat(at.gateway, await at.gateway.key(), { stream: true });
    const { date: _, "transfer-encoding": __, ...others } = Object.fromEntries(headers);
    expect(others).toEqual({
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      vary: "authorization, x-api-key",
      "x-accel-buffering": "no",
      "x-request-id": id,
    });
  });

  test.each([
    ["not requested", {}, false],
    ["refused", { stream_options: { include_usage: false } }, false],
    ["null", { stream_options: null }, false],
    ["requested", { stream_options: { include_usage: true } }, true],
  ])("with usage %s has it on the finish chunk or not at all", async (_, request, isShown) => {
    const chunks = await relayed(
      [roleEvent, helloEvent, stopEvent, usageEvent, doneEvent],
      request,
    );
    expect(chunks.every(({ choices }) => choices.length > 0)).toBe(true);
    expect(chunks.map((chunk) => "usage" in chunk)).toEqual([false, false, isShown]);
    if (isShown) expect(chunks.at(-1)).toMatchObject({ usage });
  });

  test("forwards unknown fields of a chunk, a choice and a delta", async () => {
    const delta = { content: "a", reasoning_content: "hm", refusal: null };
    const event = chatEvent(delta, null, { system_fingerprint: "fp" });
    const [first] = await relayed([event, stopEvent, doneEvent]);
    expect(first).toMatchObject({ system_fingerprint: "fp", choices: [{ delta }] });
  });

  test.each([
    ["flex", 4],
    ["on_demand", 0],
  ])("has a service_tier of %s in %d chunks", async (service_tier, count) => {
    const tier = { service_tier };
    const hello = chatEvent({ content: "a" }, null, tier);
    const chunks = await relayed([hello, hello, hello, chatEvent({}, "stop", tier), doneEvent]);
    expect(said(chunks)).toEqual({ 0: ["aaa", "stop"] });
    expect(chunks.filter((chunk) => "service_tier" in chunk)).toHaveLength(count);
  });

  test("drops unknown fields with unknown_fields = reject", async () => {
    const event = chatEvent({ content: "a", tool_calls: [{}] }, null, { system_fingerprint: "fp" });
    strict.provider.answer = stream(event, stopEvent, usageEvent, doneEvent);
    const reply = await chat(strict.gateway, await strict.gateway.key(), { stream: true });
    const head = {
      id: expect.any(String),
      object: "chat.completion.chunk",
      created: 1,
      model: "small",
    };
    expect(chunksOf(reply)).toEqual([
      { ...head, choices: [{ index: 0, delta: { content: "a" }, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    ]);
  });

  test("with unknown_fields = reject counts dropped fields as content and as completion", async () => {
    const reasoning = chatEvent({ reasoning_content: "12345678" });
    shortTimeouts.provider.answer = async (peer) => {
      await peer.send(streamHead);
      await peer.send(piece(reasoning));
      // Longer than first_byte_timeout. The content has arrived, though the client does not see it.
      await Bun.sleep(1000);
      for (const event of [helloEvent, stopEvent, doneEvent]) await peer.send(piece(event));
      await peer.send(streamEnd);
    };
    const key = await shortTimeouts.gateway.key();
    const reply = await chat(shortTimeouts.gateway, key, { stream: true });
    const shown = chunksOf(reply).map(({ choices }) => (choices as { delta: object }[])[0]?.delta);
    expect(shown).toEqual([{ content: "Hello" }, {}]);
    // "hello", and the 13 bytes of "12345678" and "Hello".
    expect(await shortTimeouts.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, promptTokens: 2, completionTokens: 4 },
    ]);
  });

  test.each([
    [
      "content of null",
      { role: null, content: null, reasoning_content: "hm" },
      { reasoning_content: "hm" },
    ],
    ["another role", { role: "model", content: "a" }, { role: "assistant", content: "a" }],
    ["a list of parts", { content: [{ type: "text", text: "a" }] }, { content: "a" }],
  ])("never has null or an unexpected value in a delta: %s", async (_, delta, shown) => {
    const [first] = await relayed([chatEvent(delta), stopEvent, doneEvent]);
    expect(first?.choices[0]?.delta).toEqual(shown);
  });

  test("forwards tool calls in pieces, and ends with tool_calls for any reason of the provider", async () => {
    const start = {
      tool_calls: [
        { index: 0, id: "call_1", type: "function", function: { name: "f", arguments: "" } },
      ],
    };
    const more = { tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] };
    const events = [chatEvent(start), chatEvent(more), chatEvent({}, "end_turn"), doneEvent];
    const chunks = await relayed(events);
    expect(chunks.map(({ choices }) => choices[0])).toEqual([
      { index: 0, delta: start, finish_reason: null },
      { index: 0, delta: more, finish_reason: null },
      { index: 0, delta: {}, finish_reason: "tool_calls" },
    ]);
  });

  test.each([
    ["length", "length"],
    ["content_filter", "content_filter"],
    ["eos", "stop"],
  ])("maps the finish reason %s to %s", async (reported, shown) => {
    const chunks = await relayed([helloEvent, chatEvent({}, reported), doneEvent]);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe(shown);
  });

  test("of two choices ends when both have ended", async () => {
    const second = (delta: object, reason: string | null = null) =>
      chatEvent(delta, reason).replace('"index":0', '"index":1');
    const events = [
      helloEvent,
      second({ content: "Hi" }),
      stopEvent,
      second({ content: "!" }),
      second({}, "length"),
      usageEvent,
      doneEvent,
    ];
    const chunks = await relayed(events, { n: 2 });
    expect(said(chunks)).toEqual({ 0: ["Hello", "stop"], 1: ["Hi!", "length"] });
  });

  test("sends comments while its provider is silent, and the content arrives completely", async () => {
    const go = Promise.withResolvers<void>();
    talkative.provider.answer = async (peer) => {
      await peer.send(streamHead);
      await peer.send(piece(helloEvent));
      await go.promise;
      for (const event of [stopEvent, usageEvent, doneEvent]) await peer.send(piece(event));
      await peer.send(streamEnd);
    };
    const client = await openChat(talkative.gateway, await talkative.gateway.key(), {
      stream: true,
    });
    await client.seen(": keep-alive\n\n: keep-alive\n\n");
    go.resolve();
    await client.seen("[DONE]");
    const events = client.text.replaceAll(": keep-alive\n\n", "");
    expect(said(chunksOf({ text: events }) as unknown as Chunk[])).toEqual({
      0: ["Hello", "stop"],
    });
  });
});
