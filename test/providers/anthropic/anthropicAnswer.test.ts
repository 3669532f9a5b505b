import { describe, expect, test } from "bun:test";
import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import { AnswerError, type ChatEvent } from "../../../src/providers/provider.ts";

type Fields = Readonly<Record<string, unknown>>;

const usage = { input_tokens: 5, output_tokens: 7 };
const plain = { prompt: 5, cached: 0, cacheWrite: 0, completion: 7 };

function read(message: object) {
  return anthropic.chat.read(JSON.stringify({ type: "message", content: [], ...message }));
}

function messageOf(...content: readonly unknown[]): unknown {
  return (read({ content }).completion["choices"] as { message: unknown }[])[0]?.message;
}

/** What comes of events, one after the other, without those of which nothing comes. */
function events(...list: readonly object[]): ChatEvent[] {
  const readEvent = anthropic.chat.events();
  return list
    .map((data) => readEvent({ event: undefined, data: JSON.stringify(data) }))
    .filter(({ kind }) => kind !== "nothing");
}

function deltasOf(list: readonly ChatEvent[]): unknown[] {
  return list.map((event) => {
    if (event.kind !== "chunk") return event.kind;
    return (event.chunk["choices"] as { delta: unknown }[])[0]?.delta;
  });
}

const started = (reported?: object) => ({ type: "message_start", message: { usage: reported } });
const opened = (index: number, block: object) => ({
  type: "content_block_start",
  index,
  content_block: block,
});
const added = (index: number, delta: object) => ({ type: "content_block_delta", index, delta });
const stopped = (index: number) => ({ type: "content_block_stop", index });
const ended = (stopReason: string | null, reported?: unknown) => ({
  type: "message_delta",
  delta: { stop_reason: stopReason },
  usage: reported,
});
const figures = (event: ChatEvent | undefined) => {
  if (event?.kind !== "chunk" || event.usage === undefined) return undefined;
  const { promptTokens: prompt, cachedTokens: cached, cacheWriteTokens: cacheWrite } = event.usage;
  return { prompt, cached, cacheWrite, completion: event.usage.completionTokens };
};

describe("the explanation of a refusal", () => {
  const explained = (explanation: unknown) => ({ type: "refusal", category: "cyber", explanation });
  const words = "This request could enable cyber harm.";

  test("is its refusal, in JSON and at the end of a stream, and costs what is reported", () => {
    const reported = { input_tokens: 5, output_tokens: 0 };
    const why = { stop_reason: "refusal", stop_details: explained(words) };
    const { completion, usage: found } = read({ ...why, usage: reported });
    const last = events({ type: "message_delta", delta: why, usage: reported });
    const choices = completion["choices"] as { message: unknown }[];
    expect(choices[0]?.message).toEqual({ role: "assistant", content: "", refusal: words });
    expect(deltasOf(last)).toEqual([{ refusal: words }]);
    expect([found?.completionTokens, figures(last[0])?.completion]).toEqual([0, 0]);
  });

  test.each([
    ["refusal", explained(null)],
    ["refusal", explained("")],
    ["refusal", explained({ text: words })],
    ["refusal", null],
    ["end_turn", explained(words)],
  ])("is not invented: %s with %j", (stopReason, details) => {
    const why = { stop_reason: stopReason, stop_details: details };
    const choices = read(why).completion["choices"] as { message: unknown }[];
    expect(choices[0]?.message).toEqual({ role: "assistant", content: "" });
    expect(deltasOf(events({ type: "message_delta", delta: why }))).toEqual([{}]);
  });
});

describe("a message", () => {
  test("joins several texts, and ignores blocks of other kinds", () => {
    const server = { type: "server_tool_use", id: "a", name: "web_search", input: {} };
    expect(
      messageOf({ type: "text", text: "a" }, server, { type: "text", text: "b" }, null),
    ).toEqual({ role: "assistant", content: "ab" });
  });

  test("shows its reasoning, with the signed blocks to send back", () => {
    const thought = { type: "thinking", thinking: "Hm.", signature: "sig" };
    const hidden = { type: "redacted_thinking", data: "EmwK" };
    const unsigned = { type: "thinking", thinking: " So.", signature: "" };
    expect(messageOf(thought, hidden, unsigned)).toEqual({
      role: "assistant",
      content: "",
      reasoning_content: "Hm. So.",
      thinking_blocks: [thought, hidden],
    });
  });

  test("calls with arguments as the model wrote them", () => {
    const text =
      '{"content":[{"type":"tool_use","id":"a","name":"f","input":{"id":12345678901234567890}}]}';
    expect(anthropic.chat.read(text).completion["choices"]).toMatchObject([
      { message: { tool_calls: [{ function: { arguments: '{"id":12345678901234567890}' } }] } },
    ]);
  });

  test("whose input is nested too deep is refused at once", () => {
    const deep = `{"content":[{"type":"tool_use","id":"a","name":"f","input":{"a":${"[".repeat(60_000)}${"]".repeat(60_000)}}}]}`;
    expect(() => anthropic.chat.read(deep)).toThrow(AnswerError);
  });
});

