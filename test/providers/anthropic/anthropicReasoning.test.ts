import { describe, expect, test } from "bun:test";
import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import { hello, sentFor } from "../conformance/reading.ts";

type Fields = Readonly<Record<string, unknown>>;

const thought = (thinking: string) => ({
  type: "thinking",
  thinking,
  signature: `${thinking} sig`,
});
const hidden = { type: "redacted_thinking", data: "EmwK" };
const text = (value: string) => ({ type: "text", text: value });
const call = (id: string) => ({ type: "tool_use", id, name: "f", input: {} });

/** What a client gets of an answer in JSON. */
function answered(...content: readonly Fields[]): Fields {
  const { completion } = anthropic.chat.read(JSON.stringify({ type: "message", content }));
  return (completion["choices"] as { message: Fields }[])[0]?.message ?? {};
}

/** How a stream says a block: what opens it, and what is added. */
function spoken(block: Fields): { start: Fields; deltas: readonly Fields[] } {
  const { type, text: said, thinking, signature } = block;
  if (type === "text") {
    return { start: { type, text: "" }, deltas: [{ type: "text_delta", text: said }] };
  }
  if (type !== "thinking") return { start: block, deltas: [] };
  const deltas = [
    { type: "thinking_delta", thinking },
    { type: "signature_delta", signature },
  ];
  return { start: { type, thinking: "", signature: "" }, deltas };
}

/** The same answer as a client puts it together from a stream, whose last block is never stopped. */
function streamed(...content: readonly Fields[]): Fields {
  const read = anthropic.chat.events();
  const events: Fields[] = [];
  for (const [index, block] of content.entries()) {
    const { start, deltas } = spoken(block);
    events.push({ type: "content_block_start", index, content_block: start });
    for (const delta of deltas) events.push({ type: "content_block_delta", index, delta });
    if (index < content.length - 1) events.push({ type: "content_block_stop", index });
  }
  events.push({ type: "message_delta", delta: { stop_reason: "end_turn" } });
  const whole = { content: "", thinking_blocks: [] as unknown, calls: [] as Fields[] };
  for (const data of events) {
    const event = read({ event: undefined, data: JSON.stringify(data) });
    if (event.kind !== "chunk") continue;
    const [{ delta }] = event.chunk["choices"] as [{ delta: Fields }];
    if (typeof delta["content"] === "string") whole.content += delta["content"];
    whole.thinking_blocks = delta["thinking_blocks"] ?? whole.thinking_blocks;
    for (const call of (delta["tool_calls"] ?? []) as Fields[]) {
      if (call["id"] !== undefined) whole.calls.push(call);
    }
  }
  const { calls, ...message } = whole;
  return { role: "assistant", ...message, ...(calls.length > 0 && { tool_calls: calls }) };
}

/** What the provider is given of an earlier answer. */
function givenBack(message: Fields): unknown {
  const sent = sentFor(anthropic.chat, { messages: [hello, message, hello] });
  return (JSON.parse(sent) as { messages: { content: unknown }[] }).messages[1]?.content;
}

describe("an answer in the history has its thinking blocks in their positions", () => {
  const orders: readonly (readonly [string, readonly Fields[]])[] = [
    ["before all else", [thought("a"), hidden, text("Hello."), call("x")]],
    ["between two texts", [thought("a"), text("Hello, "), thought("b"), hidden, text("you 👋.")]],
    ["between a text and a call", [thought("a"), text("I look."), thought("b"), call("x")]],
    ["between calls", [call("x"), thought("a"), call("y"), call("z")]],
    ["behind a call and before a text", [text("One"), call("x"), thought("a"), text(", two.")]],
  ];
  test.each(orders)("%s", (_, content) => {
    expect(givenBack(answered(...content))).toEqual(content);
    expect(givenBack(streamed(...content))).toEqual(content);
  });

  test("but not last: the interface refuses an answer that ends in thinking", () => {
    const content = [thought("a"), text("Hello."), thought("b")];
    const sorted = [thought("a"), thought("b"), text("Hello.")];
    expect(givenBack(answered(...content))).toEqual(sorted);
  });
});

test("calls without text have their thinking blocks between them, also with null content", () => {
  const content = [call("x"), thought("a"), call("y")];
  expect(givenBack({ ...answered(...content), content: null })).toEqual(content);
});

test("a text that a client trimmed is never cut within a character", () => {
  const message = answered(thought("a"), text("\nI look."), thought("b"), text("😀 Found."));
  expect(givenBack({ ...message, content: "I look.😀 Found." })).toEqual([
    thought("a"),
    text("I look."),
    thought("b"),
    text("😀 Found."),
  ]);
});

test("a thinking block in first position has no position field, which other servers do not know", () => {
  expect(answered(thought("a"), hidden, text("Hello."))["thinking_blocks"]).toEqual([
    thought("a"),
    hidden,
  ]);
});

describe("thinking blocks of unknown position come first", () => {
  const message = answered(thought("a"), text("Hello, "), thought("b"), text("you."));
  const first = [thought("a"), thought("b")];

  test("if a client made parts of the text", () => {
    const content = [text("Hello, you.")];
    expect(givenBack({ ...message, content })).toEqual([...first, ...content]);
  });

  test.each([null, "x", {}, { characters: -1, calls: 0 }, { characters: 1.5 }, { calls: "1" }])(
    "where a client wrote %j over it",
    (after) => {
      const thinking_blocks = [thought("a"), { ...thought("b"), after }];
      expect(givenBack({ ...message, thinking_blocks })).toEqual([...first, text("Hello, you.")]);
    },
  );

  test("and a changed order repeats no text and no call", () => {
    const content = [thought("a"), text("One, "), call("x"), thought("b"), text("two."), call("y")];
    const given = answered(...content, thought("c"), call("z"));
    const [one, two, three] = given["thinking_blocks"] as Fields[];
    expect(givenBack({ ...given, thinking_blocks: [three, two, one] })).toEqual([
      text("One, two."),
      call("x"),
      call("y"),
      thought("c"),
      thought("b"),
      thought("a"),
      call("z"),
    ]);
  });

  test("and a position beyond the end is unknown", () => {
    const after = { characters: 1000, calls: 1000 };
    const thinking_blocks = [{ ...thought("a"), after }];
    expect(givenBack({ ...message, thinking_blocks })).toEqual([thought("a"), text("Hello, you.")]);
  });
});
