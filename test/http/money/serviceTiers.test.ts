import { expect, test } from "bun:test";
import { ask, call, expectRefusal, type Reply } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { Table } from "../../support/gateway/gatewayConfig.ts";
import { noPrice } from "../../support/gateway/noPrice.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { message, messageUsage } from "../../support/provider/anthropicAnswers.ts";
import { answered, doneEvent, helloEvent, usageEvent } from "../../support/provider/chatAnswers.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

const twice: Table = { rub_input_per_1m: 50_000, rub_output_per_1m: 400_000 };
const half: Table = { rub_input_per_1m: 12_500, rub_output_per_1m: 100_000 };

const at = openBefore(["openai", "claude"], ({ openai, claude }) => {
  const chats = { provider: "openai", responses: false };
  const messages = { provider: "claude", responses: false };
  return {
    providers: {
      openai,
      claude: { base_url: claude, kind: "anthropic" },
      // It gets no service tier.
      dropping: { base_url: openai, drop_fields: ["service_tier", "speed"] },
    },
    models: [
      { id: "gpt", routes: [chats], settings: { service_tiers: { priority: twice, flex: half } } },
      { id: "fast-gpt", routes: [chats], settings: { service_tiers: { fast: twice } } },
      {
        id: "fast-claude",
        routes: [messages],
        settings: { service_tiers: { fast: twice, priority: twice } },
      },
      {
        id: "dropped",
        routes: [{ ...chats, provider: "dropping" }],
        settings: { service_tiers: { priority: twice, fast: twice } },
      },
    ],
  };
});

type Send = (key: TestKey) => Promise<Reply>;
const chat =
  (fields: object): Send =>
  (key) =>
    call(at.gateway, key, { body: ask(fields) });
const messages =
  (fields: object): Send =>
  (key) =>
    sendMessage(at.gateway, key, fields);
const responses =
  (fields: object): Send =>
  (key) =>
    respond(at.gateway, key, { store: false, ...fields });

const unnamed = answered();
const says = (usage: object): ProviderAnswer =>
  json(message({ usage: { ...messageUsage, ...usage } }));

/** What a client asks for, what the provider answers, and the service tier that is charged. */
test.each<[string, Send, ProviderAnswer, string | undefined]>([
  [
    "a fast answer of Anthropic, which names its service tier too",
    messages({ model: "fast-claude", speed: "fast" }),
    says({ service_tier: "standard", speed: "fast" }),
    "fast",
  ],
  [
    "the same over a chat",
    chat({ model: "fast-claude", speed: "fast" }),
    says({ service_tier: "standard", speed: "fast" }),
    "fast",
  ],
  [
    "a fast answer that names its speed alone",
    messages({ model: "fast-claude", speed: "fast" }),
    says({ speed: "fast" }),
    "fast",
  ],
  [
    "an answer to a fast request that names its service tier alone",
    messages({ model: "fast-claude", speed: "fast" }),
    says({ service_tier: "standard" }),
    "fast",
  ],
  [
    "a standard answer to a fast request",
    messages({ model: "fast-claude", speed: "fast" }),
    says({ service_tier: "standard", speed: "standard" }),
    undefined,
  ],
  [
    "a fast message over a chat, which has no speed",
    messages({ model: "fast-gpt", speed: "fast" }),
    unnamed,
    undefined,
  ],
  [
    "a chat that is sent to Anthropic without its tier",
    chat({ model: "fast-claude", service_tier: "priority" }),
    says({}),
    undefined,
  ],
  [
    "a route that drops the field",
    chat({ model: "dropped", service_tier: "priority" }),
    unnamed,
    undefined,
  ],
  [
    "a translated response",
    responses({ model: "gpt", service_tier: "priority" }),
    unnamed,
    "priority",
  ],
  [
    "an answer of Anthropic in a tier that nobody asked for",
    messages({ model: "fast-claude" }),
    says({ service_tier: "priority", speed: "standard" }),
    "priority",
  ],
  [
    "a cheaper tier that is not named",
    chat({ model: "gpt", service_tier: "flex" }),
    unnamed,
    undefined,
  ],
])("%s is charged in its tier", async (_, send, answer, service) => {
  for (const provider of Object.values(at.providers)) provider.answer = answer;
  const { status, id } = await send(await at.gateway.key());
  expect(status).toBe(200);
  const record = await at.gateway.store.requests.find(id);
  expect(record?.price.input).toBe(service === undefined ? 25_000n : 50_000n);
  expect(record?.pricing?.service_tier as string | undefined).toBe(service);
});

test.each([
  ["JSON", false],
  ["a stream", true],
])("a translated response names the tier of its answer, in %s", async (_, isStream) => {
  const tier = { service_tier: "priority" };
  at.providers.openai.answer = isStream
    ? stream(helloEvent, chatEvent({}, "stop", tier), usageEvent, doneEvent)
    : answered(tier);
  const reply = await responses({ model: "gpt", stream: isStream })(await at.gateway.key());
  expect(reply.status).toBe(200);
  const named = [...reply.text.matchAll(/"service_tier":"(\w+)"/g)].map(([, name]) => name);
  expect(named.at(-1)).toBe("priority");
});

test.each<[string, Send, string]>([
  [
    "two at once",
    chat({ model: "fast-gpt", speed: "fast", service_tier: "priority" }),
    "speed fast and service_tier priority cannot be used together",
  ],
  [
    "a tier in upper case",
    chat({ model: "gpt", service_tier: "PRIORITY" }),
    `service_tier is not supported: ${noPrice}`,
  ],
])("%s is refused", async (_, send, message) => {
  const reply = await send(await at.gateway.key());
  expectRefusal(reply, [400, "invalid_request_error", message]);
  expect(at.providers.openai.requests).toEqual([]);
});