describe("usage", () => {
  test.each<[object | undefined, object | undefined]>([
    [usage, plain],
    [{ ...usage, cache_read_input_tokens: null, cache_creation_input_tokens: null }, plain],
    [
      { ...usage, cache_read_input_tokens: 20, cache_creation_input_tokens: 3 },
      { prompt: 28, cached: 20, cacheWrite: 3, completion: 7 },
    ],
    [undefined, undefined],
    [{}, undefined],
    [{ output_tokens: 7 }, undefined],
    [{ input_tokens: 5 }, undefined],
    [{ ...usage, input_tokens: "5" }, undefined],
    [{ ...usage, output_tokens: 0.5 }, undefined],
    [{ ...usage, cache_read_input_tokens: -1 }, undefined],
    [{ ...usage, cache_creation_input_tokens: "3" }, undefined],
    [{ ...usage, input_tokens: Number.MAX_SAFE_INTEGER, cache_read_input_tokens: 2 }, undefined],
    [{ prompt_tokens: 5, completion_tokens: 7 }, undefined],
  ])("%j is %j", (reported, billed) => {
    const { completion, usage: tokens } = read({ usage: reported });
    const event = { kind: "chunk", chunk: completion, usage: tokens } as const;
    expect(figures(event)).toEqual(billed as never);
  });

  test("shows the reasoning tokens where they are reported", () => {
    const shown = (thinking_tokens: unknown) =>
      read({ usage: { ...usage, output_tokens_details: { thinking_tokens } } }).completion["usage"];
    expect(shown(6)).toEqual({ completion_tokens_details: { reasoning_tokens: 6 } });
    expect(shown("6")).toBeUndefined();
  });
});

describe("usage in a stream", () => {
  const first = { input_tokens: 5, cache_read_input_tokens: 20, output_tokens: 3 };

  test("is early at the start and final at the end, also without repeated figures", () => {
    const [start, end] = events(started(first), ended("end_turn", { output_tokens: 2 }));
    expect(start).toMatchObject({ isUsageEarly: true });
    // The output's figure there is a placeholder, below which the final one may be.
    expect(figures(start)).toMatchObject({ prompt: 25, completion: 0 });
    expect(end).not.toHaveProperty("isUsageEarly");
    expect(figures(end)).toEqual({ prompt: 25, cached: 20, cacheWrite: 0, completion: 2 });
  });

  test.each<[unknown, object | undefined]>([
    [undefined, undefined],
    [null, undefined],
    [{}, undefined],
    [{ output_tokens: null }, undefined],
    [{ output_tokens: "7" }, undefined],
    [
      { output_tokens: 7, input_tokens: null },
      { prompt: 25, cached: 20 },
    ],
    [
      { output_tokens: 7, input_tokens: 0 },
      { prompt: 25, cached: 20 },
    ],
    [
      { output_tokens: 7, input_tokens: 9 },
      { prompt: 29, cached: 20 },
    ],
    [{ output_tokens: 7, input_tokens: "9" }, undefined],
    [
      { output_tokens: 7, cache_creation_input_tokens: 4 },
      { prompt: 29, cacheWrite: 4 },
    ],
  ])("that ends with %j is %j", (reported, billed) => {
    const [, end] = events(started(first), ended("end_turn", reported));
    if (billed === undefined) expect(figures(end)).toBeUndefined();
    else expect(figures(end)).toMatchObject(billed);
  });

  test("may come before the stop reason and after it", () => {
    const list = events(ended(null, usage), ended("end_turn"), ended(null, usage), {
      type: "ping",
    });
    expect(list.map(figures)).toEqual([plain, undefined, plain]);
    expect(deltasOf(list)).toEqual([undefined, {}, undefined]);
    expect(list).toMatchObject([{ isUsageEarly: true }, {}, { isUsageEarly: false }]);
  });

  test("may repeat the stop reason, which ends the message once", () => {
    const list = events(ended("end_turn"), ended("end_turn", usage));
    expect(deltasOf(list)).toEqual([{}, undefined]);
    expect(figures(list[1])).toEqual(plain);
  });
});

