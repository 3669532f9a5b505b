import { describe, expect, test } from "bun:test";
import { ask, call, openCall, openChat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { askMessage, sendMessage } from "../../support/gateway/messagesCalls.ts";
import { uncounted, unsold } from "../../support/gateway/noPrice.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import {
  endEvent,
  message,
  messageEvent,
  messageUsage,
  startEvent,
  stopEvent,
  textEvent,
} from "../../support/provider/anthropicAnswers.ts";
import { geminiEvent, saying } from "../../support/provider/geminiAnswers.ts";
import {
  created,
  delta,
  ended,
  responsesUsage,
  terminal,
} from "../../support/provider/responsesAnswers.ts";
import { json, piece, stream, streamHead } from "../../support/provider/scriptedProvider.ts";
import { responseEvent, responseObject } from "../../support/provider/upstreamText.ts";

/** Thousandths of a rouble for 1,000,000 tokens, and for 1,000 of the rest. */
const sold = {
  rub_image_tool_text_per_1m: 500_000,
  rub_image_tool_input_per_1m: 800_000,
  rub_image_tool_output_per_1m: 3_000_000,
  rub_web_search_per_1k: 900_000,
  rub_web_search_preview_per_1k: 2_300_000,
  rub_map_search_per_1k: 1_300_000,
  rub_x_post_per_1k: 500_000,
  rub_x_profile_per_1k: 1_000_000,
  rub_file_search_per_1k: 250_000,
  rub_attachment_search_per_1k: 1_000_000,
  rub_code_session_per_1k: 3_000_000,
  rub_image_per_1k: 5_000_000,
};

const providers = ["openai", "claude", "gemini"] as const;
const at = openBefore(providers, (urls) => {
  const routes = {
    native: [{ provider: "openai", responses: true }],
    "over-responses": [{ provider: "openai", api: "responses" as const }],
    claude: [{ provider: "claude", responses: false }],
    gemini: [{ provider: "gemini", responses: false }],
  };
  return {
    providers: {
      openai: urls.openai,
      claude: { base_url: urls.claude, kind: "anthropic" },
      gemini: { base_url: urls.gemini, kind: "gemini" },
    },
    models: Object.entries(routes).flatMap(([id, of]) => [
      { id, routes: of, settings: sold },
      { id: `${id}-bare`, routes: of },
    ]),
    sections: { billing: { disconnect_grace: "60ms" } },
  };
});
const key = (): Promise<TestKey> => at.gateway.key({ balance: 1_000_000n * 1_000_000_000n });
const ofOne = (perThousand: number) => BigInt(perThousand) * 1000n;

/** Of the usual usage of a response: 12 plain prompt tokens, 5 cached, 3 written, 7 of the answer. */
const usual = 12n * 25_000n + 5n * 2500n + 3n * 30_000n + 7n * 200_000n;

const item = (type: string, fields: object = {}) => ({
  id: `${type}_${JSON.stringify(fields).length}`,
  type,
  status: "completed",
  ...fields,
});
const imageGen = {
  input_tokens: 7918,
  input_tokens_details: { image_tokens: 7620, text_tokens: 298 },
  output_tokens: 1584,
  output_tokens_details: { image_tokens: 1584, text_tokens: 0 },
  total_tokens: 9502,
};
const imageCost = 298n * 500_000n + 7620n * 800_000n + 1584n * 3_000_000n;
const xai = (details: object) => ({
  usage: { ...responsesUsage, server_side_tool_usage_details: details },
});

interface Row {
  readonly what: string;
  readonly tool: object;
  /** The keys that the 400 of a model without prices names. */
  readonly keys: readonly string[];
  readonly answer: object;
  readonly counts: object;
  readonly cost: bigint;
}

