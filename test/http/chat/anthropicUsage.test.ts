import { describe, expect, test } from "bun:test";
import {
  message,
  messageEvent,
  stopEvent,
  textEvent,
  endEvent,
} from "../../support/provider/anthropicAnswers.ts";
import { call, chat } from "../../support/gateway/chatCalls.ts";
import { costOf, prices } from "../../support/gateway/gatewayConfig.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

/** Of a token that is kept in the cache for an hour, and of a web search, in nano-roubles. */
const CACHE_WRITE_1H = 50_000;
const WEB_SEARCH = 900_000_000;

const at = openBefore(["claude"], ({ claude }) => ({
  providers: { claude: { base_url: claude, kind: "anthropic", api_key: "sk-ant-0123" } },
  models: [
    {
      id: "small",
      routes: [{ provider: "claude", responses: false }],
      settings: { rub_cache_write_1h_per_1m: CACHE_WRITE_1H, rub_web_search_per_1k: 900_000 },
    },
  ],
}));

/** What Anthropic bills. `written` is kept for five minutes, `hour` for an hour. */
interface Billed {
  readonly plain: number;
  readonly read?: number;
  readonly written?: number;
  readonly hour?: number;
  readonly output: number;
  readonly searches?: number;
}

const cachingDocs = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching";
const searchDocs = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool";
const fetchDocs = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-fetch-tool";
const streamingDocs = "https://platform.claude.com/docs/en/build-with-claude/streaming";
const compactionDocs = "https://platform.claude.com/docs/en/build-with-claude/compaction";
const advisorDocs = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/advisor-tool";
const fallbackDocs = "https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback";

const noCache = { cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };
const advised = [
  { type: "message", ...noCache, input_tokens: 412, output_tokens: 89 },
  {
    type: "advisor_message",
    model: "claude-opus-5",
    ...noCache,
    input_tokens: 823,
    output_tokens: 1612,
  },
  {
    type: "message",
    input_tokens: 1348,
    cache_read_input_tokens: 412,
    cache_creation_input_tokens: 0,
    output_tokens: 442,
  },
];

/** Usages that Anthropic publishes, and what it bills for them. */
const published: readonly (readonly [string, string, object, Billed])[] = [
  [
    "a prompt that is written to the cache",
    cachingDocs,
    {
      cache_creation_input_tokens: 188_086,
      cache_read_input_tokens: 0,
      input_tokens: 21,
      output_tokens: 393,
    },
    { plain: 21, written: 188_086, output: 393 },
  ],
  [
    "the same prompt, which is read from the cache",
    cachingDocs,
    {
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 188_086,
      input_tokens: 21,
      output_tokens: 393,
    },
    { plain: 21, read: 188_086, output: 393 },
  ],
  [
    "cache writes of both lifetimes",
    cachingDocs,
    {
      input_tokens: 2048,
      cache_read_input_tokens: 1800,
      cache_creation_input_tokens: 248,
      output_tokens: 503,
      cache_creation: { ephemeral_5m_input_tokens: 148, ephemeral_1h_input_tokens: 100 },
    },
    { plain: 2048, read: 1800, written: 148, hour: 100, output: 503 },
  ],
  [
    "a web search",
    searchDocs,
    {
      input_tokens: 105,
      output_tokens: 6039,
      cache_read_input_tokens: 7123,
      cache_creation_input_tokens: 7345,
      server_tool_use: { web_search_requests: 1 },
    },
    { plain: 105, read: 7123, written: 7345, output: 6039, searches: 1 },
  ],
  [
    "a streamed web search",
    streamingDocs,
    {
      input_tokens: 10_682,
      ...noCache,
      output_tokens: 510,
      server_tool_use: { web_search_requests: 1 },
    },
    { plain: 10_682, output: 510, searches: 1 },
  ],
  [
    "a web fetch, which costs its tokens only",
    fetchDocs,
    {
      input_tokens: 25_039,
      output_tokens: 931,
      ...noCache,
      server_tool_use: { web_fetch_requests: 1 },
    },
    { plain: 25_039, output: 931 },
  ],
  [
    "a compaction, which the figures beside it leave out",
    compactionDocs,
    {
      input_tokens: 23_000,
      output_tokens: 1000,
      iterations: [
        { type: "compaction", input_tokens: 180_000, output_tokens: 3500 },
        { type: "message", input_tokens: 23_000, output_tokens: 1000 },
      ],
    },
    { plain: 203_000, output: 4500 },
  ],
  [
    "a model with an advisor",
    advisorDocs,
    {
      input_tokens: 1760,
      cache_read_input_tokens: 412,
      cache_creation_input_tokens: 0,
      output_tokens: 531,
      iterations: advised,
    },
    { plain: 412 + 823 + 1348, read: 412, output: 89 + 1612 + 442 },
  ],
  [
    "a model with an advisor, with only the first prompt in the sum",
    advisorDocs,
    { input_tokens: 412, ...noCache, output_tokens: 531, iterations: advised },
    { plain: 412 + 823 + 1348, read: 412, output: 89 + 1612 + 442 },
  ],
  [
    "a fallback after a refusal without output, which is not billed",
    fallbackDocs,
    {
      input_tokens: 412,
      output_tokens: 264,
      ...noCache,
      iterations: [
        {
          type: "message",
          model: "claude-fable-5",
          input_tokens: 535,
          output_tokens: 0,
          ...noCache,
        },
        {
          type: "fallback_message",
          model: "claude-opus-4-8",
          input_tokens: 412,
          output_tokens: 264,
          ...noCache,
        },
      ],
    },
    { plain: 412, output: 264 },
  ],
];

