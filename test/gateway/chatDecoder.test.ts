import { expect, test } from "bun:test";
import { noUsage } from "../../src/contract/usage.ts";
import { ChatDecoder } from "../../src/gateway/chatDecoder.ts";
import type { ChatEvent } from "../../src/providers/provider.ts";

const finished = { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };

test.each<[string, object]>([
  ["in an event of its own", { choices: [] }],
  ["on the very chunk that ends it", finished],
])("an early usage is never taken for the whole answer's: %s", (_, chunk) => {
  const read: ChatEvent[] = [
    { kind: "chunk", chunk: { ...chunk }, usage: noUsage, isUsageEarly: true },
    { kind: "chunk", chunk: finished, usage: undefined },
    { kind: "chunk", chunk: { choices: [] }, usage: { ...noUsage, promptTokens: 1 } },
  ];
  const decoder = new ChatDecoder({
    readEvent: () => read.shift() ?? { kind: "nothing" },
    identity: { id: "chatcmpl-1", model: "m", created: 1, unknownFields: "forward" },
    choiceCount: 1,
    includeUsage: false,
  });
  const seen = [1, 2, 3].map(() => {
    decoder.push(Buffer.from("data: x\n\n"));
    return [decoder.isUsageFinal, decoder.usage?.promptTokens];
  });
  expect(seen).toEqual([
    [false, 0],
    [false, 0],
    [true, 1],
  ]);
});

test.each([
  ["that stands behind whole answers only ends a choice without a finish reason", true, true],
  ["that may stand behind any answer does not", false, false],
])("a terminator %s", (_, isWhole, isFinished) => {
  const said = { choices: [{ index: 0, delta: { content: "a" }, finish_reason: null }] };
  const read: ChatEvent[] = [
    { kind: "chunk", chunk: said, usage: undefined },
    { kind: "done", isWhole },
  ];
  const decoder = new ChatDecoder({
    readEvent: () => read.shift() ?? { kind: "nothing" },
    identity: { id: "chatcmpl-1", model: "m", created: 1, unknownFields: "forward" },
    choiceCount: 1,
    includeUsage: false,
  });
  decoder.push(Buffer.from("data: x\n\ndata: y\n\n"));
  expect([decoder.isClosed, decoder.isFinished]).toEqual([true, isFinished]);
});