describe("a stream", () => {
  test("uses the content in the start of a block", () => {
    expect(
      deltasOf(
        events(
          opened(0, { type: "thinking", thinking: "Hm.", signature: "sig" }),
          stopped(0),
          opened(1, { type: "text", text: "Yes." }),
        ),
      ),
    ).toEqual([{ reasoning_content: "Hm." }, { content: "Yes." }]);
  });

  test("counts the characters of encrypted reasoning once", () => {
    const readEvent = anthropic.chat.events();
    const encrypted = [
      opened(0, { type: "thinking", thinking: "Hm.", signature: "12" }),
      added(0, { type: "signature_delta", signature: "345" }),
      stopped(0),
      opened(1, { type: "thinking", thinking: "", signature: "6789" }),
      stopped(1),
      opened(2, { type: "redacted_thinking", data: "xyz" }),
      stopped(2),
      ended("end_turn"),
    ].map((data) => readEvent({ event: undefined, data: JSON.stringify(data) }));
    expect(encrypted.map((event) => "encryptedLength" in event && event.encryptedLength)).toEqual([
      2,
      3,
      false,
      4,
      false,
      3,
      false,
      0,
    ]);
  });

  test("gives its signed thinking blocks in one list, with the finish reason", () => {
    const first = { type: "thinking", thinking: "Hm.", signature: "one" };
    const hidden = { type: "redacted_thinking", data: "xyz" };
    const unsigned = { type: "thinking", thinking: "So." };
    const text = { type: "text", text: "Yes." };
    const second = { type: "thinking", thinking: "Ah.", signature: "two" };
    const list = [first, hidden, unsigned, text, second].flatMap((block, index) => [
      opened(index, block),
      stopped(index),
    ]);
    expect(deltasOf(events(...list, ended("end_turn")))).toEqual([
      { reasoning_content: "Hm." },
      { reasoning_content: "So." },
      { content: "Yes." },
      { reasoning_content: "Ah." },
      { thinking_blocks: [first, hidden, { ...second, after: { characters: 4, calls: 0 } }] },
    ]);
  });

  const call = { type: "tool_use", id: "a", name: "f" };
  const head = { index: 0, id: "a", type: "function", function: { name: "f", arguments: "" } };
  const rest = (given: string) => ({ tool_calls: [{ index: 0, function: { arguments: given } }] });

  test.each([
    ["an input that came whole", { x: 1 }, '{"x":1}'],
    ["no input", {}, "{}"],
    ["nothing", undefined, "{}"],
  ])("of a call with %s gives its arguments at the end", (_, input, given) => {
    const list = [opened(0, { ...call, input }), stopped(0)];
    expect(deltasOf(events(...list))).toEqual([{ tool_calls: [head] }, rest(given)]);
  });

  test("ends although its blocks never stop", () => {
    const list = events(opened(0, call), opened(1, { ...call, id: "b" }), ended("tool_use"));
    expect(deltasOf(list).at(-1)).toEqual({
      tool_calls: [
        { index: 0, function: { arguments: "{}" } },
        { index: 1, function: { arguments: "{}" } },
      ],
    });
  });

  test("without a stop reason has no finish reason", () => {
    const list = events(opened(0, call), { type: "message_stop" });
    expect(deltasOf(list)).toEqual([{ tool_calls: [head] }, "done"]);
  });

  test("hides the provider's own tools", () => {
    const server = { type: "server_tool_use", id: "s", name: "web_search", input: {} };
    const delta = { type: "input_json_delta", partial_json: '{"q":1}' };
    const answer = { type: "web_search_tool_result", tool_use_id: "s", content: [] };
    const list = [opened(0, server), added(0, delta), stopped(0), opened(1, answer), stopped(1)];
    expect(events(...list)).toEqual([]);
    expect(deltasOf(events(...list, opened(2, call)))).toEqual([{ tool_calls: [head] }]);
  });

  test("shows reasoning of any length, but returns no blocks if it is too long", () => {
    const before = { type: "thinking", thinking: "", signature: "before" };
    const thinking = "x".repeat(400_000);
    const delta = added(1, { type: "thinking_delta", thinking });
    const signature = added(1, { type: "signature_delta", signature: "sig" });
    const opening = opened(1, { type: "thinking", thinking: "", signature: "" });
    const long = [opening, delta, delta, delta, signature, stopped(1)];
    const list = events(opened(0, before), stopped(0), ...long, ended("end_turn"));
    const shown = [1, 2, 3].map(() => ({ reasoning_content: thinking }));
    expect(deltasOf(list)).toEqual([...shown, {}]);
  });

  test("has no more than a thousand blocks open at once", () => {
    const readEvent = anthropic.chat.events();
    const open = (index: number) =>
      readEvent({ event: undefined, data: JSON.stringify(opened(index, { type: "text" })) });
    for (let index = 0; index < 1000; index += 1) open(index);
    expect(() => open(1000)).toThrow(AnswerError);
  });

  test("may name its events outside their data only", () => {
    const readEvent = anthropic.chat.events();
    expect(readEvent({ event: "message_stop", data: "{}" })).toEqual({ kind: "done" });
    expect(readEvent({ event: "ping", data: "{}" })).toEqual({ kind: "nothing" });
    expect(readEvent({ event: undefined, data: "" })).toEqual({ kind: "nothing" });
  });

  test.each<Fields>([
    { type: "content_block_delta" },
    { type: "content_block_start", content_block: "x" },
    { type: "content_block_stop", index: { a: 1 } },
    { type: "message_start", message: null },
    { type: "message_delta" },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: 5 } },
  ])("with the event %j goes on", (event) => {
    expect(() => events(event)).not.toThrow();
  });
});
