import { describe, expect, test } from "bun:test";
import { checkChatRequest } from "../../src/contract/chat/chatRequest.ts";
import { refusalOf } from "./refusal.ts";

type Fields = Record<string, unknown>;

const rules = {
  unknownFields: "forward",
  extraReasoningEfforts: [],
  refusedFields: [],
  refusedTools: [],
  allowedTools: ["modalities", "audio"],
} as const;
const user = { role: "user", content: "hello" };
const measured = (fields: Fields) =>
  checkChatRequest({ model: "m", messages: [user], ...fields }, rules);
const plainBytes = measured({}).promptSize.textBytes;

/** What these fields of a message add to the measure of a prompt. */
function added(fields: Fields): { bytes: number; others: number; isWhole: boolean } {
  const request = measured({ messages: [{ ...user, ...fields }] });
  return {
    bytes: request.promptSize.textBytes - plainBytes,
    others: request.promptSize.nonTextParts,
    isWhole: !request.needsWholeContext,
  };
}

const long = "слово ".repeat(1000);
const longBytes = Buffer.byteLength(long);
const picture = `data:image/png;base64,${"A".repeat(40_000)}`;

describe("the measure of a message counts the text of", () => {
  test.each([
    ["its content", { content: `hello${long}` }],
    ["reasoning_content", { reasoning_content: long }],
    ["reasoning", { reasoning: long }],
    ["a field that nobody knows", { whatever: long }],
    ["a refusal", { refusal: long }],
    ["what only looks like a picture", { reasoning: `data:image/png;base64,${long}` }],
  ])("%s", (_, fields) => {
    const { bytes, others, isWhole } = added({ role: "assistant", ...fields });
    expect(bytes - longBytes).toBeOneOf([0, "data:image/png;base64,".length]);
    expect([others, isWhole]).toEqual([0, true]);
  });

  test.each([
    ["a call's arguments", { function_call: { name: "f", arguments: long } }, 14],
    ["calls", { tool_calls: [{ function: { name: "f", arguments: long } }] }, 22],
    ["steps of reasoning", { reasoning_details: [{ type: "reasoning.text", text: long }] }, 22],
    ["a call that looks like a picture", { function_call: { url: picture, arguments: long } }, 0],
    ["a picture's detail", { x: { url: picture, detail: long, more: long } }, 0],
  ])("%s, with their keys", (_, fields, around) => {
    const { bytes } = added({ role: "assistant", ...fields });
    if (around > 0) expect(bytes).toBe(longBytes + around);
    else expect(bytes).toBeGreaterThan(longBytes);
  });
});

test("the measure of a message counts its role for nothing, and a number neither", () => {
  expect(added({ role: "assistant", weight: 1, prefix: true, audio: null })).toEqual({
    bytes: 0,
    others: 0,
    isWhole: true,
  });
});

describe("a picture beside a message's content is a part that is not text", () => {
  const image = { type: "image_url", image_url: { url: picture } };

  test.each([
    ["among images", { images: [image, image] }, 2, 0],
    ["among images by address", { images: [{ image_url: { url: "https://x" } }] }, 1, 0],
    ["deep inside", { annotations: [{ file: { content: [image] } }] }, 1, 51],
    ["with its detail", { x: { url: picture, detail: "high" } }, 1, 0],
  ])("%s", (_, fields, others, bytesMax) => {
    const of = added({ role: "assistant", ...fields });
    expect([of.others, of.isWhole]).toEqual([others, false]);
    expect(of.bytes).toBeLessThanOrEqual(bytesMax);
  });
});

