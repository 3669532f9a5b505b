import { expect, spyOn, test } from "bun:test";
import { ResponsesDecoder } from "../../../src/gateway/decoding/responsesDecoder.ts";
import { ExcessiveAnswerError } from "../../../src/providers/provider.ts";
import { collidingNames } from "../../support/provider/collidingNames.ts";

const delta = { type: "response.output_text.delta", delta: "hi" };
const added = { type: "response.output_item.added", item: { type: "message", id: "msg_1" } };
const done = { ...added, type: "response.output_item.done" };
const response = { object: "response", id: "resp_1", output: [] };
const created = { type: "response.created", response };
const completed = { type: "response.completed", response };

const unnamed = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;
const named = (fields: { type: string; names?: object }) =>
  `event: ${fields.type}\n${unnamed(fields)}`;

/** How often these bytes are parsed behind others. */
function parsesOf(before: string, push: (decoder: ResponsesDecoder) => void): number {
  const decoder = new ResponsesDecoder();
  decoder.push(Buffer.from(before));
  const parse = spyOn(JSON, "parse");
  push(decoder);
  const count = parse.mock.calls.length;
  parse.mockRestore();
  return count;
}

test.each<[string, number, string, string]>([
  ["a text without a name", 1, named(delta), unnamed(delta)],
  ["a text", 1, named(delta), named(delta)],
  ["an item that begins, before the content", 1, "", named(added)],
  ["the same without a name", 1, "", unnamed(added)],
  ["an item that begins, behind the content", 0, named(delta), named(added)],
  ["an item that ends", 1, named(delta), unnamed(done)],
  ["the beginning without a name", 1, "", unnamed(created)],
  ["the end", 1, named(delta), named(completed)],
  ["the end without a name", 1, named(delta), unnamed(completed)],
])("an event is read once at most: %s", (_, count, before, event) => {
  expect(parsesOf(before, (decoder) => decoder.push(Buffer.from(event)))).toBe(count);
});

test("an end without a name and a blank line is read once too", () => {
  const before = named(delta) + unnamed(completed).trimEnd();
  expect(parsesOf(before, (decoder) => decoder.end())).toBe(1);
});

test("an event that is too costly to read is not handed on, and begins no answer", () => {
  const decoder = new ResponsesDecoder();
  const costly = named({ ...delta, names: collidingNames(500) });
  expect(() => decoder.push(Buffer.from(costly))).toThrow(ExcessiveAnswerError);
  expect([decoder.hasContent, decoder.take()]).toEqual([false, undefined]);
});
