import { describe, expect, test } from "bun:test";
import { gemini } from "../../../src/providers/gemini/gemini.ts";
import { UnsupportedRequestError, type ChatCall } from "../../../src/providers/provider.ts";
import { hello, sentFor } from "../conformance/reading.ts";

const model = "gemini-2.5-flash";

function encoded(body: object, changes: Partial<ChatCall> = {}): Record<string, unknown> {
  return JSON.parse(sentFor(gemini.chat, body, { model, ...changes })) as Record<string, unknown>;
}

function refusalOf(body: object): unknown {
  try {
    return encoded(body);
  } catch (error) {
    expect(error).toBeInstanceOf(UnsupportedRequestError);
    return (error as UnsupportedRequestError).message;
  }
}

function contentsOf(messages: readonly object[], changes: Partial<ChatCall> = {}): unknown {
  return encoded({ messages }, changes)["contents"];
}

test("a refusal in the history is sent as text", () => {
  const refused = { role: "assistant", content: null, refusal: "No." };
  for (const content of [null, ""]) {
    expect(contentsOf([hello, { ...refused, content }, hello])).toEqual([
      { role: "user", parts: [{ text: "hello" }] },
      { role: "model", parts: [{ text: "No." }] },
      { role: "user", parts: [{ text: "hello" }] },
    ]);
  }
});

test("the user speaks first where a conversation begins with a call", () => {
  const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
  const messages = [
    { role: "system", content: "s" },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "a", content: "r" },
  ];
  expect(contentsOf(messages)).toEqual([
    { role: "user", parts: [{ text: "(no message)" }] },
    { role: "model", parts: [{ functionCall: { id: "a", name: "f", args: {} } }] },
    {
      role: "user",
      parts: [{ functionResponse: { id: "a", name: "f", response: { output: "r" } } }],
    },
  ]);
});

test("fields without a counterpart are not sent", () => {
  const body = {
    verbosity: "low",
    reasoningSummary: "auto",
    user: "u",
    prompt_cache_options: { mode: "explicit" },
    moderation: { model: "omni-moderation-latest" },
    metadata: { a: 1 },
    logprobs: true,
    logit_bias: { "1": 2 },
    store: true,
    modalities: ["text"],
    tools: [],
    tool_choice: "auto",
    stream_options: { include_usage: true },
    presence_penalty: 0,
    frequency_penalty: 0,
    temperature: null,
    n: 1,
  };
  expect(encoded(body)).toEqual({ contents: [{ role: "user", parts: [{ text: "hello" }] }] });
});

describe("the effort", () => {
  const budget = (thinkingBudget: number) => ({ thinkingBudget, includeThoughts: true });
  const level = (thinkingLevel: string) => ({ thinkingLevel, includeThoughts: true });
  test.each<[string, string, object | undefined]>([
    ["gemini-2.5-flash", "low", budget(1024)],
    ["gemini-2.5-pro", "medium", budget(8192)],
    ["models/gemini-2.5-flash-lite", "high", budget(24_576)],
    ["gemini-2.5-flash", "xhigh", budget(24_576)],
    ["gemini-2.5-flash-image", "high", undefined],
    ["gemini-2.5-flash-image-preview", "low", undefined],
    ["gemini-3-pro-preview", "low", level("LOW")],
    ["gemini-3-pro-preview", "medium", level("HIGH")],
    ["gemini-3.1-pro-preview", "medium", level("MEDIUM")],
    ["gemini-3-flash", "high", level("HIGH")],
    ["gemini-3.5-flash", "xhigh", level("HIGH")],
    ["gemini-4-pro", "low", level("LOW")],
    ["gemini-10-pro", "low", level("LOW")],
    ["gemini-flash-latest", "low", level("LOW")],
    ["gemini-flash-lite-latest", "low", level("LOW")],
    ["gemini-2.0-flash", "high", undefined],
    ["gemini-1.5-pro", "high", undefined],
    ["tunedModels/gemini-3-x", "high", undefined],
    ["gemma-3-27b-it", "high", undefined],
  ])("for %s, %s, has the form that the model takes", (name, effort, thinkingConfig) => {
    const { generationConfig } = encoded({ reasoning_effort: effort }, { model: name });
    expect(generationConfig).toEqual(thinkingConfig && { thinkingConfig });
  });

  test("is left to the model if none is given", () => {
    expect(encoded({}, { model: "gemini-3-pro" })).not.toHaveProperty("generationConfig");
  });
});

test("settings have their own names", () => {
  const body = {
    temperature: 0,
    top_p: 0.5,
    seed: 7,
    presence_penalty: 0.5,
    frequency_penalty: -1,
    n: 3,
    stop: "END",
  };
  expect(encoded(body, { outputTokensBound: 9 })["generationConfig"]).toEqual({
    candidateCount: 3,
    maxOutputTokens: 9,
    temperature: 0,
    topP: 0.5,
    stopSequences: ["END"],
    seed: 7,
    presencePenalty: 0.5,
    frequencyPenalty: -1,
  });
});

