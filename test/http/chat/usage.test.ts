import { describe, expect, test } from "bun:test";
import {
  answered,
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  thereEvent,
  usage,
  usageOnly,
} from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { raw, stream, streamHead, piece } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

const at = openOneModelBefore();
const unasked = openOneModelBefore({}, { stream_usage: false });

interface Figures {
  prompt: number;
  completion: number;
  cached?: number;
  cacheWrite?: number;
}

/** The estimate of "hello" and "Hello there": a quarter of their bytes, rounded up. */
const estimate: Figures = { prompt: 2, completion: 3 };
const huge = 1_000_000_000;

/** 20 tokens of the prompt and 7 of the answer, with these details of the answer and this total. */
function reasoned(details: object, total?: unknown): string {
  const figures = { prompt_tokens: 20, completion_tokens: 7, total_tokens: total };
  return JSON.stringify({ ...figures, completion_tokens_details: details });
}

/** The same with these fields about its cache. */
function cachedAs(fields: object): string {
  return JSON.stringify({ prompt_tokens: 20, completion_tokens: 7, ...fields });
}

/** The same with a total, and these fields over it. */
function researched(fields: object): string {
  return cachedAs({ total_tokens: 27, ...fields });
}

const cachedFigures: Figures = { prompt: 20, completion: 7, cached: 15 };