/** What OpenAI and xAI report for their tools. */
const rows: readonly Row[] = [
  {
    what: "a picture by its tokens",
    tool: { type: "image_generation" },
    keys: [
      "rub_image_tool_text_per_1m",
      "rub_image_tool_input_per_1m",
      "rub_image_tool_output_per_1m",
    ],
    answer: {
      output: [item("image_generation_call", { result: "aGk=" })],
      tool_usage: { image_gen: imageGen, web_search: { num_requests: 0 } },
    },
    counts: {
      imageToolTextTokens: 298,
      imageToolInputTokens: 7620,
      imageToolOutputTokens: 1584,
      images: 0,
    },
    cost: imageCost,
  },
  {
    what: "a picture whose tokens nobody reports, at the most of its quality",
    tool: { type: "image_generation" },
    keys: [
      "rub_image_tool_text_per_1m",
      "rub_image_tool_input_per_1m",
      "rub_image_tool_output_per_1m",
    ],
    answer: { output: [item("image_generation_call", { quality: "low", size: "1024x1024" })] },
    counts: { imageToolTextTokens: 2000, imageToolInputTokens: 10_000, imageToolOutputTokens: 272 },
    cost: 2000n * 500_000n + 10_000n * 800_000n + 272n * 3_000_000n,
  },
  {
    what: "pictures of xAI one by one",
    tool: { type: "image_generation" },
    keys: [
      "rub_image_tool_text_per_1m",
      "rub_image_tool_input_per_1m",
      "rub_image_tool_output_per_1m",
    ],
    answer: {
      output: [item("image_generation_call"), item("image_generation_call", { n: 2 })],
      ...xai({ image_generation_calls: 2 }),
    },
    counts: { images: 2, imageToolOutputTokens: 0 },
    cost: 2n * ofOne(5_000_000),
  },
  {
    what: "a container once, whatever runs in it",
    tool: { type: "code_interpreter", container: { type: "auto" } },
    keys: ["rub_code_session_per_1k"],
    answer: {
      output: [
        item("code_interpreter_call", { container_id: "cntr_1" }),
        item("code_interpreter_call", { container_id: "cntr_1", code: "2" }),
        item("shell_call", {
          environment: { type: "container_reference", container_id: "cntr_2" },
        }),
      ],
    },
    counts: { codeSessions: 2 },
    cost: 2n * ofOne(3_000_000),
  },
  {
    what: "a container whose code failed",
    tool: { type: "code_interpreter", container: { type: "auto" } },
    keys: ["rub_code_session_per_1k"],
    answer: {
      output: [item("code_interpreter_call", { container_id: "cntr_1", status: "failed" })],
    },
    counts: { codeSessions: 1 },
    cost: ofOne(3_000_000),
  },
  {
    what: "calls of code at xAI",
    tool: { type: "code_interpreter" },
    keys: ["rub_code_session_per_1k"],
    answer: {
      output: [item("code_interpreter_call"), item("code_interpreter_call", { code: "2" })],
      ...xai({ code_interpreter_calls: 2 }),
    },
    counts: { codeSessions: 2 },
    cost: 2n * ofOne(3_000_000),
  },
  {
    what: "searches in files",
    tool: { type: "file_search", vector_store_ids: [] },
    keys: ["rub_file_search_per_1k"],
    answer: {
      output: [
        item("file_search_call", { queries: ["a", "b"] }),
        item("file_search_call"),
        item("file_search_call", { status: "failed" }),
      ],
    },
    counts: { fileSearches: 2 },
    cost: 2n * ofOne(250_000),
  },
  {
    what: "posts and profiles of X",
    tool: { type: "x_search" },
    keys: ["rub_x_post_per_1k", "rub_x_profile_per_1k"],
    answer: {
      output: [item("custom_tool_call", { name: "x_keyword_search", call_id: "c", input: "{}" })],
      ...xai({ x_search_calls: 3, x_posts_fetched: 31, x_users_fetched: 2 }),
    },
    counts: { xPosts: 31, xProfiles: 2 },
    cost: 31n * ofOne(500_000) + 2n * ofOne(1_000_000),
  },
  {
    what: "searches of xAI in collections and attachments",
    tool: { type: "collections_search" },
    keys: ["rub_file_search_per_1k"],
    answer: xai({ file_search_calls: 1, document_search_calls: 2 }),
    counts: { fileSearches: 1, attachmentSearches: 2 },
    cost: ofOne(250_000) + 2n * ofOne(1_000_000),
  },
];

