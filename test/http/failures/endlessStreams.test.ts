import { expect, test } from "bun:test";
import { doneEvent, usageOnly } from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, openCall } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { terminal } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import {
  piece,
  raw,
  stream,
  streamHead,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";
import { chatEvent, responseEvent } from "../../support/provider/upstreamText.ts";

const at = openOneModelBefore();

/** Sends the same text without end. */
function endless(event: string): ProviderAnswer {
  return async (peer, request) => {
    await raw(streamHead)(peer, request);
    for (;;) await peer.send(piece(event));
  };
}

const words = "word ".repeat(500);

test("a stream far beyond its model's bound is cut with an error and not charged", async () => {
  at.provider.answer = endless(chatEvent({ content: words }));
  const key = await at.gateway.key();
  const reply = await chat(at.gateway, key, { stream: true, max_tokens: 50 });
  expect(chunksOf(reply).at(-1)).toMatchObject({
    error: { type: "provider_error", message: "upstream provider failure" },
  });
  expect(Buffer.byteLength(reply.text)).toBeLessThan(1_000_000);
  expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  const [attempt] = await at.gateway.store.requests.attempts(reply.id);
  expect(attempt).toMatchObject({ outcome: "endless answer" });
});

test("a responses stream far beyond its model's bound is cut with an error and not charged", async () => {
  at.provider.answer = endless(responseEvent("response.output_text.delta", { delta: words }));
  const key = await at.gateway.key();
  const body = { model: "small", input: "x", stream: true, max_output_tokens: 50 };
  const client = await openCall(at.gateway, key, { path: "/v1/responses", body });
  await until("the stream is over", () => client.isOver);
  expect(client.text).toContain("event: error");
  expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
});

test.each([
  ["in any script", "Здравствуйте, мир! "],
  ["with tokens of maximal length", "-".repeat(128)],
])("a long answer within its bound is not cut, %s", async (_, token) => {
  const texts = Array.from({ length: 1000 }, () => chatEvent({ content: token }));
  at.provider.answer = async (peer, request) => {
    await raw(streamHead, ...texts.map(piece))(peer, request);
    await raw(piece(chatEvent({}, "stop")), piece("data: [DONE]\n\n"), "0\r\n\r\n")(peer, request);
  };
  const reply = await chat(at.gateway, await at.gateway.key(), { stream: true });
  expect(chunksOf(reply)).toHaveLength(1001);
});

test("reasoning beyond a bound that counts text only is not cut, and is charged", async () => {
  const thought = "thought ".repeat(128);
  const said = Array.from({ length: 100 }, () => chatEvent({ reasoning_content: thought }));
  const reported = usageOnly({ prompt_tokens: 20, completion_tokens: 900 });
  at.provider.answer = stream(...said, chatEvent({ content: "42" }, "length"), reported, doneEvent);
  const key = await at.gateway.key();
  const reply = await chat(at.gateway, key, { stream: true, max_tokens: 1 });
  expect(chunksOf(reply).at(-1)).toMatchObject({ choices: [{ finish_reason: "length" }] });
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "done", estimated: false, completionTokens: 900 },
  ]);
});

const base64 = Buffer.alloc(300_000, "sound").toString("base64");

test.each([
  ["sound", { audio: { id: "audio_1", data: base64, transcript: "Hello" } }, 3],
  ["a picture", { images: [{ type: "image_url", image_url: { url: base64 } }] }, 1002],
])("an answer with %s counts by its text, not by its bytes", async (_, delta, tokens) => {
  const end = [chatEvent({ content: "Hello" }, "stop"), "data: [DONE]\n\n"];
  at.provider.answer = stream(chatEvent(delta), ...end);
  const key = await at.gateway.key();
  const reply = await chat(at.gateway, key, { stream: true, max_tokens: 2000 });
  expect(chunksOf(reply).at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }] });
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "done", estimated: true, completionTokens: tokens },
  ]);
});

test("an audio answer of the responses interface counts by its transcript", async () => {
  at.provider.answer = stream(
    responseEvent("response.audio.delta", { delta: base64 }),
    responseEvent("response.audio.transcript.delta", { delta: "Hello" }),
    terminal("completed", "resp_1", { usage: null, output: [] }),
  );
  const key = await at.gateway.key();
  await respond(at.gateway, key, { stream: true, max_output_tokens: 50 });
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "done", estimated: true, completionTokens: 2 },
  ]);
});