/** The reported usage as JSON, and the billed usage. undefined means the estimate. */
const reports: readonly (readonly [string | undefined, Figures | undefined])[] = [
  [undefined, undefined],
  ["null", undefined],
  ["{}", undefined],
  ["[]", undefined],
  ['"20"', undefined],
  ['{"prompt_tokens":20}', undefined],
  ['{"completion_tokens":7}', undefined],
  ['{"prompt_tokens":-1,"completion_tokens":7}', undefined],
  ['{"prompt_tokens":20,"completion_tokens":-7}', undefined],
  ['{"prompt_tokens":20.5,"completion_tokens":7}', undefined],
  ['{"prompt_tokens":"20","completion_tokens":7}', undefined],
  ['{"prompt_tokens":null,"completion_tokens":7}', undefined],
  ['{"prompt_tokens":1e400,"completion_tokens":7}', undefined],
  ['{"prompt_tokens":9007199254740993,"completion_tokens":7}', undefined],
  [`{"prompt_tokens":${huge},"completion_tokens":7}`, undefined],
  [`{"prompt_tokens":20,"completion_tokens":${huge}}`, undefined],
  ['{"input_tokens":20,"output_tokens":7}', undefined],
  ['{"prompt_tokens":0,"completion_tokens":0}', { prompt: 0, completion: 0 }],
  ['{"prompt_tokens":20.0,"completion_tokens":7e0}', { prompt: 20, completion: 7 }],
  ['{"prompt_tokens":20,"completion_tokens":7,"total_tokens":999}', { prompt: 20, completion: 7 }],
  [
    '{"prompt_tokens":20,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":25}}',
    { prompt: 20, completion: 7, cached: 20 },
  ],
  [
    '{"prompt_tokens":20,"completion_tokens":7,"prompt_tokens_details":{"cache_write_tokens":25}}',
    { prompt: 20, completion: 7, cacheWrite: 20 },
  ],
  [
    '{"prompt_tokens":20,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":15,"cache_write_tokens":15}}',
    { prompt: 20, completion: 7, cached: 15, cacheWrite: 5 },
  ],
  [
    '{"prompt_tokens":20,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":-5,"cache_write_tokens":"3"}}',
    { prompt: 20, completion: 7 },
  ],
  [
    '{"prompt_tokens":20,"completion_tokens":7,"prompt_tokens_details":null}',
    { prompt: 20, completion: 7 },
  ],
  // Cached tokens under other names. They count when the details have none.
  [cachedAs({ prompt_cache_hit_tokens: 15, prompt_cache_miss_tokens: 5 }), cachedFigures],
  [cachedAs({ cached_tokens: 15 }), cachedFigures],
  [cachedAs({ cached_tokens: 99, prompt_tokens_details: { cached_tokens: 15 } }), cachedFigures],
  [
    cachedAs({ prompt_cache_hit_tokens: 9, prompt_tokens_details: { cached_tokens: 0 } }),
    { prompt: 20, completion: 7 },
  ],
  [cachedAs({ cached_tokens: 99, prompt_tokens_details: null }), { ...cachedFigures, cached: 20 }],
  [
    cachedAs({
      prompt_tokens_details: { cached_tokens: 4, cache_creation_tokens: 10 },
      cache_creation_input_tokens: 10,
      cache_read_input_tokens: 4,
    }),
    { prompt: 20, completion: 7, cached: 4, cacheWrite: 10 },
  ],
  [
    cachedAs({ cache_creation_input_tokens: 10, cache_read_input_tokens: 4 }),
    { prompt: 20, completion: 7, cached: 4, cacheWrite: 10 },
  ],
  [
    cachedAs({ prompt_tokens_details: { cached_tokens: 4, cache_creation_input_tokens: 10 } }),
    { prompt: 20, completion: 7, cached: 4, cacheWrite: 10 },
  ],
  [
    cachedAs({ prompt_tokens_details: { cache_write_tokens: 0, cache_creation_input_tokens: 10 } }),
    { prompt: 20, completion: 7 },
  ],
  // Perplexity's research models count citations and reasoning beside the completion. Without citations the reasoning is part of it.
  [researched({ citation_tokens: 11, reasoning_tokens: 94 }), { prompt: 31, completion: 101 }],
  [researched({ citation_tokens: 0, reasoning_tokens: 94 }), { prompt: 20, completion: 101 }],
  [researched({ citation_tokens: 11 }), { prompt: 31, completion: 7 }],
  [researched({ citation_tokens: 11, reasoning_tokens: -1 }), { prompt: 31, completion: 7 }],
  [researched({ citation_tokens: "11", reasoning_tokens: 94 }), { prompt: 20, completion: 7 }],
  [researched({ reasoning_tokens: 94 }), { prompt: 20, completion: 7 }],
  [researched({ prompt_tokens: "20", citation_tokens: 11 }), undefined],
  // xAI counts reasoning beside the completion. The total shows it exactly.
  [reasoned({ reasoning_tokens: 94 }, 121), { prompt: 20, completion: 101 }],
  [reasoned({ reasoning_tokens: 94 }, 120), { prompt: 20, completion: 7 }],
  [reasoned({ reasoning_tokens: 94 }, 27), { prompt: 20, completion: 7 }],
  [reasoned({ reasoning_tokens: 94 }, "121"), { prompt: 20, completion: 7 }],
  [reasoned({ reasoning_tokens: 94 }), { prompt: 20, completion: 7 }],
  [reasoned({ reasoning_tokens: "94" }, 121), { prompt: 20, completion: 7 }],
  [reasoned({ reasoning_tokens: -3 }, 24), { prompt: 20, completion: 7 }],
  [reasoned({ reasoning_tokens: 7 }, 27), { prompt: 20, completion: 7 }],
];

/** The usage object of the public contract for these figures. */
function shown({ prompt, completion, cached = 0, cacheWrite = 0 }: Figures): object {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: cacheWrite },
  };
}

interface SeenUsage {
  readonly [name: string]: unknown;
  readonly prompt_tokens_details: Readonly<Record<string, unknown>>;
}

/** The cache fields under other names that a client sees, where they differ from the billed ones. */
function strayFigures(
  { prompt_tokens_details: details, ...usage }: SeenUsage,
  { prompt, cached = 0, cacheWrite = 0 }: Figures,
): unknown[] {
  const other: readonly (readonly [unknown, number])[] = [
    [usage["cached_tokens"], cached],
    [usage["prompt_cache_hit_tokens"], cached],
    [usage["prompt_cache_miss_tokens"], prompt - cached],
    [details["cache_creation_input_tokens"], cacheWrite],
  ];
  return other.filter(([seen, billed]) => seen !== undefined && seen !== billed);
}

const tooMany = { max_tokens: 1000 };