/** The ways to a provider's responses interface, in JSON and as a stream. */
const ways: readonly (readonly [
  name: string,
  model: string,
  send: (key: TestKey, model: string, fields: object) => Promise<{ status: number; text: string }>,
])[] = [
  ["responses", "native", (of, model, fields) => respond(at.gateway, of, { model, ...fields })],
  [
    "responses, streamed",
    "native",
    (of, model, fields) => respond(at.gateway, of, { model, stream: true, ...fields }),
  ],
  [
    "a chat",
    "over-responses",
    (of, model, fields) => call(at.gateway, of, { body: ask({ model, ...fields }) }),
  ],
  [
    "a chat, streamed",
    "over-responses",
    (of, model, fields) => call(at.gateway, of, { body: ask({ model, stream: true, ...fields }) }),
  ],
];

function answers(changes: object): void {
  at.providers.openai.answer = (peer, request) => {
    const isStream = request.json["stream"] === true;
    const answer = isStream
      ? stream(created(), delta, terminal("completed", "resp_1", changes))
      : json(ended("resp_1", changes));
    return answer(peer, request);
  };
}
const sentOf = () => providers.reduce((sum, name) => sum + at.providers[name].requests.length, 0);

describe.each(ways)("over %s", (_, model, send) => {
  test.each(rows)(
    "the provider's tools are charged: $what",
    async ({ tool, answer, counts, cost }) => {
      answers(answer);
      const of = await key();
      const { status, text } = await send(of, model, { tools: [tool] });
      expect([status, text]).toEqual([200, expect.any(String)]);
      const [record] = await at.gateway.records(of, 1);
      expect(record).toMatchObject({
        status: "done",
        charge: usual + cost,
        writeOff: 0n,
        ...counts,
      });
    },
  );

  test.each(rows)("without a price nothing is sent: $what", async ({ tool, keys }) => {
    const of = await key();
    const { type } = tool as { type: string };
    const name = type === "collections_search" ? "file_search" : type;
    const { status, text } = await send(of, `${model}-bare`, { tools: [tool] });
    expect([status, text]).toEqual([
      400,
      expect.stringContaining(
        `tools of the type ${type} are not supported: ${unsold(name, ...keys)}`,
      ),
    ]);
    expect(sentOf()).toBe(0);
    expect(await at.gateway.records(of, 0)).toEqual([]);
  });

  test.each<[string, object, number | undefined]>([
    ["a search", { tools: [{ type: "web_search" }] }, 20],
    [
      "a picture and a search",
      { tools: [{ type: "image_generation" }, { type: "web_search" }] },
      4,
    ],
    ["a client's maximum", { tools: [{ type: "image_generation" }], max_tool_calls: 2 }, 2],
    ["a maximum above all", { tools: [{ type: "file_search" }], max_tool_calls: 1e6 }, 1000],
    ["no tool", {}, undefined],
  ])("the provider gets a maximum of calls that the hold pays for: %s", async (_, fields, most) => {
    answers({});
    const { status } = await send(await key(), model, fields);
    expect(status).toBe(200);
    const [request] = at.providers.openai.requests;
    expect(request?.json["max_tool_calls"]).toBe(most);
  });
});

test("a tool in an item of the input counts for the maximum of calls", async () => {
  answers({});
  const input = [{ type: "additional_tools", role: "developer", tools: [{ type: "x_search" }] }];
  await respond(at.gateway, await key(), { model: "native", input });
  expect(at.providers.openai.requests[0]?.json["max_tool_calls"]).toBe(5);
});

test("the hold pays for the most that the calls may use", async () => {
  answers({});
  const of = await key();
  for (const tools of [[], [{ type: "image_generation" }, { type: "x_search" }]])
    await respond(at.gateway, of, {
      model: "native",
      max_output_tokens: 50,
      tools,
      max_tool_calls: 3,
    });
  const [asking, plain] = await at.gateway.records(of, 2);
  const ofCall = 2000n * 500_000n + 10_000n * 800_000n + 6540n * 3_000_000n + ofOne(5_000_000);
  const ofSearch = 30n * ofOne(500_000) + 10n * ofOne(1_000_000);
  const added = (asking?.hold ?? 0n) - (plain?.hold ?? 0n);
  // The prompt is longer, and may be as long as its context.
  expect(added).toBeGreaterThanOrEqual(3n * (ofCall + ofSearch));
});

