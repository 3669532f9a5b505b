import { describe, expect, test } from "bun:test";
import { openaiResponses } from "../../../src/providers/openai/openaiResponses.ts";
import { callOf, hello, notSupported } from "../conformance/reading.ts";
import { sentText } from "../../support/provider/sentText.ts";

const parameters = { type: "object", properties: {} };
const logprobs = "message.output_text.logprobs";
const schema = { type: "object", properties: { a: { type: "string" } } };

/** What is sent for a body with these fields, parsed. */
function sent(fields: object): Record<string, unknown> {
  const call = callOf(JSON.stringify({ messages: [hello], ...fields }));
  const encoded = openaiResponses.encode(call);
  expect(encoded.path).toBe("/responses");
  return JSON.parse(sentText(encoded)) as Record<string, unknown>;
}

const least = { model: "model-of-the-provider", input: [hello], store: false };

describe("a field of a chat", () => {
  /** Fields that are sent as they are. */
  const kept: Readonly<Record<string, object>> = {
    nothing: {},
    "the interface's own reasoning": { reasoning: { effort: "none" } },
    "tools of the provider's own, and functions in its own form": {
      tools: [
        { type: "web_search", filters: {} },
        { type: "function", name: "f", parameters: null },
      ],
    },
    "a choice of the provider's own": { tool_choice: { type: "web_search" } },
    "fields of the same name": {
      metadata: { a: "b" },
      user: "u",
      safety_identifier: "s",
      prompt_cache_key: "k",
      prompt_cache_retention: "24h",
      prompt_cache_options: { mode: "explicit", ttl: "30m" },
      moderation: { model: "omni-moderation-latest" },
      service_tier: "default",
      temperature: 1.7,
      top_p: 0,
    },
    "fields of the interface's own": {
      include: ["web_search_call.results"],
      truncation: "auto",
      instructions: "Be.",
    },
    "probabilities, in the interface's own words": { top_logprobs: 0, include: [logprobs] },
  };
  test.each(Object.entries(kept))("is kept: %s", (_, fields) => {
    expect(sent(fields)).toEqual({ ...least, ...fields });
  });

  const leftOut: Readonly<Record<string, object>> = {
    "a wish to be stored": { store: true },
    "plain text": { response_format: { type: "text" } },
    "no probabilities": { logprobs: false, top_logprobs: 0 },
    "an input, which the messages are": { input: "theirs" },
    "what has no counterpart": {
      n: 1,
      stop: ["a"],
      seed: 1,
      logprobs: false,
      logit_bias: { 1: 1 },
      presence_penalty: 1,
      frequency_penalty: 1,
      prediction: { type: "content", content: "x" },
      modalities: ["text"],
      audio: { voice: "x" },
      background: false,
      stream: false,
      stream_options: { include_usage: true },
    },
    null: {
      metadata: null,
      user: null,
      tools: null,
      tool_choice: null,
      response_format: null,
      verbosity: null,
      functions: null,
      prompt_cache_options: null,
      moderation: null,
    },
  };
  test.each(Object.entries(leftOut))("is left out: %s", (_, fields) => {
    expect(sent(fields)).toEqual(least);
  });

  const named = { name: "n", description: "d", strict: true };
  const grammar = { syntax: "lark", definition: "s" };
  const understood: Readonly<Record<string, readonly [given: object, expected: object]>> = {
    "a summary as the provider likes": [
      { reasoningSummary: "auto" },
      { reasoning: { summary: "auto" } },
    ],
    "a short summary": [{ reasoningSummary: "concise" }, { reasoning: { summary: "concise" } }],
    "a long summary": [{ reasoningSummary: "detail" }, { reasoning: { summary: "detailed" } }],
    "an effort with a summary, beside what the caller knows of the interface": [
      { reasoning_effort: "high", reasoningSummary: "auto", reasoning: { effort: "low", own: 1 } },
      { reasoning: { effort: "high", own: 1, summary: "auto" } },
    ],
    "a verbosity": [{ verbosity: "low" }, { text: { verbosity: "low" } }],
    "a verbosity with a form": [
      { verbosity: "low", response_format: { type: "json_object" }, text: { own: 1 } },
      { text: { own: 1, format: { type: "json_object" }, verbosity: "low" } },
    ],
    "a form after a schema": [
      { response_format: { type: "json_schema", json_schema: { ...named, schema } } },
      { text: { format: { type: "json_schema", ...named, schema } } },
    ],
    "a function": [
      { tools: [{ type: "function", function: { ...named, parameters: schema } }] },
      { tools: [{ type: "function", ...named, parameters: schema }] },
    ],
    "a function that says little, which is not strict": [
      { tools: [{ type: "function", function: { name: "f" } }] },
      { tools: [{ type: "function", name: "f", parameters, strict: false }] },
    ],
    "a custom tool with a grammar": [
      { tools: [{ type: "custom", custom: { name: "c", format: { type: "grammar", grammar } } }] },
      { tools: [{ type: "custom", name: "c", format: { type: "grammar", ...grammar } }] },
    ],
    "a choice of a custom tool": [
      { tool_choice: { type: "custom", custom: { name: "c" } } },
      { tool_choice: { type: "custom", name: "c" } },
    ],
    "a choice among tools": [
      {
        tool_choice: {
          type: "allowed_tools",
          allowed_tools: {
            mode: "auto",
            tools: [{ type: "function", function: { name: "f" } }, { type: "web_search" }],
          },
        },
      },
      {
        tool_choice: {
          type: "allowed_tools",
          mode: "auto",
          tools: [{ type: "function", name: "f" }, { type: "web_search" }],
        },
      },
    ],
    "probabilities alone": [{ logprobs: true }, { include: [logprobs] }],
    probabilities: [
      { logprobs: true, top_logprobs: 3 },
      { include: [logprobs], top_logprobs: 3 },
    ],
    "probabilities, beside what the caller includes": [
      { logprobs: true, include: ["web_search_call.results"] },
      { include: ["web_search_call.results", logprobs] },
    ],
    "probabilities that the caller includes itself, once": [
      { logprobs: true, include: [logprobs] },
      { include: [logprobs] },
    ],
    "a bound below what the provider takes": [{ max_tokens: 1 }, { max_output_tokens: 1 }],
    "usage in a stream, which is there always": [
      { stream: true, stream_options: { include_usage: true } },
      { stream: true },
    ],
    "a stream without padding": [
      { stream: true, stream_options: { include_usage: true, include_obfuscation: false } },
      { stream: true, stream_options: { include_obfuscation: false } },
    ],
  };
  test.each(Object.entries(understood))("is understood: %s", (_, [given, expected]) => {
    expect(sent(given)).toEqual({ ...least, ...expected });
  });

  const unfit: readonly (readonly [object, string])[] = [
    [{ n: 2 }, "n"],
    [{ functions: [] }, "functions"],
    // What comes behind the sequence would have to be cut out of the probabilities too.
    [{ logprobs: true, stop: "a" }, "logprobs with stop"],
    [{ logprobs: true, include: "all" }, "include"],
    [{ function_call: "none" }, "function_call"],
    [{ web_search_options: {} }, "web_search_options"],
    [{ modalities: ["text", "audio"] }, "modalities"],
    [{ tools: [5] }, "tools[0]"],
    [{ tool_choice: 5 }, "tool_choice"],
    [{ tool_choice: { type: "allowed_tools", allowed_tools: { tools: 1 } } }, "tool_choice"],
    [{ response_format: { type: "grammar" } }, "response_format"],
    // What another account could have stored.
    [{ previous_response_id: "resp_1" }, "previous_response_id"],
    [
      { prompt_cache_options: { mode: "explicit", comparison_response_id: "resp_1" } },
      "prompt_cache_options.comparison_response_id",
    ],
    [{ conversation: "conv_1" }, "conversation"],
    [{ prompt: { id: "pmpt_1" } }, "prompt"],
    [{ instructions: [{ type: "item_reference", id: "msg_1" }] }, "instructions"],
  ];

  test.each(unfit)("that means something here that it cannot: %j", (given, name) => {
    expect(() => sent(given)).toThrow(notSupported(name));
  });
});