describe.each([
  ["JSON", false],
  ["a stream", true],
])("usage reported in %s", (_, isStream) => {
  const request = isStream ? { stream: true, stream_options: { include_usage: true } } : {};
  const answer = (reported: string | undefined) => {
    if (!isStream) {
      const text = JSON.stringify({
        choices: [{ index: 0, finish_reason: "stop", message: { content: "Hello there" } }],
        usage: "USAGE",
      });
      const body = text.replace(
        reported === undefined ? ',"usage":"USAGE"' : '"USAGE"',
        reported ?? "",
      );
      return raw(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    }
    const last = reported === undefined ? [] : [usageOnly("USAGE").replace('"USAGE"', reported)];
    return stream(helloEvent, thereEvent, stopEvent, ...last, doneEvent);
  };

  test.each(reports)("%s is billed as %j", async (reported, billed) => {
    at.provider.answer = answer(reported);
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { ...request, ...tooMany });
    expect(reply.status).toBe(200);
    const figures = billed ?? estimate;
    const body = isStream ? chunksOf(reply).at(-1) : reply.body;
    const seen = (body as { usage: SeenUsage }).usage;
    expect(seen).toMatchObject(shown(figures));
    expect(strayFigures(seen, figures)).toEqual([]);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: billed === undefined, charge: costOf(figures), writeOff: 0n },
    ]);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - costOf(figures));
  });
});

test("tokens that Perplexity bills beside prompt and completion are shown as part of them", async () => {
  const reported = { citation_tokens: 11, reasoning_tokens: 94, num_search_queries: 3 };
  at.provider.answer = answered({ usage: JSON.parse(researched(reported)) });
  const { body } = await chat(at.gateway, await at.gateway.key(), tooMany);
  expect((body as { usage: unknown }).usage).toEqual({
    prompt_tokens: 31,
    completion_tokens: 101,
    total_tokens: 132,
    num_search_queries: 3,
    prompt_tokens_details: { citation_tokens: 11, cached_tokens: 0, cache_write_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 94 },
  });
});

describe("the estimate", () => {
  test("counts 1,000 tokens for each part that is not text", async () => {
    at.provider.answer = answered({ usage: undefined });
    const key = await at.gateway.key();
    const image = { type: "image_url", image_url: { url: "https://one.example/a.png" } };
    const content = [{ type: "text", text: "12345678" }, image, image];
    await chat(at.gateway, key, { messages: [{ role: "user", content }] });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { estimated: true, promptTokens: 2002, completionTokens: 3 },
    ]);
  });

  test("counts bytes of UTF-8, reasoning and tool calls too", async () => {
    at.provider.answer = answered({
      usage: undefined,
      choices: [
        {
          index: 0,
          finish_reason: "stop",
          message: { content: "жжжж", reasoning_content: "12345678" },
        },
      ],
    });
    const key = await at.gateway.key();
    await chat(at.gateway, key, { messages: [{ role: "user", content: "жж" }] });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { promptTokens: 1, completionTokens: 4 },
    ]);
  });

  test("counts the text, not its citations", async () => {
    const citation = {
      start_index: 0,
      end_index: 8,
      title: "t".repeat(99),
      url: "https://a.example",
    };
    const annotations = [{ type: "url_citation", url_citation: citation }];
    const message = { role: "assistant", content: "12345678", annotations };
    at.provider.answer = answered({ usage: undefined, choices: [{ index: 0, message }] });
    const key = await at.gateway.key();
    await chat(at.gateway, key);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { estimated: true, completionTokens: 2 },
    ]);
  });

  /** Two bytes of a name and six of arguments, with other fields. */
  const called = { id: "call_0123456789", type: "function", index: 0 };
  const calls: readonly (readonly [string, object, number])[] = [
    ["a function", { ...called, function: { name: "fn", arguments: '{"a":1' } }, 2],
    ["a custom tool", { ...called, type: "custom", custom: { name: "fn", input: "123456" } }, 2],
    ["an unknown shape", { ...called, own: [{ item_id: "item_1", text: "12345678" }] }, 2],
    ["only other fields", { ...called, call_id: "call_1", status: "completed" }, 0],
  ];

  test.each(calls)("counts only the generated part of a call: %s", async (_, call, tokens) => {
    const message = { role: "assistant", content: null, tool_calls: [call] };
    const choices = [{ index: 0, finish_reason: "tool_calls", message }];
    at.provider.answer = answered({ usage: undefined, choices });
    const key = await at.gateway.key();
    await chat(at.gateway, key);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { estimated: true, completionTokens: tokens },
    ]);
  });

  test("of a stream of calls counts their arguments, not the fields around each token", async () => {
    const pieces = ["{", '"a"', ":", "[", "1", ",", "2", "]", "}"].map((text) =>
      chatEvent({ tool_calls: [{ index: 0, id: null, function: { arguments: text } }] }),
    );
    const start = { ...called, function: { name: "fn", arguments: "" } };
    const events = [chatEvent({ role: "assistant", tool_calls: [start] }), ...pieces];
    at.provider.answer = stream(...events, chatEvent({}, "tool_calls"), doneEvent);
    const key = await at.gateway.key();
    await chat(at.gateway, key, { stream: true });
    // "fn" and the eleven characters of the arguments.
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, completionTokens: 4 },
    ]);
  });

  test("never exceeds the hold", async () => {
    const content = "a".repeat(8000);
    at.provider.answer = answered({
      usage: undefined,
      choices: [{ index: 0, finish_reason: "length", message: { content } }],
    });
    const key = await at.gateway.key();
    await chat(at.gateway, key, { max_tokens: 10 });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, completionTokens: 10, writeOff: 0n },
    ]);
  });
});