describe.each([
  ["a response", "native", openResponse],
  ["a chat", "over-responses", openChat],
] as const)("a client that leaves %s", (_, model, open) => {
  const begun = (one: object) => responseEvent("response.output_item.added", { item: one });
  const done = (one: object) => responseEvent("response.output_item.done", { item: one });
  const picture = item("image_generation_call", { id: "ig_1", status: "in_progress" });
  const mostOfCall = 2000n * 500_000n + 10_000n * 800_000n;

  test.each<[string, readonly string[], readonly object[], bigint, object]>([
    [
      "pays a picture that has begun at its most",
      [begun(picture)],
      [{ type: "image_generation" }],
      mostOfCall + 6540n * 3_000_000n + ofOne(5_000_000),
      { imageToolOutputTokens: 6540, images: 1 },
    ],
    [
      "pays a finished picture once",
      [begun(picture), done({ ...picture, status: "completed" })],
      [{ type: "image_generation" }],
      mostOfCall + 6540n * 3_000_000n + ofOne(5_000_000),
      { imageToolOutputTokens: 6540, images: 1 },
    ],
    [
      "pays a container that has begun, once",
      [
        begun(item("code_interpreter_call", { container_id: "c", status: "in_progress" })),
        begun(item("code_interpreter_call", { container_id: "c", status: "in_progress" })),
      ],
      [{ type: "code_interpreter" }],
      ofOne(3_000_000),
      { codeSessions: 1 },
    ],
    [
      "pays what ran until then",
      [
        done(item("file_search_call")),
        done(item("code_interpreter_call", { container_id: "c" })),
        done(item("custom_tool_call", { name: "x_keyword_search", call_id: "c", input: "" })),
      ],
      [{ type: "file_search" }, { type: "code_interpreter" }, { type: "x_search" }],
      ofOne(250_000) + ofOne(3_000_000) + 30n * ofOne(500_000) + 10n * ofOne(1_000_000),
      { fileSearches: 1, codeSessions: 1, xPosts: 30, xProfiles: 10 },
    ],
    [
      "pays nothing for a tool of its own with the name of a search",
      [done(item("custom_tool_call", { name: "x_keyword_search", call_id: "c", input: "" }))],
      [{ type: "file_search" }],
      0n,
      { xPosts: 0 },
    ],
    [
      "pays the older search at its price",
      [done(item("web_search_call", { action: { type: "search" } }))],
      [{ type: "web_search_preview" }],
      ofOne(2_300_000),
      { webSearches: 0, webSearchPreviews: 1 },
    ],
  ])("%s", async (__, events, tools, cost, counts) => {
    const opening = responseEvent("response.created", {
      response: { ...responseObject("resp_1"), tools },
    });
    at.providers.openai.answer = (peer) =>
      peer.send([streamHead, ...[opening, ...events, delta].map((one) => piece(one))].join(""));
    const of = await key();
    const client = await open(at.gateway, of, { model, tools, stream: true });
    await client.seen("Hello");
    client.disconnect();
    const [record] = await at.gateway.records(of, 1);
    expect(record).toMatchObject({ status: "cancelled", estimated: true, ...counts });
    const { promptTokens = 0, completionTokens = 0, charge } = record ?? {};
    const tokens = BigInt(promptTokens) * 25_000n + BigInt(completionTokens) * 200_000n;
    expect(charge).toBe(tokens + cost);
  });
});

