import { expect, test } from "bun:test";
import { chat, chunksOf, openCall } from "../support/chatCalls.ts";
import { openOneModelBefore } from "../support/gatewayUnderTest.ts";
import { piece, raw, streamHead, type ProviderAnswer } from "../support/scriptedProvider.ts";
import { until } from "../support/until.ts";
import { chatEvent, responseEvent } from "../support/upstreamText.ts";

const at = openOneModelBefore();

/** Says the same for ever. */
function endless(event: string): ProviderAnswer {
  return async (peer, request) => {
    await raw(streamHead)(peer, request);
    for (;;) await peer.send(piece(event));
  };
}

const words = "word ".repeat(500);

test("a stream that goes on far beyond its bound is cut, told and not charged", async () => {
  at.provider.answer = endless(chatEvent({ content: words }));
  const key = at.gateway.key();
  const reply = await chat(at.gateway, key, { stream: true, max_tokens: 50 });
  expect(chunksOf(reply).at(-1)).toMatchObject({
    error: { type: "provider_error", message: "upstream provider failure" },
  });
  expect(Buffer.byteLength(reply.text)).toBeLessThan(1_000_000);
  expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  const [attempt] = at.gateway.store.requests.attempts(reply.id);
  expect(attempt).toMatchObject({ outcome: "runaway" });
});

test("so is one of the responses interface", async () => {
  at.provider.answer = endless(responseEvent("response.output_text.delta", { delta: words }));
  const key = at.gateway.key();
  const body = { model: "small", input: "x", stream: true, max_output_tokens: 50 };
  const client = await openCall(at.gateway, key, { path: "/v1/responses", body });
  await until("the stream is over", () => client.isOver);
  expect(client.text).toContain("event: error");
  expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
});

test.each([
  ["whatever its letters", "Здравствуйте, мир! "],
  ["though each of its tokens is as long as tokens are", "-".repeat(128)],
])("a long answer within its bound is not cut, %s", async (_, token) => {
  const texts = Array.from({ length: 1000 }, () => chatEvent({ content: token }));
  at.provider.answer = async (peer, request) => {
    await raw(streamHead, ...texts.map(piece))(peer, request);
    await raw(piece(chatEvent({}, "stop")), piece("data: [DONE]\n\n"), "0\r\n\r\n")(peer, request);
  };
  const reply = await chat(at.gateway, at.gateway.key(), { stream: true });
  expect(chunksOf(reply)).toHaveLength(1001);
});
