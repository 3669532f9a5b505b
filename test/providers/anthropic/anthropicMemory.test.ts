import { describe, expect, test } from "bun:test";
import { heapStats } from "bun:jsc";
import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import { AnswerError } from "../../../src/providers/provider.ts";

const MEGABYTE = 1024 * 1024;
const long = "-".repeat(MEGABYTE);
const opened = (index: unknown, block: object) => ({
  type: "content_block_start",
  index,
  content_block: block,
});
const added = (index: number, delta: object) => ({ type: "content_block_delta", index, delta });
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

/** Bytes of what the reader of these events still has behind them; nobody else keeps any. */
function keptOf(count: number, eventsOf: (index: number) => object[]): number {
  const readEvent = anthropic.chat.events();
  const before = heapBytes();
  for (const index of numbers(count)) {
    for (const event of eventsOf(index)) {
      readEvent({ event: undefined, data: JSON.stringify(event) });
    }
  }
  const kept = heapBytes() - before;
  // Used once more, so that the reader is there until now.
  readEvent({ event: "ping", data: "{}" });
  return kept;
}

function heapBytes(): number {
  Bun.gc(true);
  const { heapSize, extraMemorySize } = heapStats();
  return heapSize + extraMemorySize;
}

describe("a provider cannot fill the memory with a message", () => {
  test.each<[string, (index: number) => object[]]>([
    [
      "of blocks of other kinds",
      (index) => [opened(index, { type: "server_tool_use", id: "x", input: { q: long } })],
    ],
    [
      "of parallel thinking blocks",
      (index) => [
        opened(index, { type: "thinking", thinking: "", signature: "" }),
        added(index, { type: "thinking_delta", thinking: long }),
        added(index, { type: "signature_delta", signature: long }),
      ],
    ],
    [
      "of redacted thinking blocks",
      (index) => [opened(index, { type: "redacted_thinking", data: long, more: long })],
    ],
    ["of blocks with endless names", (index) => [opened(long + index, { type: "text" })]],
    ["of endless kinds", (index) => [opened(index, { type: long + index })]],
  ])("%s", (_, eventsOf) => {
    expect(keptOf(40, eventsOf)).toBeLessThan(8 * MEGABYTE);
  });

  test("with calls that come complete", () => {
    const readEvent = anthropic.chat.events();
    const call = (index: number) => {
      const block = { type: "tool_use", id: `call_${index}`, name: "f", input: { q: long } };
      readEvent({ event: undefined, data: JSON.stringify(opened(index, block)) });
    };
    for (const index of numbers(31)) call(index);
    expect(() => call(31)).toThrow(new AnswerError("calls are too long"));
  });
});
