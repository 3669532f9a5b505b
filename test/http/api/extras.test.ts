import { describe, expect, test } from "bun:test";
import { ask, call, openChat } from "../../support/gateway/chatCalls.ts";
import { embeddingsAsk } from "../../support/gateway/embeddingsCalls.ts";
import { embeddingModel } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { noPrice, uncounted, unsold } from "../../support/gateway/noPrice.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { usualMessage } from "../../support/provider/anthropicAnswers.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { usualGemini } from "../../support/provider/geminiAnswers.ts";
import { created, delta, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import { json, piece, stream, streamHead } from "../../support/provider/scriptedProvider.ts";
import { embeds } from "../../support/provider/embeddingsAnswers.ts";
import { responseEvent } from "../../support/provider/upstreamText.ts";

type Urls = Record<"openai" | "claude" | "gemini", string>;

const configOf = (allowed: readonly string[]) => (urls: Urls) => ({
  providers: {
    openai: urls.openai,
    claude: { base_url: urls.claude, kind: "anthropic" },
    gemini: { base_url: urls.gemini, kind: "gemini" },
  },
  models: [
    { id: "small", routes: [{ provider: "openai" }] },
    {
      id: "searching",
      routes: [{ provider: "openai" }],
      settings: { rub_web_search_per_1k: 900_000 },
    },
    { id: "over-responses", routes: [{ provider: "openai", api: "responses" }] },
    {
      id: "searching-over",
      routes: [{ provider: "openai", api: "responses" }],
      settings: { rub_web_search_per_1k: 900_000 },
    },
    { id: "claude", routes: [{ provider: "claude", responses: false }] },
    { id: "gemini", routes: [{ provider: "gemini", responses: false }] },
    embeddingModel("openai"),
  ],
  sections: { api: { allowed_tools: allowed }, billing: { disconnect_grace: "60ms" } },
});

const allowed = [
  "image_generation",
  "code_execution",
  "web_search",
  "modalities",
  "generationConfig.responseModalities",
  "service_tier",
  "enable_search",
  "speed",
];
const providers = ["openai", "claude", "gemini"] as const;
const strict = openBefore(providers, configOf([]));
const generous = openBefore(providers, configOf(allowed));
type At = typeof strict;

const image = { type: "image_generation" };
const imageKeys = ["text", "input", "output"].map((one) => `rub_image_tool_${one}_per_1m`);
const search = { type: "web_search_20250305", name: "web_search" };

/** A call of each interface with an extra, and what the 400 names. */
const rows: readonly (readonly [
  name: string,
  send: (at: At, key: TestKey) => Promise<{ status: number; text: string }>,
  shown: string,
  reason: string,
])[] = [
  [
    "chat",
    (at, key) => call(at.gateway, key, { body: ask({ tools: [image] }) }),
    "tools of the type image_generation are",
    uncounted("image_generation"),
  ],
  [
    "chat, native field",
    (at, key) => call(at.gateway, key, { body: ask({ modalities: ["text", "image"] }) }),
    "modalities is",
    unsold("modalities", "rub_image_output_per_1m"),
  ],
  [
    "chat, a tier with the name of a member of every object",
    (at, key) => call(at.gateway, key, { body: ask({ service_tier: "constructor" }) }),
    "service_tier is",
    noPrice,
  ],
  [
    "chat over responses",
    (at, key) => call(at.gateway, key, { body: ask({ model: "over-responses", tools: [image] }) }),
    "tools of the type image_generation are",
    unsold("image_generation", ...imageKeys),
  ],
  [
    "chat over Gemini",
    (at, key) => {
      const generationConfig = { responseModalities: ["TEXT", "IMAGE"] };
      return call(at.gateway, key, { body: ask({ model: "gemini", generationConfig }) });
    },
    "generationConfig.responseModalities is",
    unsold("generationConfig.responseModalities", "rub_image_output_per_1m"),
  ],
  [
    "native responses",
    (at, key) => respond(at.gateway, key, { tools: [image] }),
    "tools of the type image_generation are",
    unsold("image_generation", ...imageKeys),
  ],
  [
    "native responses, in an item",
    (at, key) =>
      respond(at.gateway, key, {
        input: [{ type: "additional_tools", role: "developer", tools: [image] }],
      }),
    "tools of the type image_generation are",
    unsold("image_generation", ...imageKeys),
  ],
  [
    "translated responses",
    (at, key) => respond(at.gateway, key, { model: "claude", store: false, speed: "fast" }),
    "speed fast is",
    "the model has no price in service_tiers.fast, and speed is not in [api] allowed_tools",
  ],
  [
    "messages",
    (at, key) =>
      sendMessage(at.gateway, key, {
        model: "claude",
        tools: [{ type: "code_execution_20250825", name: "code_execution" }],
      }),
    "tools: Input tag 'code_execution_20250825' is",
    unsold("code_execution", "rub_code_session_per_1k"),
  ],
  [
    "messages, field",
    (at, key) => sendMessage(at.gateway, key, { model: "claude", service_tier: "priority" }),
    "service_tier priority is",
    "the model has no price in service_tiers.priority, and service_tier is not in [api] allowed_tools",
  ],
  [
    "embeddings",
    (at, key) =>
      call(at.gateway, key, {
        path: "/v1/embeddings",
        body: embeddingsAsk({ enable_search: true }),
      }),
    "enable_search is",
    noPrice,
  ],
];

function script({ providers: { openai, claude, gemini } }: At): void {
  openai.answer = (peer, request) => {
    const [, path = ""] = request.requestLine.split(" ");
    const answers = { "/v1/responses": json(ended()), "/v1/embeddings": embeds() };
    const answer = answers[path as keyof typeof answers] ?? usual;
    return answer(peer, request);
  };
  claude.answer = usualMessage;
  gemini.answer = usualGemini;
}

const sentOf = ({ providers: { openai, claude, gemini } }: At): number =>
  openai.requests.length + claude.requests.length + gemini.requests.length;

describe("a request that may cost more than tokens", () => {
  test.each(rows)("%s: is a 400 that names it and the key, and nothing is sent", async (...row) => {
    const [, send, shown, reason] = row;
    script(strict);
    const key = await strict.gateway.key();
    const { status, text } = await send(strict, key);
    expect([status, text]).toEqual([
      400,
      expect.stringContaining(`${shown} not supported: ${reason}`),
    ]);
    expect(sentOf(strict)).toBe(0);
    expect(await strict.gateway.records(key, 0)).toEqual([]);
  });

  test.each(rows)("%s: is sent where the operator gives it away", async (_, send) => {
    script(generous);
    const { status, text } = await send(generous, await generous.gateway.key());
    expect([status, text]).toEqual([200, expect.any(String)]);
    expect(sentOf(generous)).toBe(1);
  });
});

test("a web search of Messages is sent without a price where the operator gives it away", async () => {
  script(generous);
  const key = await generous.gateway.key();
  const { status } = await sendMessage(generous.gateway, key, { model: "claude", tools: [search] });
  expect(status).toBe(200);
});

describe("web searches over the responses interface", () => {
  const call = (type: string, id: number) => ({
    id: `ws_${id}`,
    type: "web_search_call",
    status: "completed",
    action: { type },
  });
  /** Two searches. Opening a page and looking in it are none, and are not billed. */
  const output = ["search", "open_page", "search", "find_in_page"].map(call);
  const usage = 12n * 25_000n + 5n * 2500n + 3n * 30_000n + 7n * 200_000n;
  const perSearch = 900_000n * 1000n;
  const tools = [{ type: "web_search" }];

  const forms: readonly (readonly [
    name: string,
    send: (key: TestKey, model: string) => Promise<{ status: number }>,
  ])[] = [
    ["JSON", (key, model) => respond(strict.gateway, key, { model, tools })],
    ["a stream", (key, model) => respond(strict.gateway, key, { model, tools, stream: true })],
  ];

  test.each(forms)(
    "in %s are charged if the model has a price, and counted otherwise",
    async (_, send) => {
      strict.providers.openai.answer = (peer, request) => {
        const isStream = request.json["stream"] === true;
        const end = terminal("completed", "resp_1", { output });
        return (isStream ? stream(created(), end) : json(ended("resp_1", { output })))(
          peer,
          request,
        );
      };
      const key = await strict.gateway.key();
      expect((await send(key, "small")).status).toBe(200);
      expect((await send(key, "searching")).status).toBe(200);
      const [priced, unpriced] = await strict.gateway.records(key, 2);
      expect(unpriced).toMatchObject({ charge: usage, webSearches: 2 });
      expect(priced).toMatchObject({ charge: usage + 2n * perSearch, webSearches: 2 });
      expect((priced?.hold ?? 0n) - (unpriced?.hold ?? 0n)).toBe(20n * perSearch);
    },
  );

  /** Of the request lines and the warnings: what they say of searches. */
  const logged = ({ gateway }: At, since: number) =>
    gateway.log
      .slice(since)
      .flatMap(({ msg, model, unpriced_searches: searches, event, problem }) =>
        event === undefined ? [[msg, model, searches]] : [[event, model, problem]],
      );

  test("without a price are counted in the log line, and told once an hour for each route", async () => {
    await strict.gateway.advance(3_600_000);
    strict.providers.openai.answer = json(ended("resp_1", { output }));
    const key = await strict.gateway.key();
    const since = strict.gateway.log.length;
    for (const model of ["small", "small", "searching"])
      await respond(strict.gateway, key, { model, tools });
    expect(logged(strict, since)).toEqual([
      ["service_expensive", "small", "web_search"],
      ["request", "small", 2],
      ["request", "small", 2],
      ["request", "searching", undefined],
    ]);
  });

  test("that the operator gives away are only counted", async () => {
    generous.providers.openai.answer = json(ended("resp_1", { output }));
    const since = generous.gateway.log.length;
    await respond(generous.gateway, await generous.gateway.key(), { tools });
    expect(logged(generous, since)).toEqual([["request", "small", 2]]);
  });

  test.each([
    ["a response", "small", openResponse],
    ["a response with a price", "searching", openResponse],
    ["a chat", "over-responses", openChat],
    ["a chat with a price", "searching-over", openChat],
  ] as const)("of %s are counted although the client leaves", async (_, model, open) => {
    const done = output.map((item) => responseEvent("response.output_item.done", { item }));
    strict.providers.openai.answer = (peer) =>
      peer.send([streamHead, ...[created(), ...done, delta].map((one) => piece(one))].join(""));
    const key = await strict.gateway.key();
    const client = await open(strict.gateway, key, { model, tools, stream: true });
    await client.seen("Hello");
    client.disconnect();
    const [record] = await strict.gateway.records(key, 1);
    expect(record).toMatchObject({ status: "cancelled", estimated: true, webSearches: 2 });
    const { promptTokens = 0, completionTokens = 0, charge } = record ?? {};
    const tokenCost = BigInt(promptTokens) * 25_000n + BigInt(completionTokens) * 200_000n;
    expect(charge).toBe(tokenCost + (model.startsWith("searching") ? 2n * perSearch : 0n));
  });

  test("beyond the most that were asked for are not charged after a disconnect", async () => {
    const item = responseEvent("response.output_item.done", { item: call("search", 1) });
    strict.providers.openai.answer = (peer) =>
      peer.send([streamHead, ...[created(), item, item, delta].map((one) => piece(one))].join(""));
    const key = await strict.gateway.key();
    const more = { model: "searching", tools, max_tool_calls: 1 };
    const client = await openResponse(strict.gateway, key, more);
    await client.seen("Hello");
    client.disconnect();
    expect(await strict.gateway.records(key, 1)).toMatchObject([{ webSearches: 1, writeOff: 0n }]);
  });

  test("of a chat are charged too", async () => {
    strict.providers.openai.answer = json(ended("resp_1", { output: [...output, message] }));
    const key = await strict.gateway.key();
    const body = ask({ model: "over-responses", tools });
    const { status, body: answer } = await chatCall(strict, key, body);
    expect([status, answer]).toMatchObject([200, { usage: { web_searches: 2 } }]);
    expect(await strict.gateway.records(key, 1)).toMatchObject([{ webSearches: 2 }]);
  });
});

const message = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  content: [{ type: "output_text", text: "Hello there", annotations: [] }],
};
const chatCall = (at: At, key: TestKey, body: object) => call(at.gateway, key, { body });