describe("usage in a stream", () => {
  const report = (prompt: number, completion: number) =>
    usageOnly({ prompt_tokens: prompt, completion_tokens: completion });
  const inChunk = (completion_tokens: number) => ({
    usage: { prompt_tokens: 20, completion_tokens },
  });

  test.each([
    [
      "in every chunk, growing: the last",
      [
        chatEvent({ content: "a" }, null, inChunk(1)),
        chatEvent({ content: "b" }, null, inChunk(2)),
        chatEvent({}, "stop", inChunk(3)),
      ],
      3,
    ],
    ["shrinking: the largest", [helloEvent, report(20, 9), stopEvent, report(20, 4)], 9],
    ["shrinking and growing: the largest of each", [stopEvent, report(10, 50), report(20, 5)], 50],
    [
      "first valid, then invalid: the valid one",
      [helloEvent, stopEvent, report(20, 5), usageOnly(null)],
      5,
    ],
    [
      "first valid, then implausible: the valid one",
      [helloEvent, stopEvent, report(20, 5), report(20, huge)],
      5,
    ],
    [
      "first implausible, then valid: the valid one",
      [chatEvent({ content: "a" }, null, inChunk(huge)), stopEvent, report(20, 5)],
      5,
    ],
    ["on the finish chunk itself", [helloEvent, chatEvent({}, "stop", inChunk(6))], 6],
    ["in a chunk of its own before the end", [helloEvent, report(20, 8), stopEvent], 8],
    [
      "zeros in every chunk and at the end: accepted",
      [chatEvent({ content: "a" }, null, inChunk(0)), chatEvent({}, "stop", inChunk(0))],
      0,
    ],
  ])("%s", async (_, events, completionTokens) => {
    at.provider.answer = stream(...events, doneEvent);
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stream: true });
    expect(reply.text).not.toContain("usage");
    expect(chunksOf(reply).filter(({ choices }) => (choices as []).length === 0)).toEqual([]);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: false, promptTokens: 20, completionTokens },
    ]);
  });

  const zeros = { usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } };
  const long = "long ".repeat(20);
  test.each([
    [
      "zeros with every text",
      [roleEvent, chatEvent({ content: long }, null, zeros), stopEvent],
      { promptTokens: 2, completionTokens: 25 },
    ],
    [
      "in the role chunk only",
      [chatEvent({ role: "assistant" }, null, inChunk(0)), chatEvent({ content: long }), stopEvent],
      { promptTokens: 20, completionTokens: 25 },
    ],
    [
      "in every text, and more than the estimate",
      [chatEvent({ content: long }, null, inChunk(30)), stopEvent],
      { promptTokens: 20, completionTokens: 30 },
    ],
    [
      "in a chunk of its own before the text",
      [report(20, 8), chatEvent({ content: long }), stopEvent],
      { promptTokens: 20, completionTokens: 25 },
    ],
    [
      "zeros with a text, and an impossible figure at the end",
      [chatEvent({ content: long }, null, zeros), stopEvent, report(20, huge)],
      { promptTokens: 2, completionTokens: 25 },
    ],
    [
      "with a finish reason that did not end the stream",
      [chatEvent({}, "stop", zeros), chatEvent({ content: long }), stopEvent],
      { promptTokens: 2, completionTokens: 25 },
    ],
  ])("only before the end is an early figure: %s", async (_, events, tokens) => {
    at.provider.answer = stream(...events, doneEvent);
    const key = await at.gateway.key();
    await chat(at.gateway, key, { stream: true });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, ...tokens },
    ]);
  });

  test("of one choice of two is early while the other continues, and final otherwise", async () => {
    const other = (text: string) =>
      chatEvent({}, null, {
        choices: [{ index: 1, delta: { content: text }, finish_reason: null }],
      });
    const key = await at.gateway.key();
    const first = [helloEvent, chatEvent({}, "stop", inChunk(2))];
    for (const events of [[...first, other(long)], first]) {
      at.provider.answer = stream(...events, doneEvent);
      await chat(at.gateway, key, { stream: true, n: 2 });
    }
    expect(await at.gateway.records(key, 2)).toMatchObject([
      { status: "done", estimated: false, promptTokens: 20, completionTokens: 2 },
      { status: "done", estimated: true, promptTokens: 20, completionTokens: 27 },
    ]);
  });

  test("of a stream that is cut is not charged", async () => {
    at.provider.answer = raw(streamHead, piece(helloEvent), piece(usageOnly(usage)), "x");
    const key = await at.gateway.key();
    expect((await chat(at.gateway, key, { stream: true })).text).toContain(
      '"finish_reason":"error"',
    );
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "failed", charge: 0n, promptTokens: 0, completionTokens: 0 },
    ]);
  });

  test("that comes seconds late is not awaited: the estimate is charged", async () => {
    at.provider.answer = raw(streamHead, piece(helloEvent), piece(stopEvent));
    const key = await at.gateway.key();
    expect((await chat(at.gateway, key, { stream: true })).text).toEndWith("data: [DONE]\n\n");
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, promptTokens: 2, completionTokens: 2 },
    ]);
  });
});

