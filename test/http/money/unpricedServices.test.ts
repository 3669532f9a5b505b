import { describe, expect, test } from "bun:test";
import { ask, call, type Reply } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { scrape } from "../../support/gateway/scrape.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import {
  begunMessage,
  endEvent,
  message,
  messageEvent,
  messageUsage,
  stopEvent as messageStop,
  textEvent,
} from "../../support/provider/anthropicAnswers.ts";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import { created, delta, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

const HOUR_MS = 3_600_000;
const at = openBefore(["openai", "claude"], ({ openai, claude }) => {
  const chats = { provider: "openai", model: "gpt", responses: false };
  return {
    providers: { openai, claude: { base_url: claude, kind: "anthropic" } },
    models: [
      { id: "chat", routes: [chats] },
      { id: "same-route", routes: [chats] },
      { id: "other-route", routes: [{ ...chats, model: "gpt-other" }] },
      { id: "responses", routes: [{ provider: "openai", model: "gpt-r", api: "responses" }] },
      { id: "claude", routes: [{ provider: "claude", model: "sonnet", responses: false }] },
    ],
    sections: { metrics: { listen: "127.0.0.1:0" } },
  };
});

/** What the log was told by a step, without the request's own lines. */
async function toldBy(step: () => Promise<Reply>): Promise<readonly object[]> {
  const before = at.gateway.log.length;
  const { status, id } = await step();
  expect(status).toBe(200);
  const lines = at.gateway.log.slice(before).filter(({ level }) => level !== "info");
  for (const line of lines)
    expect(line).toMatchObject({ event: "service_expensive", level: "warn", request_id: id });
  return lines.map(({ provider, model, problem }) => ({ provider, model, problem }));
}

const countedOf = async (labels: Record<string, string>): Promise<number> =>
  (await scrape(at.gateway.metricsUrl)).value("tollgate_unpriced_answers_total", labels);

type Send = (key: TestKey, model: string, stream: boolean) => Promise<Reply>;
const sends = {
  chat: (key, model, isStream) => call(at.gateway, key, { body: ask({ model, stream: isStream }) }),
  responses: (key, model, isStream) =>
    respond(at.gateway, key, { model, stream: isStream, store: false }),
  messages: (key, model, isStream) => sendMessage(at.gateway, key, { model, stream: isStream }),
} satisfies Record<string, Send>;

const PRIORITY = { service_tier: "priority" };
const usage = { ...messageUsage, speed: "fast", inference_geo: "us" };
const start = messageEvent("message_start", { message: message({ content: [], usage }) });
const opening = messageEvent("content_block_start", {
  index: 0,
  content_block: { type: "text", text: "" },
});
const chunk = `data: ${JSON.stringify({ choices: [], ...PRIORITY })}\n\n`;

/** Answers of each kind of route in both forms, and what they name. */
const routes: readonly (readonly [
  model: string,
  route: { provider: string; model: string },
  services: readonly string[],
  answer: { json: ProviderAnswer; stream: ProviderAnswer },
])[] = [
  [
    "chat",
    { provider: "openai", model: "gpt" },
    ["service_tier priority"],
    {
      json: answered(PRIORITY),
      stream: stream(helloEvent, stopEvent, chunk, usageEvent, doneEvent),
    },
  ],
  [
    "responses",
    { provider: "openai", model: "gpt-r" },
    ["service_tier priority"],
    {
      json: json(ended("resp_1", PRIORITY)),
      stream: stream(created(), delta, terminal("completed", "resp_1", PRIORITY)),
    },
  ],
  [
    "claude",
    { provider: "claude", model: "sonnet" },
    ["speed fast", "inference_geo us"],
    {
      json: json(message({ usage })),
      stream: stream(start, opening, textEvent("Hello"), endEvent(), messageStop),
    },
  ],
];
const rows = Object.entries(sends).flatMap(([endpoint, send]) =>
  routes.flatMap(([model, route, services, answers]) =>
    (["json", "stream"] as const).map(
      (form) => [endpoint, model, form, { send, route, services, answer: answers[form] }] as const,
    ),
  ),
);

describe("a service that costs more than the price is for", () => {
  test.each(rows)(
    "%s over a route of %s, %s: is told once an hour, and counted",
    async (_, model, form, { send, route, services, answer }) => {
      // What earlier rows were told of.
      await at.gateway.advance(HOUR_MS);
      for (const provider of Object.values(at.providers)) provider.answer = answer;
      const key = await at.gateway.key();
      const asked = () => send(key, model, form === "stream");
      const labels = services.map((service) => ({ ...route, service }));
      const before = await Promise.all(labels.map(countedOf));
      const told = services.map((problem) => ({ ...route, problem }));
      expect(await toldBy(asked)).toEqual(told);
      expect(await toldBy(asked)).toEqual([]);
      await at.gateway.advance(HOUR_MS);
      expect(await toldBy(asked)).toEqual(told);
      const after = await Promise.all(labels.map(countedOf));
      expect(after.map((count, index) => count - (before[index] ?? 0))).toEqual(
        services.map(() => 3),
      );
    },
  );

  test("is told for each route, whichever model has it", async () => {
    await at.gateway.advance(HOUR_MS);
    at.providers.openai.answer = answered(PRIORITY);
    const key = await at.gateway.key();
    const problem = "service_tier priority";
    const askedFor = (model: string) => toldBy(() => sends.chat(key, model, false));
    expect(await askedFor("chat")).toEqual([{ provider: "openai", model: "gpt", problem }]);
    expect(await askedFor("same-route")).toEqual([]);
    expect(await askedFor("other-route")).toEqual([
      { provider: "openai", model: "gpt-other", problem },
    ]);
  });

  test.each([
    ["fast", "service_tier priority"],
    ["ultrafast", "service_tier ultrafast"],
  ])("is told of the service tier %s as %s", async (service_tier, problem) => {
    await at.gateway.advance(HOUR_MS);
    const key = await at.gateway.key();
    at.providers.openai.answer = answered({ service_tier });
    expect(await toldBy(() => sends.chat(key, "chat", false))).toMatchObject([{ problem }]);
  });

  test("is not told of the usual one", async () => {
    await at.gateway.advance(HOUR_MS);
    const key = await at.gateway.key();
    at.providers.openai.answer = answered({ service_tier: "default" });
    expect(await toldBy(() => sends.chat(key, "chat", false))).toEqual([]);
    const standard = { ...messageUsage, service_tier: "standard", inference_geo: "global" };
    at.providers.claude.answer = begunMessage(endEvent(standard), messageStop);
    expect(await toldBy(() => sends.messages(key, "claude", true))).toEqual([]);
  });
});
