import { describe, expect, test } from "bun:test";
import { messageEvent, startEvent, textEvent } from "../../support/provider/anthropicAnswers.ts";
import { helloEvent } from "../../support/provider/chatAnswers.ts";
import { openChat, type OpenReply } from "../../support/gateway/chatCalls.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { geminiEvent, saying } from "../../support/provider/geminiAnswers.ts";
import { created, delta } from "../../support/provider/responsesAnswers.ts";
import { openResponse } from "../../support/gateway/responsesCalls.ts";
import { piece, streamHead } from "../../support/provider/scriptedProvider.ts";
import { chatEvent, responseEvent } from "../../support/provider/upstreamText.ts";

/** What a client that disconnects pays for encrypted reasoning and for the provider's own tools. */
const contextTokens = 20_000;
const at = openBefore(["local", "claude", "google"], ({ local, claude, google }) => {
  const route = (provider: string, more = {}) => ({ provider, responses: false, ...more });
  const settings = { context_tokens: contextTokens };
  return {
    providers: {
      local,
      claude: { kind: "anthropic", base_url: claude, api_key: upstreamKey },
      google: { kind: "gemini", base_url: google, api_key: upstreamKey },
    },
    models: [
      { id: "small", routes: [{ provider: "local" }], settings },
      { id: "over", routes: [route("local", { model: "over", api: "responses" })], settings },
      { id: "claude", routes: [route("claude")], settings },
      { id: "google", routes: [route("google")], settings },
    ],
    sections: { billing: { disconnect_grace: "60ms" } },
  };
});

type Open = (key: TestKey, more: object) => Promise<OpenReply>;
const chatWith =
  (model: string): Open =>
  (key, more) =>
    openChat(at.gateway, key, { stream: true, model, ...more });
const responds: Open = (key, more) => openResponse(at.gateway, key, more);

/** The record of a client that disconnects after "Hello" in these events. Its provider continues. */
async function left(open: Open, events: readonly string[], more: object = {}) {
  for (const provider of Object.values(at.providers)) {
    provider.answer = (peer) =>
      peer.send(Buffer.concat([Buffer.from(streamHead), ...events.map((event) => piece(event))]));
  }
  const key = await at.gateway.key();
  const client = await open(key, more);
  await client.seen("Hello");
  client.disconnect();
  const [record] = await at.gateway.records(key, 1);
  expect(record).toMatchObject({ status: "cancelled", estimated: true });
  return record;
}

const sealed = "A".repeat(2000);
/** 2,000 characters of base64 are 1,500 bytes. "Hello there" has 11 bytes, and "Hello" 5. */
const tokens = (saidBytes: number) => Math.ceil((1500 + saidBytes) / 4);

const item = (fields: object) => responseEvent("response.output_item.done", { item: fields });
const reasoning = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: sealed };
const summaryDelta = responseEvent("response.reasoning_summary_text.delta", {
  delta: "-".repeat(500),
});
const block = (index: number, opening: object, ...deltas: object[]) => [
  messageEvent("content_block_start", { index, content_block: opening }),
  ...deltas.map((added) => messageEvent("content_block_delta", { index, delta: added })),
  messageEvent("content_block_stop", { index }),
];
const thinking = { type: "thinking", thinking: "", signature: "" };
const signature = { type: "signature_delta", signature: sealed };
const thought = { type: "thinking_delta", thinking: "-".repeat(500) };
const text = [messageEvent("content_block_start", { index: 0, content_block: { type: "text" } })];
const said = [...text, textEvent("Hello")];
const google = { google: { thought_signature: sealed } };

describe("a client that disconnects pays for a prompt in any field", () => {
  const prompt = "four ".repeat(8000);
  test.each<[string, Open, readonly string[], object]>([
    ["in documents", chatWith("small"), [helloEvent], { documents: [{ text: prompt }] }],
    [
      "in the text of a template",
      chatWith("small"),
      [helloEvent],
      { chat_template_kwargs: { date: prompt } },
    ],
    [
      "in the text of a template of the responses interface",
      responds,
      [created(), delta],
      { chat_template_kwargs: { date: prompt } },
    ],
  ])("%s", async (_, open, events, more) => {
    const record = await left(open, events, more);
    expect(record?.promptTokens).toBeWithin(10_002, 10_010);
  });
});

/** https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#reasoning_details-array-structure */
const detailed = (detail: object, more: object = {}) =>
  chatEvent({
    content: "",
    ...more,
    reasoning_details: [{ format: "anthropic-claude-v1", index: 0, ...detail }],
  });