describe("native fields", () => {
  test("reach it", () => {
    const safetySettings = [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }];
    expect(encoded({ safetySettings })).toMatchObject({ safetySettings });
  });

  test("win over fields of a chat", () => {
    const thinkingConfig = { thinkingBudget: 0 };
    const body = {
      temperature: 1,
      reasoning_effort: "high",
      generationConfig: { topK: 5, thinkingConfig },
    };
    expect(encoded(body)["generationConfig"]).toEqual({ temperature: 1, topK: 5, thinkingConfig });
  });

  test.each([
    [{ cachedContent: "cachedContents/1" }, "cachedContent is not supported"],
    [{ cached_content: "cachedContents/1" }, "cached_content is not supported"],
    [{ systemInstruction: { parts: [] } }, "systemInstruction is not supported"],
    [{ system_instruction: { parts: [] } }, "system_instruction is not supported"],
    [{ generation_config: {} }, "generation_config is not supported"],
    [{ generationConfig: 1 }, "generationConfig must be an object"],
    [
      { generationConfig: { maxOutputTokens: 1e6 } },
      "generationConfig.maxOutputTokens is not supported",
    ],
    [
      { generationConfig: { candidate_count: 8 } },
      "generationConfig.candidate_count is not supported",
    ],
  ])("are refused if they cost more or name another account's data: %j", (body, message) => {
    expect(refusalOf(body)).toBe(message);
  });

  test.each([{ modalities: ["text", "audio"] }, { web_search_options: {} }])(
    "have nothing for %j, without which the answer would be another",
    (body) => {
      const [name] = Object.keys(body);
      expect(refusalOf(body)).toBe(`${name} is not supported by this model's provider`);
    },
  );

  test("that are null are accepted", () => {
    const body = { generationConfig: null, cachedContent: null, temperature: 1 };
    expect(encoded(body)["generationConfig"]).toEqual({ temperature: 1 });
  });

  test("cannot replace the conversation", () => {
    const { contents } = encoded({ contents: [{ parts: [{ fileData: { fileUri: "x" } }] }] });
    expect(contents).toEqual([{ role: "user", parts: [{ text: "hello" }] }]);
  });
});

describe("a part that is not text", () => {
  const part = (given: object) => contentsOf([{ role: "user", content: [given] }]);
  const image = (url: string) => ({ type: "image_url", image_url: { url, detail: "high" } });
  const said = (parts: object) => [{ role: "user", parts: [parts] }];

  test.each<[object, object]>([
    [
      image("data:image/webp;base64,AAAA"),
      { inlineData: { mimeType: "image/webp", data: "AAAA" } },
    ],
    [
      image("https://a.example/b.JPG?x=1"),
      { fileData: { mimeType: "image/jpeg", fileUri: "https://a.example/b.JPG?x=1" } },
    ],
    [image("https://a.example/b"), { fileData: { fileUri: "https://a.example/b" } }],
    [
      image("https://a.example/b.constructor"),
      { fileData: { fileUri: "https://a.example/b.constructor" } },
    ],
    [
      { type: "input_audio", input_audio: { data: "AAAA", format: "MP3" } },
      { inlineData: { mimeType: "audio/mp3", data: "AAAA" } },
    ],
    [
      { type: "file", file: { filename: "a", file_data: "data:application/pdf;base64,AAAA" } },
      { inlineData: { mimeType: "application/pdf", data: "AAAA" } },
    ],
  ])("is encoded: %j", (given, expected) => {
    expect(part(given)).toEqual(said(expected));
  });

  test.each([
    "https://generativelanguage.googleapis.com/v1beta/files/abc",
    "HTTPS://x@GENERATIVELANGUAGE.googleapis.com./v1beta/files/abc",
    "http://generativelanguage.googleapis.com:443/files/abc",
    "https://[nonsense",
  ])("must not be a file of the operator's account: %s", (url) => {
    expect(refusalOf({ messages: [{ role: "user", content: [image(url)] }] })).toBe(
      "messages[0].content[0] is not supported by this model's provider",
    );
  });

  test("is refused in a message of the assistant", () => {
    const content = [image("data:image/png;base64,AAAA")];
    expect(refusalOf({ messages: [hello, { role: "assistant", content }] })).toBe(
      "messages[1].content[0] of the type image_url is not supported by this model's provider",
    );
  });
});

test("an audio answer of another provider is refused", () => {
  const spoken = { role: "assistant", content: "x", audio: { id: "audio_1" } };
  expect(refusalOf({ messages: [hello, spoken] })).toBe(
    "messages[1].audio is not supported by this model's provider",
  );
});

describe("instructions", () => {
  test("alone become the user's content", () => {
    const messages = [{ role: "system", content: "Be brief." }];
    expect(encoded({ messages })).toEqual({
      contents: [{ role: "user", parts: [{ text: "Be brief." }] }],
    });
  });

  test("with pictures are refused", () => {
    const content = [{ type: "image_url", image_url: { url: "https://a.example/b.png" } }];
    expect(refusalOf({ messages: [{ role: "system", content }, hello] })).toBe(
      "messages[0].content[0] of the type image_url is not supported by this model's provider",
    );
  });
});
