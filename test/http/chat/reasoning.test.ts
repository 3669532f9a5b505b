import { describe, expect, test } from "bun:test";
import { answered, choice, doneEvent, stopEvent } from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, openChat } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { piece, stream, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

/** The parts of a content from Mistral's reasoning models: https://docs.mistral.ai/capabilities/reasoning/ */
const text = (said: string) => ({ type: "text", text: said });
const thinking = (...thoughts: unknown[]) => ({ type: "thinking", thinking: thoughts });

const at = openOneModelBefore();
const strict = openOneModelBefore({ api: { unknown_fields: "reject" } });

/** The message of a JSON answer when the provider sends this. */
async function heard(message: object, gateway = at): Promise<unknown> {
  gateway.provider.answer = answered({ choices: [choice(message)] });
  const { body } = await chat(gateway.gateway, await gateway.gateway.key());
  return (body as { choices: { message: unknown }[] }).choices[0]?.message;
}

/** The deltas of a stream, when the provider sends these. */
async function relayed(...deltas: readonly object[]): Promise<unknown[]> {
  at.provider.answer = stream(...deltas.map((delta) => chatEvent(delta)), stopEvent, doneEvent);
  const reply = await chat(at.gateway, await at.gateway.key(), { stream: true });
  return chunksOf(reply).map(({ choices }) => (choices as { delta: object }[])[0]?.delta);
}

describe("reasoning parts in the content", () => {
  test.each<[string, object, object]>([
    [
      "beside the text",
      { content: [thinking(text("Let me"), text(" think")), text("Answer")] },
      { content: "Answer", reasoning_content: "Let me think" },
    ],
    [
      "between texts",
      { content: [text("A"), thinking(text("1")), text("B"), thinking(text("2"))] },
      { content: "AB", reasoning_content: "12" },
    ],
    ["alone", { content: [thinking(text("hm"))] }, { content: "", reasoning_content: "hm" }],
    [
      "as one text",
      { content: [{ type: "thinking", thinking: "hm" }] },
      { content: "", reasoning_content: "hm" },
    ],
    [
      "with a part that is not text",
      { content: [thinking({ type: "reference", reference_ids: [1] }, null, 7, text("hm"))] },
      { content: "", reasoning_content: "hm" },
    ],
    [
      "beside a reasoning of null",
      { content: [thinking(text("hm"))], reasoning_content: null },
      { content: "", reasoning_content: "hm" },
    ],
  ])("become the reasoning of an answer: %s", async (_, message, shown) => {
    expect(await heard(message)).toEqual({ role: "assistant", ...shown });
  });

  test("do not replace reasoning that is already there", async () => {
    const message = { content: [thinking(text("other"))], reasoning_content: "own" };
    expect(await heard(message)).toEqual({
      role: "assistant",
      content: "",
      reasoning_content: "own",
    });
  });

  test.each([[[thinking()]], [[{ type: "thinking" }]], [[{ type: "thinking", thinking: {} }]]])(
    "make no reasoning when they are empty: %j",
    async (content) => {
      expect(await heard({ content })).toEqual({ role: "assistant", content: "" });
    },
  );

  test("are dropped with unknown_fields = reject", async () => {
    const message = await heard({ content: [thinking(text("hm")), text("Answer")] }, strict);
    expect(message).toEqual({ role: "assistant", content: "Answer" });
  });

  test("become the reasoning of a stream, part by part", async () => {
    expect(
      await relayed(
        { role: "assistant", content: "" },
        { content: [thinking(text("Let me"))] },
        { content: [thinking(text(" think"))] },
        { content: [thinking(text(".")), text("An")] },
        { content: "swer" },
      ),
    ).toEqual([
      { role: "assistant", content: "" },
      { reasoning_content: "Let me" },
      { reasoning_content: " think" },
      { reasoning_content: ".", content: "An" },
      { content: "swer" },
      {},
    ]);
  });

  test("are content: the client receives them before any text", async () => {
    const wasHeard = Promise.withResolvers<void>();
    at.provider.answer = async (peer) => {
      await peer.send(streamHead);
      await peer.send(piece(chatEvent({ content: [thinking(text("hm"))] })));
      await wasHeard.promise;
      await peer.send(piece(stopEvent + doneEvent));
      await peer.send(streamEnd);
    };
    const reply = await openChat(at.gateway, await at.gateway.key(), { stream: true });
    await reply.seen('"reasoning_content":"hm"');
    wasHeard.resolve();
    await reply.seen("[DONE]");
  });

  test.each([
    ["JSON", false],
    ["a stream", true],
  ])("count in the estimate of %s", async (_, isStream) => {
    const content = [thinking(text("12345678")), text("1234")];
    at.provider.answer = isStream
      ? stream(chatEvent({ content }), stopEvent, doneEvent)
      : answered({ choices: [choice({ content })], usage: undefined });
    const key = await at.gateway.key();
    await chat(at.gateway, key, { stream: isStream });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, completionTokens: 3 },
    ]);
  });
});
