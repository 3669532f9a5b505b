import { describe, expect, test } from "bun:test";
import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import { hello, sentFor } from "../conformance/reading.ts";

interface Thoughts {
  readonly thinking?: unknown;
  readonly output_config?: unknown;
}

function thoughtsOf(model: string, fields: object): Thoughts {
  const sent = sentFor(anthropic.chat, { reasoning_effort: "high", ...fields }, { model });
  const { thinking, output_config } = JSON.parse(sent) as Thoughts;
  return { thinking, output_config };
}

const nothing = { thinking: undefined, output_config: undefined };
const budget = (tokens: number) => ({
  thinking: { type: "enabled", budget_tokens: tokens },
  output_config: undefined,
});
const adaptive = (effort: string) => ({
  thinking: { type: "adaptive", display: "summarized" },
  output_config: { effort },
});

describe("an effort, in the form that the model takes", () => {
  test.each([
    "claude-3-7-sonnet-20250219",
    "claude-sonnet-4-20250514",
    "claude-opus-4-1",
    "claude-sonnet-4-5-20250929",
    "anthropic/claude-haiku-4.5",
    "claude-opus-4@20250514",
    "glm-4.6",
  ])("%s gets a budget", (model) => {
    expect(thoughtsOf(model, {})).toEqual(budget(16_384));
  });

  test.each([
    "claude-opus-4-6",
    "us.anthropic.claude-sonnet-4-6-20260101-v1:0",
    "anthropic/claude-opus-4.7",
    "claude-opus-5",
    "claude-fable-5-1",
    "claude-mythos-preview",
    "claude-haiku-10-2-20300101",
  ])("%s gets the effort, and shows its reasoning", (model) => {
    expect(thoughtsOf(model, {})).toEqual(adaptive("high"));
  });

  test.each(["claude-2.1", "claude-3-opus-20240229", "claude-3-5-haiku-latest"])(
    "%s does not think",
    (model) => expect(thoughtsOf(model, {})).toEqual(nothing),
  );

  test("the highest effort has the model's name for it", () => {
    const highest = { reasoning_effort: "xhigh" };
    expect(thoughtsOf("claude-opus-4-6", highest)).toEqual(adaptive("max"));
    expect(thoughtsOf("claude-opus-4-7", highest)).toEqual(adaptive("xhigh"));
  });

  test("none is none", () => {
    expect(thoughtsOf("claude-opus-4-5", { reasoning_effort: null })).toEqual(nothing);
    expect(thoughtsOf("claude-opus-4-6", { reasoning_effort: null })).toEqual(nothing);
  });
});

describe("a budget", () => {
  test.each([
    [1365, undefined],
    [1366, 1024],
    [2000, 1500],
    [21_844, 16_383],
    [100_000, 16_384],
  ])("within a bound of %d is %p, which leaves tokens for the answer", (bound, tokens) => {
    expect(thoughtsOf("claude-opus-4-5", { max_tokens: bound })).toEqual(
      tokens === undefined ? nothing : budget(tokens),
    );
  });
});

const tool = { type: "function", function: { name: "f" } };
const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
const calling = { role: "assistant", content: null, tool_calls: [call] };
const answered = { role: "tool", tool_call_id: "a", content: "1" };
const hidden = { type: "redacted_thinking", data: "EmwK" };
const thinking_blocks = [{ type: "thinking", thinking: "Hm.", signature: "sig" }];

describe("thinking stays off where the interface would refuse the request with it:", () => {
  const off: Readonly<Record<string, object>> = {
    "a temperature": { temperature: 0.5 },
    "a top_p": { top_p: 0.9 },
    "any tool that must be called": { tools: [tool], tool_choice: "required" },
    "a tool that must be called": {
      tools: [tool],
      tool_choice: { type: "function", function: { name: "f" } },
    },
    "calls whose thinking blocks were lost": { messages: [hello, calling, answered] },
    "calls of which the first lost its thinking block": {
      messages: [hello, calling, answered, { ...calling, thinking_blocks }, answered],
    },
  };
  test.each(Object.entries(off))("%s", (_, fields) => {
    expect(thoughtsOf("claude-opus-4-5", fields)).toEqual(nothing);
    expect(thoughtsOf("claude-opus-4-6", fields)).toEqual({
      thinking: undefined,
      output_config: { effort: "high" },
    });
  });

  const on: Readonly<Record<string, object>> = {
    "the usual temperature": { temperature: 1 },
    "a top_p that is allowed": { top_p: 0.95 },
    tools: { tools: [tool], tool_choice: "auto" },
    "calls with their thinking blocks": {
      messages: [hello, { ...calling, thinking_blocks }, answered],
    },
    "calls with a redacted thinking block": {
      messages: [hello, { ...calling, thinking_blocks: [hidden] }, answered],
    },
    "calls that continue earlier thinking": {
      messages: [hello, { ...calling, thinking_blocks }, answered, calling, answered],
    },
    "calls that were answered before": {
      messages: [hello, calling, answered, { role: "assistant", content: "x" }, hello],
    },
  };
  test.each(Object.entries(on))("but thinking stays on with %s", (_, fields) => {
    expect(thoughtsOf("claude-opus-4-5", fields)).toEqual(budget(16_384));
    expect(thoughtsOf("claude-opus-4-6", fields)).toEqual(adaptive("high"));
  });

  test("text before the reasoning of a call turns off a budget only", () => {
    const late = [{ ...thinking_blocks[0], after: { characters: 7, calls: 0 } }];
    const messages = [hello, { ...calling, content: "I look.", thinking_blocks: late }, answered];
    expect(thoughtsOf("claude-opus-4-5", { messages })).toEqual(nothing);
    expect(thoughtsOf("claude-opus-4-6", { messages })).toEqual(adaptive("high"));
    // What demands it of Claude is not known of those who copied its interface.
    expect(thoughtsOf("glm-4.6", { messages })).toEqual(budget(16_384));
  });

  test("a thinking field of the caller is not changed", () => {
    const thinking = { type: "disabled" };
    expect(thoughtsOf("claude-opus-4-5", { thinking })).toEqual({ ...nothing, thinking });
    expect(thoughtsOf("claude-opus-4-5", { thinking: null })).toEqual(budget(16_384));
  });
});
