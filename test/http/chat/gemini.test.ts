import { describe, expect, test } from "bun:test";
import { chat, chunksOf, openChat, type Reply } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import {
  billed,
  geminiEvent,
  geminiEvents,
  saying,
  usageMetadata,
  usualGemini,
} from "../../support/provider/geminiAnswers.ts";
import { json, piece, raw, stream, streamHead } from "../../support/provider/scriptedProvider.ts";

const at = openBefore(["google"], ({ google }) => ({
  sections: { billing: { disconnect_grace: "100ms" } },
  providers: { google: { kind: "gemini", base_url: google, api_key: upstreamKey } },
  models: [
    {
      id: "small",
      routes: [{ provider: "google", model: "gemini-2.5-flash", responses: false }],
    },
    { id: "odd", routes: [{ provider: "google", model: "a b/../?key=%#é", responses: false }] },
    { id: "tuned", routes: [{ provider: "google", model: "tunedModels/x1", responses: false }] },
  ],
}));

const { google } = at.providers;
/** The usage of an answer whose completion is not counted yet. */
const prompted = { promptTokenCount: 100, cachedContentTokenCount: 40, totalTokenCount: 100 };
const shownUsage = {
  prompt_tokens: 100,
  completion_tokens: 50,
  total_tokens: 150,
  prompt_tokens_details: { cached_tokens: 40, cache_write_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 30 },
};

async function expectPaid(key: TestKey, cost: bigint): Promise<void> {
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "done", provider: "google", estimated: false, charge: cost, writeOff: 0n },
  ]);
  expect(await at.gateway.balance(key)).toBe(100_000_000_000n - cost);
}

describe("a chat over the Gemini API", () => {
  test("in JSON has the OpenAI form, and is charged with its cached and reasoning tokens", async () => {
    google.answer = usualGemini;
    const key = await at.gateway.key();
    const { status, body } = await chat(at.gateway, key);
    expect([status, body]).toEqual([
      200,
      {
        id: expect.stringMatching(/^chatcmpl-/),
        object: "chat.completion",
        created: expect.any(Number),
        model: "small",
        choices: [
          {
            index: 0,
            finish_reason: "stop",
            message: { role: "assistant", content: "Hello there", reasoning_content: "Hm." },
          },
        ],
        usage: shownUsage,
      },
    ]);
    await expectPaid(key, costOf(billed));
  });

  test("as a stream is the same, charged by the last usage", async () => {
    google.answer = usualGemini;
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, {
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(chunksOf(reply).map(({ choices, usage }) => [choices, usage])).toEqual([
      [[choice({ role: "assistant", reasoning_content: "Hm." })], undefined],
      [[choice({ content: "Hello" })], undefined],
      [[choice({ content: " there" })], undefined],
      [[choice({}, "stop")], shownUsage],
    ]);
    await expectPaid(key, costOf(billed));
  });

  test("of a stream that ends without a finish reason is not charged", async () => {
    google.answer = stream(...geminiEvents.slice(0, 2));
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stream: true });
    expect(reply.text).toContain('"finish_reason":"error"');
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });

  test("whose client disconnects is charged by the provider's count so far", async () => {
    google.answer = raw(streamHead, ...geminiEvents.slice(0, 2).map(piece));
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen("Hello");
    client.disconnect();
    expect(await at.gateway.records(key, 1)).toMatchObject([
      {
        status: "cancelled",
        estimated: true,
        charge: costOf({ prompt: 100, cached: 40, completion: 38 }),
      },
    ]);
  });

  test("of a stream without usage at its end is charged by the earlier usage and the text", async () => {
    for (const [early, completion] of [
      [geminiEvents[1], 38],
      [
        geminiEvent(saying([{ text: "x".repeat(400) }], undefined, { usageMetadata: prompted })),
        100,
      ],
    ] as const) {
      google.answer = stream(early ?? "", geminiEvent(saying([{ text: "" }], "STOP")));
      const key = await at.gateway.key();
      await chat(at.gateway, key, { stream: true });
      expect(await at.gateway.records(key, 1)).toMatchObject([
        {
          status: "done",
          estimated: true,
          charge: costOf({ prompt: 100, cached: 40, completion }),
        },
      ]);
    }
  });

  test.each([
    ["in JSON", json, { stream: false }],
    ["as a stream", (body: object) => stream(geminiEvent(body)), { stream: true }],
  ])("without a completion count is charged the same: %s", async (_, answer, request) => {
    for (const [reported, completion, estimated] of [
      [{ ...prompted, thoughtsTokenCount: 30, totalTokenCount: 150 }, 50, false],
      [prompted, 3, true],
    ] as const) {
      google.answer = answer(
        saying([{ text: "Hello there" }], "STOP", { usageMetadata: reported }),
      );
      const key = await at.gateway.key();
      await chat(at.gateway, key, request);
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "done", estimated, charge: costOf({ prompt: 100, cached: 40, completion }) },
      ]);
    }
  });

  test("without usage is estimated, never free", async () => {
    // A signature is not text. It does not count as completion.
    const signed = { text: "Hello there", thoughtSignature: "c2ln".repeat(100) };
    google.answer = json(saying([signed], "STOP"));
    const key = await at.gateway.key();
    await chat(at.gateway, key);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, promptTokens: 2, completionTokens: 3 },
    ]);
  });
});

