import { describe, expect, test } from "bun:test";
import { ask, call } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { sendMessage } from "../../support/gateway/messagesCalls.ts";
import { unsold } from "../../support/gateway/noPrice.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { scrape } from "../../support/gateway/scrape.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { geminiEvent, saying } from "../../support/provider/geminiAnswers.ts";
import { json, stream } from "../../support/provider/scriptedProvider.ts";

/** Thousandths of a rouble for 1,000,000 tokens. The usual prices of a token are 25, 2.5 and 200 roubles. */
const sold = {
  rub_audio_input_per_1m: 75_000,
  rub_cached_audio_input_per_1m: 7500,
  rub_image_input_per_1m: 40_000,
  rub_audio_output_per_1m: 800_000,
  rub_image_output_per_1m: 3_000_000,
};

const providers = ["openai", "gemini", "claude"] as const;
const at = openBefore(providers, (urls) => ({
  providers: {
    openai: urls.openai,
    gemini: { base_url: urls.gemini, kind: "gemini" },
    claude: { base_url: urls.claude, kind: "anthropic" },
  },
  models: (["openai", "gemini", "claude"] as const).flatMap((provider) => [
    { id: provider, routes: [{ provider, responses: false }], settings: sold },
    { id: `${provider}-bare`, routes: [{ provider, responses: false }] },
  ]),
  sections: { metrics: { listen: "127.0.0.1:0" } },
}));
const key = (): Promise<TestKey> => at.gateway.key({ balance: 1_000_000n * 1_000_000_000n });
const sentOf = () => providers.reduce((sum, name) => sum + at.providers[name].requests.length, 0);

const base64 = "UklGRg==";
const audio = { type: "input_audio", input_audio: { data: base64, format: "wav" } };
const saidBy = (...content: readonly object[]) => ({ messages: [{ role: "user", content }] });

/** Chats with audio, however it is named. */
const spoken: readonly (readonly [name: string, body: object])[] = [
  ["a part", saidBy(audio)],
  ["an address", saidBy({ type: "audio_url", audio_url: { url: "https://example.com/a" } })],
  ["a file", saidBy({ type: "file", file: { file_data: `data:audio/mpeg;base64,${base64}` } })],
  ...[`data: audio/mpeg;base64,${base64}`, `data:application/ogg;base64,${base64}`].map(
    (url) => [url.slice(0, 22), saidBy({ type: "image_url", image_url: { url } })] as const,
  ),
  [
    "a picture that is audio",
    saidBy({ type: "image_url", image_url: { url: `DATA:Audio/wav;base64,${base64}` } }),
  ],
  [
    "a picture at the address of audio",
    saidBy({ type: "image_url", image_url: { url: "https://example.com/a.MP3?x=1" } }),
  ],
  [
    "a picture of an earlier answer that is audio",
    {
      messages: [
        { role: "user", content: "hello" },
        {
          role: "assistant",
          content: "x",
          images: [{ image_url: { url: `data:audio/wav;base64,${base64}` } }],
        },
        { role: "user", content: "hello" },
      ],
    },
  ],
  [
    "the result of a tool",
    {
      messages: [
        { role: "user", content: "hello" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "c", content: [audio] },
      ],
    },
  ],
];
const video = saidBy({ type: "file", file: { file_data: `data:video/mp4;base64,${base64}` } });