describe.each([
  ["in JSON", {}],
  ["as a stream", { stream: true }],
])("a response without usage, %s", (_, form) => {
  test("is charged for what its tools used", async () => {
    answers({ output: [item("code_interpreter_call", { container_id: "c" })], usage: null });
    const of = await key();
    const tools = [{ type: "code_interpreter" }];
    expect((await respond(at.gateway, of, { model: "native", tools, ...form })).status).toBe(200);
    const [record] = await at.gateway.records(of, 1);
    expect(record).toMatchObject({ status: "done", estimated: true, codeSessions: 1 });
    expect(record?.charge).toBeGreaterThan(ofOne(3_000_000));
  });
});

describe("web searches", () => {
  const search = item("web_search_call", { action: { type: "search", queries: ["a", "b"] } });
  test.each<[string, object, object, bigint]>([
    ["by their items", { output: [search] }, { webSearches: 1 }, ofOne(900_000)],
    [
      "as the provider counts them",
      { output: [search], tool_usage: { web_search: { num_requests: 2 } } },
      { webSearches: 2 },
      2n * ofOne(900_000),
    ],
    [
      "of the older tool",
      { output: [search], tools: [{ type: "web_search_preview" }] },
      { webSearches: 0, webSearchPreviews: 1 },
      ofOne(2_300_000),
    ],
    ["of xAI", xai({ web_search_calls: 4 }), { webSearches: 4 }, 4n * ofOne(900_000)],
  ])("are charged %s", async (_, answer, counts, cost) => {
    answers(answer);
    const of = await key();
    await respond(at.gateway, of, { model: "native", tools: [{ type: "web_search" }] });
    expect(await at.gateway.records(of, 1)).toMatchObject([{ charge: usual + cost, ...counts }]);
  });
});

describe("runs of code of Anthropic", () => {
  const code = { type: "code_execution_20250825", name: "code_execution" };
  const runs = { server_tool_use: { web_search_requests: 0, code_execution_requests: 2 } };
  const ofMessage = 12n * 25_000n + 5n * 2500n + 3n * 30_000n + 7n * 200_000n;
  const answersRuns = () => {
    at.providers.claude.answer = (peer, request) => {
      const usage = { ...messageUsage, ...runs };
      const isStream = request.json["stream"] === true;
      const answer = isStream
        ? stream(startEvent, endEvent(usage), stopEvent)
        : json(message({ usage }));
      return answer(peer, request);
    };
  };

  test.each([{}, { stream: true }])("are charged: %j", async (form) => {
    answersRuns();
    const of = await key();
    const { status } = await sendMessage(at.gateway, of, {
      model: "claude",
      tools: [code],
      ...form,
    });
    expect(status).toBe(200);
    const charge = ofMessage + 2n * ofOne(3_000_000);
    expect(await at.gateway.records(of, 1)).toMatchObject([{ charge, codeSessions: 2 }]);
  });

  test("are charged where the provider shows them and does not count them", async () => {
    const result = {
      type: "bash_code_execution_tool_result",
      tool_use_id: "srvtoolu_1",
      content: {},
    };
    const { content } = message() as { content: object[] };
    const answer = message({ usage: messageUsage, content: [result, result, ...content] });
    at.providers.claude.answer = (peer, request) => json(answer)(peer, request);
    const of = await key();
    expect((await sendMessage(at.gateway, of, { model: "claude", tools: [code] })).status).toBe(
      200,
    );
    const charge = ofMessage + 2n * ofOne(3_000_000);
    expect(await at.gateway.records(of, 1)).toMatchObject([{ charge, codeSessions: 2 }]);
  });

  test.each([{}, { stream: true }])("are free beside the newer web tools: %j", async (form) => {
    answersRuns();
    const of = await key();
    const tools = [code, { type: "web_fetch_20260209", name: "web_fetch" }];
    for (const model of ["claude", "claude-bare"]) {
      const { status } = await sendMessage(at.gateway, of, { model, tools, ...form });
      expect(status).toBe(200);
    }
    const record = { charge: ofMessage, codeSessions: 0 };
    expect(await at.gateway.records(of, 2)).toMatchObject([record, record]);
  });

  test("without a price are refused", async () => {
    const { status, text } = await sendMessage(at.gateway, await key(), {
      model: "claude-bare",
      tools: [code],
    });
    expect([status, text]).toEqual([
      400,
      expect.stringContaining(unsold("code_execution", "rub_code_session_per_1k")),
    ]);
    expect(sentOf()).toBe(0);
  });

  test("are charged although the client leaves", async () => {
    const result = (type: string) =>
      messageEvent("content_block_start", { index: 1, content_block: { type, content: {} } });
    at.providers.claude.answer = (peer) =>
      peer.send(
        [
          streamHead,
          ...[
            startEvent,
            result("bash_code_execution_tool_result"),
            result("text_editor_code_execution_tool_result"),
            textEvent("Hello"),
          ].map((one) => piece(one)),
        ].join(""),
      );
    const of = await key();
    const client = await openCall(at.gateway, of, {
      path: "/v1/messages",
      body: askMessage({ model: "claude", tools: [code], stream: true }),
    });
    await client.seen("Hello");
    client.disconnect();
    expect(await at.gateway.records(of, 1)).toMatchObject([{ estimated: true, codeSessions: 2 }]);
  });
});