test("usage inside the only choice of the last chunk is billed", async () => {
  const choices = [{ index: 0, delta: {}, finish_reason: "stop", usage }];
  at.provider.answer = stream(helloEvent, chatEvent({}, null, { choices }), doneEvent);
  const key = await at.gateway.key();
  const asked = { stream: true, stream_options: { include_usage: true } };
  const reply = await chat(at.gateway, key, asked);
  expect(chunksOf(reply).at(-1)).toMatchObject({ usage });
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "done", estimated: false, promptTokens: 20, completionTokens: 7 },
  ]);
});

describe("usage in a stream whose client did not request it", () => {
  test.each([
    ["is used when it comes", [usageOnly(usage)], usage],
    ["is estimated when it does not come", [], { prompt_tokens: 2, completion_tokens: 3 }],
  ])("%s", async (_, events, reported) => {
    unasked.provider.answer = stream(helloEvent, thereEvent, stopEvent, ...events, doneEvent);
    const key = await unasked.gateway.key();
    const request = { stream: true, stream_options: { include_usage: true } };
    const reply = await chat(unasked.gateway, key, request);
    expect(chunksOf(reply).at(-1)).toMatchObject({ usage: reported });
    expect(await unasked.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: events.length === 0, promptTokens: reported.prompt_tokens },
    ]);
  });
});