describe("audio of a prompt without a price is refused, and nothing is sent", () => {
  const reason = unsold("input_audio", "rub_audio_input_per_1m");
  test.each(spoken)("%s", async (_, body) => {
    const of = await key();
    for (const model of ["openai-bare", "gemini-bare"]) {
      const { status, text } = await call(at.gateway, of, { body: ask({ model, ...body }) });
      expect([status, text]).toEqual([
        400,
        expect.stringContaining(`audio in a prompt is not supported: ${reason}`),
      ]);
    }
    expect(sentOf()).toBe(0);
    expect(await at.gateway.records(of, 0)).toEqual([]);
  });

  test("also in a response that is written as a chat, and in Messages", async () => {
    const of = await key();
    const input = [{ role: "user", content: [audio] }];
    const answers = [
      await respond(at.gateway, of, { model: "gemini-bare", input, store: false }),
      await sendMessage(at.gateway, of, { model: "gemini-bare", ...saidBy(audio) }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([400, 400]);
    expect(sentOf()).toBe(0);
  });

  test("and video, whose audio Google bills apart", async () => {
    at.providers.openai.answer = usual;
    const of = await key();
    const { status, text } = await call(at.gateway, of, {
      body: ask({ model: "gemini-bare", ...video }),
    });
    expect([status, text]).toEqual([
      400,
      expect.stringContaining(`video in a prompt is not supported: ${reason}`),
    ]);
    expect(sentOf()).toBe(0);
    // Other providers bill video like text.
    expect(
      (await call(at.gateway, of, { body: ask({ model: "openai-bare", ...video }) })).status,
    ).toBe(200);
  });
});

describe("audio and images of an answer without a price are refused, and nothing is sent", () => {
  test.each<[string, object, string, string]>([
    ["openai-bare", { modalities: ["text", "audio"] }, "modalities", "rub_audio_output_per_1m"],
    ["openai-bare", { audio: { voice: "alloy" } }, "audio", "rub_audio_output_per_1m"],
    ["openai-bare", { modalities: ["image"] }, "modalities", "rub_image_output_per_1m"],
    ["gemini-bare", { modalities: ["text", "image"] }, "modalities", "rub_image_output_per_1m"],
    [
      "gemini-bare",
      { generationConfig: { responseModalities: ["IMAGE"] } },
      "generationConfig.responseModalities",
      "rub_image_output_per_1m",
    ],
  ])("%s: %j", async (model, fields, name, missing) => {
    const { status, text } = await call(at.gateway, await key(), {
      body: ask({ model, ...fields }),
    });
    expect([status, text]).toEqual([
      400,
      expect.stringContaining(`${name} is not supported: ${unsold(name, missing)}`),
    ]);
    expect(sentOf()).toBe(0);
  });

  test("audio of Google is refused although it has a price: a chat has no place for it", async () => {
    const generationConfig = { responseModalities: ["AUDIO"] };
    const body = ask({ model: "gemini", generationConfig });
    expect((await call(at.gateway, await key(), { body })).status).toBe(400);
    const asChat = ask({ model: "gemini", modalities: ["audio"] });
    expect((await call(at.gateway, await key(), { body: asChat })).status).toBe(400);
    expect(sentOf()).toBe(0);
  });
});

/** 100 tokens of the prompt: 40 cached, of them 10 of audio and 5 of images; of the others 20 of audio and 15 of images. */
const chatUsage = {
  prompt_tokens: 100,
  completion_tokens: 50,
  total_tokens: 150,
  prompt_tokens_details: {
    cached_tokens: 40,
    audio_tokens: 30,
    image_tokens: 20,
    cached_tokens_details: { audio_tokens: 10, image_tokens: 5 },
  },
  completion_tokens_details: { audio_tokens: 30, image_tokens: 5 },
};
const counts = {
  promptTokens: 100,
  cachedTokens: 40,
  audioInputTokens: 20,
  cachedAudioTokens: 10,
  imageInputTokens: 15,
  completionTokens: 50,
  audioOutputTokens: 30,
  imageOutputTokens: 5,
};
const charge =
  25n * 25_000n +
  30n * 2500n +
  20n * 75_000n +
  10n * 7500n +
  15n * 40_000n +
  15n * 200_000n +
  30n * 800_000n +
  5n * 3_000_000n;
/** The same at the prices of a model that has none for audio and images. Audio of the cache has the price of audio. */
const bareCharge = 60n * 25_000n + 30n * 2500n + 10n * 25_000n + 50n * 200_000n;

const usageMetadata = {
  promptTokenCount: 90,
  toolUsePromptTokenCount: 10,
  cachedContentTokenCount: 40,
  candidatesTokenCount: 40,
  thoughtsTokenCount: 10,
  totalTokenCount: 150,
  promptTokensDetails: [
    { modality: "TEXT", tokenCount: 40 },
    { modality: "AUDIO", tokenCount: 25 },
    { modality: "IMAGE", tokenCount: 20 },
    { modality: "VIDEO", tokenCount: 5 },
  ],
  toolUsePromptTokensDetails: [
    { modality: "AUDIO", tokenCount: 5 },
    { modality: "TEXT", tokenCount: 5 },
  ],
  cacheTokensDetails: [
    { modality: "AUDIO", tokenCount: 10 },
    { modality: "IMAGE", tokenCount: 5 },
    { modality: "TEXT", tokenCount: 25 },
  ],
  candidatesTokensDetails: [
    { modality: "AUDIO", tokenCount: 30 },
    { modality: "IMAGE", tokenCount: 5 },
    { modality: "TEXT", tokenCount: 5 },
  ],
};

function answers(
  geminiUsage: object = usageMetadata,
  parts: readonly object[] = [{ text: "Hello" }],
): void {
  const completion = {
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [
      { index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" },
    ],
    usage: chatUsage,
  };
  const chunk = (choice: object, more: object = {}) =>
    `data: ${JSON.stringify({ ...completion, object: "chat.completion.chunk", usage: null, choices: [choice], ...more })}\n\n`;
  at.providers.openai.answer = (peer, request) =>
    (request.json["stream"] === true
      ? stream(
          chunk({ index: 0, delta: { role: "assistant", content: "Hello" }, finish_reason: null }),
          chunk({ index: 0, delta: {}, finish_reason: "stop" }),
          chunk({}, { choices: [], usage: chatUsage }),
          "data: [DONE]\n\n",
        )
      : json(completion))(peer, request);
  const whole = saying(parts, "STOP", { usageMetadata: geminiUsage });
  at.providers.gemini.answer = (peer, request) =>
    (request.requestLine.includes(":streamGenerateContent")
      ? stream(geminiEvent(whole))
      : json(whole))(peer, request);
}

describe.each(["openai", "gemini"])("over %s", (provider) => {
  test.each([{}, { stream: true, stream_options: { include_usage: true } }])(
    "audio and images are charged at their prices: %j",
    async (form) => {
      answers();
      const of = await key();
      const body = ask({ model: provider, ...saidBy(audio), ...form });
      const { status, text } = await call(at.gateway, of, { body });
      expect(status).toBe(200);
      expect(await at.gateway.records(of, 1)).toMatchObject([{ charge, ...counts }]);
      expect(text).toContain('"audio_tokens":30');
      const receipt = await receiptOf(of);
      expect(receipt).toMatchObject({
        audio_input_tokens: 20,
        cached_audio_input_tokens: 10,
        image_input_tokens: 15,
        audio_output_tokens: 30,
        image_output_tokens: 5,
        ...sold,
      });
      expect(receipt).not.toHaveProperty("x_posts");
    },
  );

  test("those of a model without their prices cost what text costs, and are told", async () => {
    answers();
    await at.gateway.advance(3_600_000);
    const since = at.gateway.log.length;
    const of = await key();
    await call(at.gateway, of, { body: ask({ model: `${provider}-bare` }) });
    expect(await at.gateway.records(of, 1)).toMatchObject([{ charge: bareCharge, ...counts }]);
    const told = at.gateway.log.slice(since).filter(({ event }) => event === "service_expensive");
    const names = [
      "audio_input_tokens",
      "cached_audio_input_tokens",
      "audio_output_tokens",
      "image_output_tokens",
    ];
    expect(told.map(({ problem }) => problem)).toEqual(names);
    const metrics = await scrape(at.gateway.metricsUrl);
    for (const service of names)
      expect(
        metrics.value("tollgate_unpriced_answers_total", {
          provider,
          model: `${provider}-bare`,
          service,
        }),
      ).toBeGreaterThan(0);
  });
});

async function receiptOf(of: TestKey): Promise<unknown> {
  const [record] = await at.gateway.records(of, 1);
  const answer = await fetch(`${at.gateway.url}/v1/requests/${record?.id}`, {
    headers: { authorization: `Bearer ${of.key}` },
  });
  return await answer.json();
}

describe("pictures that Gemini makes unasked", () => {
  const picture = { inlineData: { mimeType: "image/png", data: base64 } };
  const { candidatesTokensDetails: _, ...withoutDetails } = usageMetadata;
  const rest = 25n * 25_000n + 30n * 2500n + 20n * 75_000n + 10n * 7500n + 15n * 40_000n;

  test("are charged at the price of images", async () => {
    const metadata = {
      ...usageMetadata,
      candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 40 }],
    };
    answers(metadata, [{ text: "Here" }, picture]);
    const of = await key();
    await call(at.gateway, of, { body: ask({ model: "gemini" }) });
    // The reasoning is text.
    const cost = rest + 10n * 200_000n + 40n * 3_000_000n;
    expect(await at.gateway.records(of, 1)).toMatchObject([
      { charge: cost, imageOutputTokens: 40 },
    ]);
  });

  test("without the tokens of each modality are all of the answer", async () => {
    answers(withoutDetails, [picture]);
    const of = await key();
    await call(at.gateway, of, { body: ask({ model: "gemini" }) });
    expect(await at.gateway.records(of, 1)).toMatchObject([{ imageOutputTokens: 40 }]);
  });

  test("are held for", async () => {
    answers();
    const of = await key();
    // Both bodies have the same length.
    for (const [model, text] of [
      ["gemini-bare", "hello"],
      ["gemini", "hello hell"],
    ]) {
      const messages = [{ role: "user", content: text }];
      await call(at.gateway, of, { body: ask({ model, max_tokens: 1000, messages }) });
    }
    const [priced, bare] = await at.gateway.records(of, 2);
    const prompt = (bare?.hold ?? 0n) - 1000n * 200_000n;
    // The prompt may be images, which cost more than text.
    expect(priced?.hold).toBe((prompt * 40n) / 30n + 1000n * 3_000_000n);
  });
});

test("audio is held at its price only where it is asked for", async () => {
  answers();
  const of = await key();
  for (const fields of [{}, { modalities: ["text", "audio"] }])
    await call(at.gateway, of, { body: ask({ model: "openai", max_tokens: 100, ...fields }) });
  const [asked, plain] = await at.gateway.records(of, 2);
  expect((asked?.hold ?? 0n) - (plain?.hold ?? 0n)).toBeLessThan(100n * 800_000n);
  await call(at.gateway, of, { body: ask({ model: "openai", max_tokens: 100, ...saidBy(audio) }) });
  const [spokenTo] = await at.gateway.records(of, 3);
  expect(spokenTo?.hold).toBeGreaterThan(plain?.hold ?? 0n);
});