describe("Google's own tools", () => {
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 2, totalTokenCount: 12 };
  const ofTokens = 10n * 25_000n + 2n * 200_000n;
  const web = { web: { uri: "https://example.com", title: "x" } };
  const maps = { maps: { uri: "https://maps.google.com", title: "x" } };
  const answersWith = (groundingMetadata: object, modelVersion: string) => {
    const answer = saying([{ text: "Hello" }], "STOP", { usageMetadata, modelVersion });
    const { candidates } = answer as { candidates: object[] };
    const whole = { ...answer, candidates: [{ ...candidates[0], groundingMetadata }] };
    at.providers.gemini.answer = (peer, request) => {
      const isStream = request.requestLine.includes(":streamGenerateContent");
      return (isStream ? stream(geminiEvent(whole)) : json(whole))(peer, request);
    };
  };

  test.each<[string, object, object, string, object, bigint]>([
    [
      "each query",
      { google_search: {} },
      { webSearchQueries: ["a", "b"], groundingChunks: [web] },
      "gemini-3-pro-preview",
      { webSearches: 2 },
      2n * ofOne(900_000),
    ],
    [
      "each answer before Gemini 3",
      { google_search: {} },
      { webSearchQueries: ["a", "b"], groundingChunks: [web] },
      "gemini-2.5-flash",
      { webSearches: 1 },
      ofOne(900_000),
    ],
    ["no search", { google_search: {} }, {}, "gemini-3-pro-preview", { webSearches: 0 }, 0n],
    [
      "an answer from the maps",
      { googleMaps: {} },
      { groundingChunks: [maps, maps] },
      "gemini-3-pro-preview",
      { mapSearches: 1, webSearches: 0 },
      ofOne(1_300_000),
    ],
  ])("are charged for %s", async (_, tool, grounding, version, counts, cost) => {
    answersWith(grounding, version);
    const of = await key();
    for (const form of [{}, { stream: true }]) {
      const body = ask({ model: "gemini", tools: [tool], ...form });
      expect((await call(at.gateway, of, { body })).status).toBe(200);
    }
    const record = { charge: ofTokens + cost, ...counts };
    expect(await at.gateway.records(of, 2)).toMatchObject([record, record]);
  });

  test.each([
    ["google_search", "rub_web_search_per_1k"],
    ["google_maps", "rub_map_search_per_1k"],
  ])("without a price are refused: %s", async (name, missing) => {
    const body = ask({ model: "gemini-bare", tools: [{ [name]: {} }] });
    const { status, text } = await call(at.gateway, await key(), { body });
    expect([status, text]).toEqual([400, expect.stringContaining(unsold(name, missing))]);
    expect(sentOf()).toBe(0);
  });

  test("are refused where the provider does not count them", async () => {
    const of = await key();
    for (const model of ["native", "over-responses"]) {
      const body = ask({ model, tools: [{ google_search: {} }] });
      const { status, text } = await call(at.gateway, of, { body });
      expect([status, text]).toEqual([400, expect.stringContaining(uncounted("google_search"))]);
    }
    expect(sentOf()).toBe(0);
  });
});