describe("what stands beside the messages", () => {
  const bytes = (fields: Fields) => measured(fields).promptSize.textBytes - plainBytes;

  test.each<[string, Fields, number]>([
    ["instructions", { instructions: long }, 0],
    ["the form of an answer", { text: { format: long } }, "format".length],
    ["a schema", { response_format: { json_schema: long } }, "json_schema".length],
    ["documents", { documents: [{ title: "a", text: long }] }, "titleatext".length],
    ["the words of a template", { chat_template_kwargs: { date: long } }, "date".length],
    ["a field that nobody knows", { whatever: long }, 0],
    ["one that every object has", JSON.parse(`{"__proto__":${JSON.stringify(long)}}`), 0],
  ])("is measured where a model may read it: %s", (_, fields, around) => {
    expect(bytes(fields)).toBe(longBytes + around);
  });

  test("is not measured where it is a setting of the convention's", () => {
    const settings = {
      stream: true,
      stream_options: { include_usage: true, include_obfuscation: false },
      stop: ["one", "two"],
      reasoning_effort: "medium",
      reasoningSummary: "detail",
      verbosity: "high",
      logit_bias: { 50256: -100 },
      metadata: { topic: long },
      modalities: ["text", "audio"],
      audio: { voice: "alloy", format: "mp3" },
      parallel_tool_calls: false,
      prediction: { type: "content", content: long },
      prompt_cache_key: "one",
      prompt_cache_retention: "24h",
      safety_identifier: "one",
      service_tier: "default",
      tool_choice: { type: "function", function: { name: "f" } },
      user: long,
    };
    expect(bytes(settings)).toBe(0);
  });

  test("costs nothing as a switch or a number of a provider's own", () => {
    expect(bytes({ top_k: 40, min_p: 0.1, enable_thinking: false, safe_prompt: null })).toBe(0);
  });
});

test("a message nested a million deep is measured: no recursion", () => {
  const depth = 1_000_000;
  const deep: unknown = JSON.parse(`${"[".repeat(depth)}"abc"${"]".repeat(depth)}`);
  expect(added({ deep }).bytes).toBe(3);
}, 60_000);

describe("a stored object that a part of a message names", () => {
  const asks = (...parts: Fields[]) => measured({ messages: [{ ...user, content: parts }] });

  test.each<[string, Fields, string[]]>([
    ["a file", { type: "file", file: { file_id: "file-1" } }, ["file-1"]],
    ["a file by an id of its own", { type: "file", file_id: "file-1" }, ["file-1"]],
    ["an image", { type: "image_file", image_file: { file_id: "file-1" } }, ["file-1"]],
    ["a document", { type: "document", source: { type: "file", file_id: "file-1" } }, ["file-1"]],
    ["a text's", { type: "text", text: "x", file_id: "file-1" }, ["file-1"]],
    ["a list", { type: "file", file: { file_id: ["file-1", "file-2"] } }, ["file-1", "file-2"]],
    ["none", { type: "file", file: { file_data: "x", file_id: null } }, []],
  ])("is known: %s", (_, part, ids) => {
    expect([...asks({ type: "text", text: "x" }, part).objectIds].toSorted()).toEqual(ids);
  });

  test.each<[string, Fields]>([
    ["file_id", { type: "file", file: { file_id: 5 } }],
    ["file_id", { type: "file", file: { file_id: [true] } }],
    ["file_id", { type: "file", file_id: false }],
  ])("has a string for its %s: %j", async (name, part) => {
    const refusal = await refusalOf(() => asks(part));
    expect([refusal?.status, refusal?.message]).toEqual([400, `${name} must be a string`]);
  });
});

test("a voice that a chat asks for by its id is a stored object, and one by its name is none", async () => {
  const asked = (voice: unknown) => measured({ audio: { voice, format: "mp3" } });
  expect(asked({ id: "voice_1" }).objectIds).toEqual(["voice_1"]);
  for (const voice of ["alloy", { id: null }, null]) expect(asked(voice).objectIds).toEqual([]);
  const refusal = await refusalOf(() => asked({ id: ["voice_1"] }));
  expect([refusal?.status, refusal?.message]).toEqual([400, "audio.voice.id must be a string"]);
});

test("a recording that a message names has a string for its id", async () => {
  const messages = [{ role: "assistant", content: "x", audio: { id: ["audio_1"] } }];
  const refusal = await refusalOf(() => measured({ messages }));
  expect([refusal?.status, refusal?.message]).toEqual([400, "audio.id must be a string"]);
});
