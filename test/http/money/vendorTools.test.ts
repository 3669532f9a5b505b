import { expect, test } from "bun:test";
import { ask, call, type Reply } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import {
  endEvent,
  message,
  messageEvent,
  stopEvent as messageStop,
  textEvent,
} from "../../support/provider/anthropicAnswers.ts";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageOnly,
} from "../../support/provider/chatAnswers.ts";
import { geminiEvent, saying } from "../../support/provider/geminiAnswers.ts";
import { created, delta, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { dollarSections, RATE, roubles, scaled, SOLD } from "./vendorMoney.ts";

/** What a vendor bills apart from plain tokens. */
interface ToolRow {
  readonly model: string;
  readonly route: "chat" | "responses" | "claude" | "gemini";
  /** Dollars by the names of the config, of 1,000,000 tokens and of 1,000 of the rest. */
  readonly perMillion: Readonly<Record<string, string>>;
  readonly perThousand?: Readonly<Record<string, string>>;
  readonly asked: object;
  /** What the answer has, and what is billed at each price. */
  readonly answer: object;
  readonly billed: Readonly<Record<string, number>>;
  readonly source: string;
  readonly seen: string;
}

const TODAY = "2026-11-30";
const genaiPrices = "https://github.com/pydantic/genai-prices/blob/main/prices/providers";
const xai = "https://docs.x.ai/developers/pricing.md";
const gpt = { input: "2.00", output: "10.00" };
const grok = { input: "2.00", cached_input: "0.50", output: "6.00" };
/** 1,000 tokens of the prompt and 500 of the answer. */
const responsesUsage = { input_tokens: 1000, output_tokens: 500, total_tokens: 1500 };
const tokens = { input: 1000, output: 500 };
const searched = {
  type: "web_search_call",
  id: "ws_1",
  status: "completed",
  action: { type: "search" },
};

const rows: readonly ToolRow[] = [
  {
    model: "gpt-audio",
    route: "chat",
    perMillion: { input: "2.5", output: "10", audio_input: "32", audio_output: "64" },
    asked: { modalities: ["text", "audio"], audio: { voice: "alloy", format: "wav" } },
    answer: {
      usage: {
        prompt_tokens: 1000,
        prompt_tokens_details: { audio_tokens: 400 },
        completion_tokens: 700,
        completion_tokens_details: { audio_tokens: 500 },
        total_tokens: 1700,
      },
    },
    billed: { input: 600, audio_input: 400, output: 200, audio_output: 500 },
    source: `${genaiPrices}/openai.yml`,
    seen: "2026-06-26",
  },
  {
    model: "gpt-6.2-sol",
    route: "responses",
    perMillion: gpt,
    perThousand: { web_search: "10", file_search: "2.5" },
    asked: { tools: [{ type: "web_search" }, { type: "file_search", vector_store_ids: [] }] },
    answer: {
      output: [searched, { type: "file_search_call", id: "fs_1", status: "completed" }],
      tool_usage: { web_search: { num_requests: 3 } },
      usage: responsesUsage,
    },
    billed: { ...tokens, web_search: 3, file_search: 1 },
    source: "https://www.modelcostwatch.com/openai/tool-costs/web-search",
    seen: "2026-03-12",
  },
  {
    model: "gpt-6.2-sol-and-gpt-image-2",
    route: "responses",
    perMillion: {
      ...gpt,
      image_tool_text: "5",
      image_tool_input: "8",
      image_tool_output: "30",
    },
    asked: { tools: [{ type: "image_generation" }] },
    answer: {
      output: [{ type: "image_generation_call", id: "ig_1", status: "completed", result: "aGk=" }],
      tool_usage: {
        image_gen: {
          input_tokens: 7918,
          input_tokens_details: { image_tokens: 7620, text_tokens: 298 },
          output_tokens: 1584,
          output_tokens_details: { image_tokens: 1584, text_tokens: 0 },
          total_tokens: 9502,
        },
      },
      usage: responsesUsage,
    },
    billed: { ...tokens, image_tool_text: 298, image_tool_input: 7620, image_tool_output: 1584 },
    source: `${genaiPrices}/openai.yml`,
    seen: "2026-07-22",
  },
  {
    model: "grok-4.7",
    route: "responses",
    perMillion: grok,
    perThousand: {
      web_search: "5",
      file_search: "2.5",
      attachment_search: "10",
      code_session: "5",
    },
    asked: {
      tools: [{ type: "web_search" }, { type: "collections_search" }, { type: "code_interpreter" }],
    },
    answer: {
      usage: {
        ...responsesUsage,
        server_side_tool_usage_details: {
          web_search_calls: 4,
          file_search_calls: 1,
          document_search_calls: 2,
          code_interpreter_calls: 3,
        },
      },
    },
    billed: { ...tokens, web_search: 4, file_search: 1, attachment_search: 2, code_session: 3 },
    source: xai,
    seen: TODAY,
  },
  {
    model: "claude-opus-5",
    route: "claude",
    perMillion: { input: "5", output: "25" },
    perThousand: { web_search: "10" },
    asked: { tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 5 }] },
    answer: {
      usage: {
        input_tokens: 1000,
        output_tokens: 500,
        server_tool_use: { web_search_requests: 3 },
      },
    },
    billed: { ...tokens, web_search: 3 },
    source: `${genaiPrices}/anthropic.yml`,
    seen: "2026-07-29",
  },
  {
    model: "gemini-2.5-flash",
    route: "gemini",
    perMillion: {
      input: "0.3",
      cached_input: "0.03",
      output: "2.5",
      audio_input: "1",
      cached_audio_input: "0.1",
    },
    asked: {},
    answer: {
      usageMetadata: {
        promptTokenCount: 1000,
        cachedContentTokenCount: 300,
        candidatesTokenCount: 450,
        thoughtsTokenCount: 50,
        totalTokenCount: 1500,
        promptTokensDetails: [
          { modality: "TEXT", tokenCount: 600 },
          { modality: "AUDIO", tokenCount: 400 },
        ],
        cacheTokensDetails: [
          { modality: "TEXT", tokenCount: 200 },
          { modality: "AUDIO", tokenCount: 100 },
        ],
      },
    },
    billed: {
      input: 400,
      cached_input: 200,
      audio_input: 300,
      cached_audio_input: 100,
      output: 500,
    },
    source: `${genaiPrices}/google.yml`,
    seen: "2025-10-31",
  },
  {
    model: "gemini-3.1-flash-image-preview",
    route: "gemini",
    perMillion: { input: "0.5", output: "3", image_output: "60" },
    asked: { modalities: ["text", "image"] },
    answer: {
      usageMetadata: {
        promptTokenCount: 1000,
        candidatesTokenCount: 1620,
        totalTokenCount: 2620,
        candidatesTokensDetails: [
          { modality: "TEXT", tokenCount: 500 },
          { modality: "IMAGE", tokenCount: 1120 },
        ],
      },
    },
    billed: { ...tokens, image_output: 1120 },
    source: `${genaiPrices}/google.yml`,
    seen: "2026-07-22",
  },
];