describe("a client that disconnects pays once for reasoning that a provider sends", () => {
  /** Too long to be one token. */
  const thought = "They ask for a word.";
  test.each<[string, string]>([
    ["under one name", chatEvent({ reasoning: thought })],
    ["under both names", chatEvent({ reasoning: thought, reasoning_content: thought })],
    ["in a list", detailed({ type: "reasoning.text", text: thought })],
    [
      "as a text and in a list",
      detailed({ type: "reasoning.text", text: thought }, { reasoning: thought }),
    ],
    [
      "as a summary and in a list",
      detailed({ type: "reasoning.summary", summary: thought }, { reasoning: thought }),
    ],
  ])("%s", async (_, event) => {
    const events = [...Array<string>(79).fill(event), helloEvent];
    const completionTokens = Math.ceil((79 * thought.length + "Hello".length) / 4);
    expect(await left(chatWith("small"), events)).toMatchObject({ completionTokens });
  });
});

describe("a client that disconnects pays for the encrypted reasoning that was sent", () => {
  test.each<[string, Open, readonly string[], number]>([
    ["of the responses interface", responds, [created(), item(reasoning), delta], 11],
    [
      "of the responses interface, once when a summary came too",
      responds,
      [created(), summaryDelta, item(reasoning), delta],
      11,
    ],
    [
      "of a chat over the responses interface",
      chatWith("over"),
      [created(), item(reasoning), delta],
      11,
    ],
    [
      "of Anthropic, in a signature",
      chatWith("claude"),
      [startEvent, ...block(1, thinking, signature), ...said],
      5,
    ],
    [
      "of Anthropic, once when the reasoning came too",
      chatWith("claude"),
      [startEvent, ...block(1, thinking, thought, signature), ...said],
      5,
    ],
    [
      "of Anthropic, redacted",
      chatWith("claude"),
      [startEvent, ...block(1, { type: "redacted_thinking", data: sealed }), ...said],
      5,
    ],
    [
      "of Gemini, in a signature",
      chatWith("google"),
      [geminiEvent(saying([{ text: "Hello", thoughtSignature: sealed }]))],
      5,
    ],
    [
      "of a chat, in Google's form",
      chatWith("small"),
      [chatEvent({ content: "", extra_content: google }), helloEvent],
      5,
    ],
    [
      "of a chat, in the form of other gateways",
      chatWith("small"),
      [chatEvent({ thinking_blocks: [{ ...thinking, signature: sealed }] }), helloEvent],
      5,
    ],
    [
      "of a chat, in OpenRouter's form",
      chatWith("small"),
      [detailed({ type: "reasoning.encrypted", id: "rs_1", data: sealed }), helloEvent],
      5,
    ],
    [
      "of a chat, in OpenRouter's form, once when the reasoning came too",
      chatWith("small"),
      [
        detailed({ type: "reasoning.text", text: "-".repeat(500) }),
        detailed({ type: "reasoning.text", signature: sealed }),
        helloEvent,
      ],
      5,
    ],
  ])("%s", async (_, open, events, saidBytes) => {
    expect(await left(open, events)).toMatchObject({ completionTokens: tokens(saidBytes) });
  });

  test("but never more than the hold", async () => {
    const long = item({ ...reasoning, encrypted_content: sealed.repeat(10) });
    expect(await left(responds, [created(), long, delta])).toMatchObject({
      completionTokens: 1000,
      writeOff: 0n,
    });
  });
});

describe("a client that disconnects pays a fixed number of tokens for each finished call of the provider's own tools", () => {
  const search = { type: "web_search_call", id: "ws_1", status: "completed" };
  const begun = responseEvent("response.output_item.added", { item: search });
  const searched = item(search);
  const tools = [{ type: "web_search" }];
  const found = { type: "web_search_tool_result", tool_use_id: "s", content: [] };

  describe.each<[string, Open]>([
    ["of the responses interface", responds],
    ["of a chat over the responses interface", chatWith("over")],
  ])("%s", (_, open) => {
    test("in addition to its prompt", async () => {
      const record = await left(open, [created(), begun, searched, delta], { tools });
      expect(record?.promptTokens).toBeWithin(8002, 8100);
    });

    test("up to the hold", async () => {
      const events = [created(), searched, searched, searched, delta];
      const record = await left(open, events, { tools });
      expect(record).toMatchObject({ promptTokens: contextTokens, writeOff: 0n });
    });

    test("and nothing for a call that only began or was only offered", async () => {
      const record = await left(open, [created(), begun, delta], { tools });
      expect(record?.promptTokens).toBeWithin(2, 100);
    });
  });

  test("of Anthropic, whose first usage does not include them", async () => {
    const events = [startEvent, ...block(1, found), ...said];
    // That is 20; the bytes of the request bound the prompt, with room for a template.
    const { promptTokens } = (await left(chatWith("claude"), events)) ?? {};
    expect(promptTokens).toBeWithin(256, 512);
  });
});
