import { describe, expect, test } from "bun:test";
import { ask, call } from "../../support/gateway/chatCalls.ts";
import { embed } from "../../support/gateway/embeddingsCalls.ts";
import { embeddingModel, prices } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { message, usualMessage } from "../../support/provider/anthropicAnswers.ts";
import { answered } from "../../support/provider/chatAnswers.ts";
import { embeds } from "../../support/provider/embeddingsAnswers.ts";
import { responds } from "../../support/provider/responsesAnswers.ts";
import { json } from "../../support/provider/scriptedProvider.ts";

const context = 1000;
const settings = { context_tokens: context, max_output_tokens: 100 };

const at = openBefore(["openai", "claude"], ({ openai, claude }) => ({
  providers: { openai, claude: { base_url: claude, kind: "anthropic" } },
  models: [
    { id: "small", routes: [{ provider: "openai" }], settings },
    {
      id: "unknown",
      routes: [{ provider: "openai" }],
      settings: { ...settings, context_tokens: undefined },
    },
    { id: "claude", routes: [{ provider: "claude", responses: false }], settings },
    embeddingModel("openai"),
  ],
}));
const { openai, claude } = at.providers;

/** More text than eight bytes for each token of the context, and a text that may just fit. */
const tooLong = "x".repeat(8 * context + 8);
const doubtful = "x".repeat(6 * context);
const prompt = (content: string) => [{ role: "user", content }];

const chat = (key: TestKey, changes: object) => call(at.gateway, key, { body: ask(changes) });
const isTooLong = {
  code: "context_length_exceeded",
  message: `this model's maximum context length is 1000 tokens, and the prompt is estimated to have 2002`,
};

/** A prompt in each call that cannot fit, and its error. */
const refused: readonly (readonly [
  name: string,
  send: (key: TestKey) => Promise<{ status: number; body: unknown }>,
  error: object,
])[] = [
  ["chat", (key) => chat(key, { messages: prompt(tooLong) }), isTooLong],
  ["a stream", (key) => chat(key, { messages: prompt(tooLong), stream: true }), isTooLong],
  ["responses", (key) => respond(at.gateway, key, { input: tooLong }), isTooLong],
  [
    "translated responses",
    (key) => respond(at.gateway, key, { model: "claude", store: false, input: tooLong }),
    isTooLong,
  ],
  [
    "messages",
    (key) => sendMessage(at.gateway, key, { model: "claude", messages: prompt(tooLong) }),
    {
      type: "invalid_request_error",
      message: "prompt is too long: 2002 tokens > 1000 maximum (the gateway's estimate)",
    },
  ],
];

test.each(refused)(
  "%s: a prompt beyond the context is a 400, and nothing is sent",
  async (...row) => {
    const [, send, error] = row;
    const key = await at.gateway.key();
    const reply = await send(key);
    expect([reply.status, reply.body]).toMatchObject([400, { error }]);
    expect([openai.requests, claude.requests]).toEqual([[], []]);
    expect(await at.gateway.records(key, 0)).toEqual([]);
  },
);

describe("a prompt that may fit is sent", () => {
  /** More than the context, as a provider with a longer one bills it. */
  const promptTokens = 5900;
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: 10,
    total_tokens: promptTokens + 10,
  };

  test.each([
    ["with an estimate above the context", "small", doubtful],
    ["of any length to a model of an unknown context", "unknown", tooLong],
  ])("%s: it is held at its bytes, and nothing is written off", async (_, model, content) => {
    openai.answer = answered({ usage });
    const key = await at.gateway.key();
    expect((await chat(key, { model, messages: prompt(content) })).status).toBe(200);
    const [record] = await at.gateway.records(key, 1);
    const charge = BigInt(promptTokens) * BigInt(prices.input) + 10n * BigInt(prices.output);
    expect(record).toMatchObject({ charge, writeOff: 0n });
    expect(record?.hold).toBeGreaterThan(BigInt(content.length) * BigInt(prices.cacheWrite));
  });

  test("with pictures, whose tokens are not known", async () => {
    openai.answer = answered({});
    const url = `data:image/png;base64,${"A".repeat(9 * context)}`;
    const picture = { type: "image_url", image_url: { url } };
    const messages = [{ role: "user", content: [picture, picture, picture, picture, picture] }];
    const key = await at.gateway.key();
    expect((await chat(key, { messages })).status).toBe(200);
    const [record] = await at.gateway.records(key, 1);
    // Each picture is estimated as 1,000 tokens.
    expect(record?.hold).toBeGreaterThanOrEqual(5000n * BigInt(prices.cacheWrite));
  });

  test("if the provider shortens it", async () => {
    openai.answer = responds();
    claude.answer = json(message({}));
    const key = await at.gateway.key();
    const cut = await respond(at.gateway, key, { input: tooLong, truncation: "auto" });
    claude.answer = usualMessage;
    const context_management = { edits: [{ type: "clear_tool_uses_20250919" }] };
    const messages = prompt(tooLong);
    const body = { model: "claude", messages, context_management };
    const edited = await sendMessage(at.gateway, key, body);
    expect([cut.status, edited.status]).toEqual([200, 200]);
  });

  test("to an embedding model, because some servers cut it", async () => {
    openai.answer = embeds();
    const key = await at.gateway.key();
    expect((await embed(at.gateway, key, { input: tooLong })).status).toBe(200);
    const [record] = await at.gateway.records(key, 1);
    expect(record?.hold).toBe(BigInt(tooLong.length + 16) * BigInt(prices.input));
  });
});