const routes = {
  chat: { provider: "openai", responses: false },
  responses: { provider: "openai" },
  claude: { provider: "claude", responses: false },
  gemini: { provider: "gemini", responses: false },
};
const at = openBefore(["openai", "claude", "gemini"], ({ openai, claude, gemini }) => ({
  providers: {
    openai,
    claude: { base_url: claude, kind: "anthropic" },
    gemini: { base_url: gemini, kind: "gemini" },
  },
  models: rows.map(({ model, route, perMillion, perThousand = {} }) => ({
    id: model,
    routes: [routes[route]],
    settings: {
      rub_input_per_1m: undefined,
      rub_output_per_1m: undefined,
      rub_cached_input_per_1m: undefined,
      rub_cache_write_per_1m: undefined,
      ...keysOf(perMillion, "1m"),
      ...keysOf(perThousand, "1k"),
    },
  })),
  sections: dollarSections,
}));

function keysOf(dollars: Readonly<Record<string, string>>, unit: string): Record<string, number> {
  const keys = Object.entries(dollars);
  return Object.fromEntries(keys.map(([name, text]) => [`usd_${name}_per_${unit}`, Number(text)]));
}

function answering({ route, answer }: ToolRow): ProviderAnswer {
  const [whole, events] = answersOf[route](answer);
  return (peer, request) => {
    const isStream =
      request.json["stream"] === true || request.requestLine.includes(":streamGenerateContent");
    return (isStream ? stream(...events) : whole)(peer, request);
  };
}

const answersOf: Readonly<
  Record<
    ToolRow["route"],
    (answer: object) => readonly [whole: ProviderAnswer, events: readonly string[]]
  >
> = {
  chat: (answer) => [
    answered(answer),
    [helloEvent, stopEvent, usageOnly((answer as { usage: object }).usage), doneEvent],
  ],
  responses: (answer) => [
    json(ended("resp_1", answer)),
    [created(), delta, terminal("completed", "resp_1", answer)],
  ],
  claude: (answer) => {
    const { usage } = answer as { usage: object };
    return [
      json(message(answer)),
      [
        messageEvent("message_start", { message: message({ content: [], usage }) }),
        textEvent("Hello"),
        endEvent(usage),
        messageStop,
      ],
    ];
  },
  gemini: (answer) => {
    const whole = saying([{ text: "Hello" }], "STOP", answer);
    return [json(whole), [geminiEvent(whole)]];
  },
};

/** Over the interface that has the tool. */
function send(key: TestKey, { model, route, asked }: ToolRow, isStream: boolean): Promise<Reply> {
  const fields = { model, stream: isStream, ...asked };
  if (route === "responses") return respond(at.gateway, key, { ...fields, store: false });
  if (route === "claude") return sendMessage(at.gateway, key, fields);
  return call(at.gateway, key, { body: ask(fields) });
}

test.each(rows.map((row) => [row.model, row] as const))(
  "%s: what is billed apart is charged exactly",
  async (model, row) => {
    const { perMillion, perThousand = {}, billed } = row;
    at.providers[routes[row.route].provider as "openai"].answer = answering(row);
    let charge = 0n;
    for (const [name, count] of Object.entries(billed)) {
      const [token, other] = [perMillion[name], perThousand[name]];
      const amount =
        token === undefined ? roubles(other ?? "", SOLD) * 1000n : roubles(token, SOLD);
      charge += BigInt(count) * amount;
    }
    const key = await at.gateway.key({ balance: 1_000_000n * 1_000_000_000n });
    for (const isStream of [false, true]) {
      const { status, id, headers } = await send(key, row, isStream);
      expect([model, isStream, status]).toEqual([model, isStream, 200]);
      const record = await at.gateway.store.requests.find(id);
      expect(record).toMatchObject({ status: "done", charge, writeOff: 0n });
      const header = headers.get("x-tollgate-cost-rub");
      if (header !== null) expect(scaled(header, 9)).toBe(charge);
      const { body } = await call(at.gateway, key, { path: `/v1/requests/${id}` });
      expect(body).toMatchObject({ pricing: { usd_rate: RATE } });
    }
  },
);
