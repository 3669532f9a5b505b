import { expect, test } from "bun:test";
import { noUsage, type Usage } from "../../../src/contract/usage.ts";
import { publicUsage } from "../../../src/gateway/decoding/publicAnswer.ts";
import { ChatDecoder } from "../../../src/gateway/decoding/chatDecoder.ts";
import type { ChatEvent } from "../../../src/providers/provider.ts";
import { chunksOf } from "../../support/chatCalls.ts";

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

const zeros = noUsage;
const counted = { ...noUsage, completionTokens: 3 };
const say = (index: number, delta: object, finish_reason: string | null = null) => ({
  choices: [{ index, delta, finish_reason }],
});

test.each<[string, [object, Usage?][], boolean]>([
  [
    "zeros beside a choice that has ended, while another goes on",
    [[say(0, {}, "stop"), zeros]],
    false,
  ],
  ["zeros by themselves, before anything is said", [[{ choices: [] }, zeros]], false],
  ["a figure by itself amid the answer", [[{ choices: [] }, counted]], true],
])("a usage in a stream of two choices is final: %s", (_, chunks, isFinal) => {
  const read = [[say(0, { content: "a" })] as [object, Usage?], ...chunks];
  const decoder = new ChatDecoder({
    readEvent: () => {
      const [chunk, usage] = read.shift() ?? [];
      return chunk ? { kind: "chunk", chunk: { ...chunk }, usage } : { kind: "nothing" };
    },
    identity: { id: "chatcmpl-1", model: "m", created: 1, unknownFields: "forward" },
    choiceCount: 2,
    includeUsage: false,
  });
  while (read.length > 0) decoder.push(Buffer.from("data: x\n\n"));
  expect(decoder.isUsageFinal).toBe(isFinal);
});

test.each(["forward", "reject"] as const)(
  "with unknown_fields = %s the usage of a stream has the fields of a JSON answer's",
  (unknownFields) => {
    const reported = { cost: 1, prompt_tokens_details: { audio_tokens: 1 } };
    const identity = { id: "chatcmpl-1", model: "m", created: 1, unknownFields };
    const chunk = { ...finished, usage: reported };
    const decoder = new ChatDecoder({
      readEvent: () => ({ kind: "chunk", chunk, usage: counted }),
      identity,
      choiceCount: 1,
      includeUsage: true,
    });
    decoder.push(Buffer.from("data: x\n\n"));
    const [last] = chunksOf({ text: decoder.ending(counted) });
    const shown = publicUsage(counted, reported, identity);
    expect(last?.["usage"]).toEqual(shown);
    expect("cost" in shown).toBe(unknownFields === "forward");
  },
);

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