function costOfBilled({ plain, read = 0, written = 0, hour = 0, output, searches = 0 }: Billed) {
  const usual = { prompt: plain + read + written, cached: read, cacheWrite: written };
  return (
    costOf({ ...usual, completion: output }) +
    BigInt(hour) * BigInt(CACHE_WRITE_1H) +
    BigInt(searches) * BigInt(WEB_SEARCH)
  );
}

function figuresOf({ plain, read = 0, written = 0, hour = 0, output, searches = 0 }: Billed) {
  return {
    prompt_tokens: plain + read + written + hour,
    cached_tokens: read,
    cache_write_tokens: written + hour,
    cache_write_1h_tokens: hour,
    completion_tokens: output,
    web_searches: searches,
  };
}

/** The lifetimes of cache writes come with the start of a stream, what its runs and tools used at the end. */
function answerWith(usage: object): ProviderAnswer {
  const {
    cache_creation: writes,
    iterations: runs,
    server_tool_use: tools,
    ...counts
  } = usage as Record<string, unknown>;
  const started = message({
    content: [],
    stop_reason: null,
    usage: { ...counts, cache_creation: writes, output_tokens: 1 },
  });
  const events = [
    messageEvent("message_start", { message: started }),
    messageEvent("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
    textEvent("Hello"),
    endEvent({ ...counts, iterations: runs, server_tool_use: tools }),
    stopEvent,
  ];
  return (peer, request) =>
    (request.json["stream"] === true ? stream(...events) : json(message({ usage })))(peer, request);
}

/** A chat is translated, a message is passed through. */
const ways = [
  ["a chat", chat, false],
  ["a streamed chat", chat, true],
  ["a message", sendMessage, false],
  ["a streamed message", sendMessage, true],
] as const;

describe.each(published)("%s", (_, __, usage, billed) => {
  test.each(ways)("is charged exactly and shown for %s", async (_, send, isStream) => {
    at.providers.claude.answer = answerWith(usage);
    const key = await at.gateway.key();
    const { status, id } = await send(at.gateway, key, { stream: isStream });
    expect(status).toBe(200);
    const charge = costOfBilled(billed);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: false, charge, writeOff: 0n },
    ]);
    const [receipt, report] = await Promise.all(
      [`/v1/requests/${id}`, "/v1/usage"].map((path) => call(at.gateway, key, { path })),
    );
    expect(receipt?.body).toMatchObject({
      ...figuresOf(billed),
      rub_cache_write_per_1m: prices.cacheWrite,
      rub_cache_write_1h_per_1m: CACHE_WRITE_1H,
      rub_web_search_per_1k: billed.searches === undefined ? 0 : 900_000,
    });
    expect(report?.body).toMatchObject({ data: [figuresOf(billed)] });
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - charge);
  });
});

describe("a usage in an odd form is charged by its figures beside it", () => {
  const counts = { input_tokens: 12, output_tokens: 7 };
  const plain = { plain: 12, output: 7 };
  test.each<[string, object, Billed]>([
    ["no runs", { ...counts, iterations: [] }, plain],
    ["runs that are no list", { ...counts, iterations: { input_tokens: 900 } }, plain],
    ["runs that are not counts", { ...counts, iterations: [5, null, { input_tokens: -1 }] }, plain],
    ["runs with less", { ...counts, iterations: [{ input_tokens: 1, output_tokens: 1 }] }, plain],
    [
      "searches that are no count",
      { ...counts, server_tool_use: { web_search_requests: "9" } },
      plain,
    ],
    [
      "no lifetimes",
      { ...counts, cache_creation_input_tokens: 5, cache_creation: null },
      { ...plain, written: 5 },
    ],
    [
      "lifetimes without their sum",
      { ...counts, cache_creation: { ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 3 } },
      { ...plain, written: 2, hour: 3 },
    ],
    [
      "a run of a kind that is not known",
      {
        ...counts,
        iterations: [
          { type: "next", ...counts },
          { type: "next", ...counts },
        ],
      },
      { plain: 24, output: 14 },
    ],
  ])("%s", async (_, usage, billed) => {
    at.providers.claude.answer = answerWith(usage);
    const key = await at.gateway.key();
    await chat(at.gateway, key);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ charge: costOfBilled(billed) }]);
  });

  test("more searches than can be true are not charged", async () => {
    const usage = { ...counts, server_tool_use: { web_search_requests: 1_000_000 } };
    at.providers.claude.answer = answerWith(usage);
    const key = await at.gateway.key();
    await chat(at.gateway, key);
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({ estimated: true, webSearches: 0 });
  });
});
