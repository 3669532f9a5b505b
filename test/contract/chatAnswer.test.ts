import { describe, expect, test } from "bun:test";
import {
  bearsContent,
  failureChunk,
  onlyListedChunkFields,
  onlyListedFields,
  type ChatChunk,
  type Delta,
  type UnbilledCompletion,
} from "../../src/contract/chat/chatAnswer.ts";
import type { FinishReason } from "../../src/contract/chat/finishReason.ts";
import { upstreamFailure } from "../../src/contract/errors.ts";

const head = { id: "c-1", created: 1_700_000_000, model: "m" };

function chunk(delta: Delta, finishReason: FinishReason | null = null): ChatChunk {
  return {
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  };
}

describe("a choice of a chunk bears content", () => {
  const rows: [name: string, delta: Delta, reason: FinishReason | null, expected: boolean][] = [
    ["not with a role alone", { role: "assistant" }, null, false],
    ["not with an empty text", { role: "assistant", content: "" }, null, false],
    ["not with empty unknown fields", { refusal: null, tool_calls: [] }, null, false],
    ["not with nothing", {}, null, false],
    ["with a text", { content: " " }, null, true],
    ["with reasoning", { reasoning_content: "hm" }, null, true],
    ["with a tool call", { tool_calls: [{ index: 0 }] }, null, true],
    ["with a finish reason", {}, "stop", true],
  ];
  test.each(rows)("%s", (_, delta, finish_reason, expected) =>
    expect(bearsContent({ delta, finish_reason })).toBe(expected),
  );
});

test("the chunk of a failed stream has the chunk's form and an error of the contract's", () => {
  expect(failureChunk(chunk({ content: "secret" }), upstreamFailure)).toEqual({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta: {}, logprobs: false, finish_reason: "error" }],
    error: { message: "upstream provider failure", type: "provider_error" },
  });
});

test("an answer is reduced to the fields of the contract, and is not changed itself", () => {
  const answer: UnbilledCompletion = {
    ...head,
    object: "chat.completion",
    system_fingerprint: "fp",
    choices: [
      {
        index: 0,
        finish_reason: "stop",
        logprobs: null,
        message: { role: "assistant", content: "a", reasoning_content: "b", tool_calls: [] },
      },
    ],
  };
  const before = structuredClone(answer);
  expect(onlyListedFields(answer)).toEqual({
    ...head,
    object: "chat.completion",
    choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "a" } }],
  });
  expect(answer).toEqual(before);
});

test("so is a chunk", () => {
  const open: ChatChunk = {
    ...chunk({ content: "a", reasoning_content: "b" }),
    service_tier: "x",
    error: null,
  };
  expect(onlyListedChunkFields(open)).toEqual(chunk({ content: "a" }));
  expect(onlyListedChunkFields(chunk({ role: "assistant" }))).toEqual(chunk({ role: "assistant" }));
});
