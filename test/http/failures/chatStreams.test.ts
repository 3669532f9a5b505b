import { describe, expect, test } from "bun:test";
import {
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  streamed,
  thereEvent,
} from "../../support/provider/chatAnswers.ts";
import {
  chat,
  chunksOf,
  expectRefusal,
  noProvider,
  openChat,
} from "../../support/gateway/chatCalls.ts";
import { openBefore, openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  cut,
  piece,
  raw,
  stream,
  streamHead,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

const at = openOneModelBefore(
  {},
  { idle_timeout: "400ms", first_content_timeout: "400ms", total_timeout: "2s" },
);
const streaming = { stream: true };

const begun = [streamHead, piece(roleEvent), piece(helloEvent)];
/** OpenRouter's form of an error of its own provider: https://openrouter.ai/docs/api/reference/errors-and-debugging */
const failedChoice = { index: 0, delta: {}, error: { code: 502, message: "secret" } };

describe("a stream whose provider fails after content ends with one error chunk", () => {
  test.each<[string, ProviderAnswer]>([
    ["it is cut within its framing", cut("fin", ...begun)],
    ["it ends without a finish reason", stream(helloEvent)],
    ["an event is not an object", stream(helloEvent, "data: 5\n\n", stopEvent, doneEvent)],
    [
      "an event is not UTF-8",
      stream(
        helloEvent,
        Uint8Array.of(...Buffer.from("data: "), 0xff, 10, 10),
        stopEvent,
        doneEvent,
      ),
    ],
    [
      "an event is an error",
      stream(helloEvent, 'data: {"error":{"message":"secret"}}\n\n', doneEvent),
    ],
    [
      "an event is of the type error",
      stream(helloEvent, 'event: error\ndata: {"message":"secret"}\n\n', doneEvent),
    ],
    [
      "an error has a line of its own",
      stream(helloEvent, 'error: {"message":"secret"}\n\n', doneEvent),
    ],
    [
      "a choice is an error",
      stream(helloEvent, chatEvent({}, null, { choices: [failedChoice] }), doneEvent),
    ],
    [
      "a choice is an error after its finish reason",
      stream(
        helloEvent,
        chatEvent({}, "stop", { choices: [{ ...failedChoice, finish_reason: "stop" }] }),
        doneEvent,
      ),
    ],
    ["the finish reason is error", stream(helloEvent, chatEvent({}, "error"), doneEvent)],
    [
      "the finish reason is network_error",
      stream(helloEvent, chatEvent({}, "network_error"), doneEvent),
    ],
    ["content is not a string", stream(helloEvent, chatEvent({ content: 5 }), doneEvent)],
    ["choices are not a list", stream(helloEvent, 'data: {"choices":5}\n\n', doneEvent)],
  ])("%s", async (_, answer) => {
    at.provider.answer = answer;
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, streaming);
    expect(reply.status).toBe(200);
    const chunks = chunksOf(reply);
    expect(chunks.at(-1)).toEqual({
      id: reply.id.replace("req_", "chatcmpl-"),
      object: "chat.completion.chunk",
      created: expect.any(Number),
      model: "small",
      choices: [{ index: 0, delta: {}, logprobs: false, finish_reason: "error" }],
      error: { message: "upstream provider failure", type: "provider_error" },
    });
    // go-openai detects an error by these bytes: https://github.com/sashabaranov/go-openai/blob/master/stream_reader.go
    expect(reply.text).toContain('\n\ndata: {"error":{');
    // Content before the fault reaches the client, in whichever read the fault comes.
    expect(reply.text.match(/Hello/g)).toHaveLength(1);
    expect(reply.text.match(/"finish_reason":"(?!error)/g)).toBeNull();
    expect(reply.text).not.toContain("secret");
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n);
    expect(at.gateway.log.findLast(({ msg }) => msg === "request")).toMatchObject({
      level: "error",
    });
  });

  test("content right before the fault reaches the client, also in the same read", async () => {
    const gone = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await raw(...begun)(peer, request);
      await gone.promise;
      await raw(piece(`${thereEvent}data: {nonsense\n\n`))(peer, request);
    };
    const client = await openChat(at.gateway, await at.gateway.key(), streaming);
    await client.seen("Hello");
    gone.resolve();
    await client.seen("[DONE]");
    const chunks = chunksOf(client) as unknown as { choices: { delta: object }[] }[];
    const deltas = chunks.map(({ choices }) => choices[0]?.delta);
    expect(deltas.slice(1)).toEqual([{ content: "Hello" }, { content: " there" }, {}]);
  });

  test("also when one of its two choices never ended", async () => {
    at.provider.answer = cut("fin", ...begun, piece(stopEvent));
    const reply = await chat(at.gateway, await at.gateway.key(), { ...streaming, n: 2 });
    expect(chunksOf(reply).at(-1)).toMatchObject({ error: { type: "provider_error" } });
  });
});

describe("a stream that fails before content", () => {
  const pair = openBefore(["one", "two"], ({ one, two }) => ({
    providers: {
      one: { base_url: one, first_content_timeout: "400ms", idle_timeout: "400ms" },
      two: { base_url: two },
    },
    models: [{ id: "small", routes: [{ provider: "one" }, { provider: "two" }] }],
  }));

  const failures: readonly (readonly [string, ProviderAnswer])[] = [
    ["an error as its first event", stream('data: {"error":{"message":"overloaded"}}\n\n')],
    ["an error after the role", stream(roleEvent, 'data: {"error":{"message":"overloaded"}}\n\n')],
    [
      "an error after a role with an empty finish reason",
      stream(
        chatEvent({ role: "assistant", content: "" }, ""),
        'data: {"error":{"message":"overloaded"}}\n\n',
      ),
    ],
    [
      "a named error event",
      stream('event: error\ndata: {"error":{"type":"overloaded_error"}}\n\n'),
    ],
    ["a role alone", stream(roleEvent, doneEvent)],
    [
      "endless comments",
      async (peer) => {
        await peer.send(streamHead);
        for (;;) {
          await peer.send(piece(": still here\n\n"));
          await Bun.sleep(5);
        }
      },
    ],
  ];

  test.each(failures)("%s: the next route answers", async (_, answer) => {
    pair.providers.one.answer = answer;
    pair.providers.two.answer = streamed;
    const key = await pair.gateway.key();
    const reply = await chat(pair.gateway, key, streaming);
    expect(chunksOf(reply)).toHaveLength(4);
    const [record] = await pair.gateway.records(key, 1);
    expect(record).toMatchObject({ status: "done", provider: "two", attemptCount: 2 });
    expect(pair.providers.two.requests).toHaveLength(1);
  });

  test.each(failures)("%s, and no other route: 502 in JSON", async (_, answer) => {
    at.provider.answer = answer;
    const key = await at.gateway.key();
    expectRefusal(await chat(at.gateway, key, streaming), noProvider);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });

  test("after content no other route is tried", async () => {
    pair.providers.one.answer = cut("fin", ...begun);
    pair.providers.two.answer = streamed;
    const reply = await chat(pair.gateway, await pair.gateway.key(), streaming);
    expect(chunksOf(reply).at(-1)).toMatchObject({ error: { type: "provider_error" } });
    expect(pair.providers.two.requests).toHaveLength(0);
  });
});