describe.each([
  ["JSON", false, ":generateContent"],
  ["a stream", true, ":streamGenerateContent?alt=sse"],
])("the request for %s", (_, isStream, action) => {
  const sent = async (model: string): Promise<string> => {
    google.answer = usualGemini;
    const reply = await chat(at.gateway, await at.gateway.key(), { model, stream: isStream });
    expect(reply.status).toBe(200);
    return (await google.request(0)).requestLine;
  };

  test("goes to the model's own path", async () => {
    expect(await sent("small")).toBe(`POST /v1/models/gemini-2.5-flash${action} HTTP/1.1`);
  });

  test("keeps its path for any model name", async () => {
    expect(await sent("odd")).toBe(
      `POST /v1/models/a%20b%2F..%2F%3Fkey%3D%25%23%C3%A9${action} HTTP/1.1`,
    );
  });

  test("finds a tuned model", async () => {
    expect(await sent("tuned")).toBe(`POST /v1/tunedModels/x1${action} HTTP/1.1`);
  });

  test("has the key in its own header, and nowhere else", async () => {
    await sent("small");
    const { headers, text } = await google.request(0);
    expect(headers.filter(([, value]) => value.includes(upstreamKey))).toEqual([
      ["x-goog-api-key", upstreamKey],
    ]);
    expect(text.split(upstreamKey)).toHaveLength(2);
    expect(headers.some(([name]) => name === "authorization")).toBe(false);
    expect(at.gateway.logText()).not.toContain(upstreamKey);
  });
});

describe("a blocked prompt", () => {
  const blocked = {
    promptFeedback: { blockReason: "PROHIBITED_CONTENT", safetyRatings: [] },
    usageMetadata: { promptTokenCount: 31, totalTokenCount: 31 },
  };

  test.each([false, true])(
    "is an answer, charged for its prompt (stream: %j)",
    async (isStream) => {
      google.answer = isStream ? stream(geminiEvent(blocked)) : json(blocked);
      const key = await at.gateway.key();
      const reply = await chat(at.gateway, key, { stream: isStream });
      expect(reply.status).toBe(200);
      expect(isStream ? chunksOf(reply).map(({ choices }) => choices) : choicesOf(reply)).toEqual([
        isStream
          ? [choice({ role: "assistant" }, "content_filter")]
          : {
              index: 0,
              finish_reason: "content_filter",
              message: { role: "assistant", content: "" },
            },
      ]);
      await expectPaid(key, costOf({ prompt: 31, completion: 0 }));
      expect(google.requests).toHaveLength(1);
    },
  );

  test("without usage costs the estimate of the prompt", async () => {
    google.answer = json({ promptFeedback: { blockReason: "OTHER" } });
    const key = await at.gateway.key();
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, promptTokens: 2, completionTokens: 0 },
    ]);
  });
});

describe("several choices", () => {
  const both = (first: object, second: object, more: object = {}) => ({
    candidates: [first, { ...second, index: 1 }],
    ...more,
  });
  const part = (text: string, finishReason?: string) => ({
    content: { parts: [{ text }], role: "model" },
    ...(finishReason && { finishReason }),
  });

  test("are requested, and charged together", async () => {
    google.answer = json(both(part("a", "STOP"), part("b", "MAX_TOKENS"), { usageMetadata }));
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { n: 2 });
    expect(choicesOf(reply)).toMatchObject([
      { index: 0, finish_reason: "stop", message: { content: "a" } },
      { index: 1, finish_reason: "length", message: { content: "b" } },
    ]);
    expect((await google.request(0)).json["generationConfig"]).toEqual({ candidateCount: 2 });
    await expectPaid(key, costOf(billed));
  });

  test("arrive as a stream, each with its own end", async () => {
    google.answer = stream(
      geminiEvent(both(part("a"), part("b", "STOP"))),
      geminiEvent({ candidates: [part("c", "STOP")], usageMetadata }),
    );
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { n: 2, stream: true });
    expect(chunksOf(reply).map(({ choices }) => choices)).toEqual([
      [
        choice({ role: "assistant", content: "a" }),
        { ...choice({ role: "assistant", content: "b" }), index: 1 },
      ],
      [choice({ content: "c" })],
      [{ ...choice({}, "stop"), index: 1 }],
      [choice({}, "stop")],
    ]);
    await expectPaid(key, costOf(billed));
  });
});

function choice(delta: object, finishReason: string | null = null): object {
  return { index: 0, delta, finish_reason: finishReason };
}

function choicesOf({ body }: Reply): unknown {
  return (body as { choices: unknown }).choices;
}
