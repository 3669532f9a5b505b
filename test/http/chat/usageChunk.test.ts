import { describe, expect, test } from "bun:test";
import { lazy } from "../../../src/lib/lazy.ts";
import { describedBy } from "../../support/gateway/apiDescription.ts";
import {
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  streamed,
  usage,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

const at = openOneModelBefore({ api: { usage_chunk: "own" } });
const asking = { stream: true, stream_options: { include_usage: true } };

/** The chunks that a client gets. */
async function relayed(
  answer: ProviderAnswer,
  request: object = asking,
): Promise<readonly Record<string, unknown>[]> {
  at.provider.answer = answer;
  const reply = await chat(at.gateway, await at.gateway.key(), request);
  expect(reply.text).toEndWith("data: [DONE]\n\n");
  return chunksOf(reply);
}

describe("with usage_chunk = own the usage of a chat stream", () => {
  test("comes after its end, without choices", async () => {
    const chunks = await relayed(streamed);
    const { id, created } = chunks[0] ?? {};
    const head = { id, object: "chat.completion.chunk", created, model: "small" };
    const finish = { index: 0, delta: {}, finish_reason: "stop" };
    expect(chunks.slice(-2)).toEqual([
      { ...head, choices: [finish] },
      { ...head, choices: [], usage },
    ]);
    expect(chunks.slice(0, -1).filter((chunk) => "usage" in chunk)).toEqual([]);
  });

  test("comes once, after the ends of all choices", async () => {
    const ends = [0, 1].map((index) =>
      chatEvent({}, null, { choices: [{ index, delta: { content: "a" }, finish_reason: "stop" }] }),
    );
    const chunks = await relayed(stream(...ends, usageEvent, doneEvent), {
      ...asking,
      n: 2,
    });
    expect(chunks).toMatchObject([
      { choices: [{ index: 0 }] },
      { choices: [{ index: 1 }] },
      { choices: [], usage },
    ]);
  });

  test("leaves the other fields on the chunk that ends the answer", async () => {
    const late = chatEvent({}, null, { choices: [], late: 1 });
    const fingerprint = { system_fingerprint: "fp" };
    const end = chatEvent({}, "stop", fingerprint);
    const chunks = await relayed(stream(helloEvent, end, late, usageEvent, doneEvent));
    expect(chunks.slice(-2)).toMatchObject([{ late: 1, ...fingerprint }, fingerprint]);
  });

  test.each<[string, ProviderAnswer, object]>([
    ["when the client did not ask for it", streamed, { stream: true }],
    ["when the answer failed", stream(roleEvent, helloEvent), asking],
  ])("does not come: %s", async (_, answer, request) => {
    const chunks = await relayed(answer, request);
    expect(chunks.filter(({ choices }) => (choices as object[]).length === 0)).toEqual([]);
    expect(chunks.filter((chunk) => "usage" in chunk)).toEqual([]);
  });

  const described = lazy(() => describedBy(at.gateway));

  test("matches ChatChunk of the description", async () => {
    const { complaints } = await described();
    const chunks = await relayed(stream(helloEvent, stopEvent, usageEvent, doneEvent));
    for (const chunk of chunks) expect(complaints("ChatChunk", chunk, true)).toEqual([]);
  });
});
