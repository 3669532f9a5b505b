import { describe, expect, test } from "bun:test";
import { noUsage, type Usage } from "../../../src/contract/usage.ts";
import { publicUsage } from "../../../src/gateway/decoding/publicAnswer.ts";
import { ChatDecoder } from "../../../src/gateway/decoding/chatDecoder.ts";
import { AnswerError, type ChatEvent } from "../../../src/providers/provider.ts";
import { chunksOf } from "../../support/gateway/chatCalls.ts";

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

describe("a provider cannot fill the memory with a stream that", () => {
  const pad = "-".repeat(8 * 1024 * 1024);
  const tooManyChoices = new AnswerError("the answer has too many choices");
  const decoderOf = (chunks: readonly object[]) => {
    const read = [...chunks];
    return new ChatDecoder({
      readEvent: () => ({ kind: "chunk", chunk: { ...read.shift() }, usage: undefined }),
      identity: { id: "chatcmpl-1", model: "m", created: 1, unknownFields: "forward" },
      choiceCount: 2,
      includeUsage: false,
    });
  };
  const times = (count: number, chunk: object) => Array.from({ length: count }, () => chunk);
  const push = (decoder: ChatDecoder, count: number) =>
    decoder.push(Buffer.from("data: x\n\n".repeat(count)));

  test("never comes to its content", () => {
    const decoder = decoderOf(times(8, { ...say(0, { role: "assistant" }), pad }));
    push(decoder, 7);
    expect(() => push(decoder, 1)).toThrow(new AnswerError("the answer does not begin"));
  });

  test("ends one of its choices again and again", () => {
    const end = { ...say(0, {}, "stop"), pad };
    const decoder = decoderOf([say(0, { content: "a" }), ...times(8, end)]);
    push(decoder, 8);
    expect(() => push(decoder, 1)).toThrow(new AnswerError("the answer has too many ends"));
  });

  test("counts its choices up for ever", () => {
    const decoder = decoderOf([say(1023, { content: "a" }), say(1024, { content: "b" })]);
    push(decoder, 1);
    expect(chunksOf({ text: `${decoder.take()}${decoder.failure()}` })).toMatchObject([
      { choices: [{ index: 1023, delta: { content: "a" } }] },
      { choices: [{ finish_reason: "error" }] },
    ]);
    expect(() => push(decoder, 1)).toThrow(tooManyChoices);
  });

  test("has too many choices in one event", () => {
    const [choice] = say(0, { content: "a" }).choices;
    const decoder = decoderOf(
      [1024, 1025].map((count) => ({ choices: Array(count).fill(choice) })),
    );
    push(decoder, 1);
    expect(() => push(decoder, 1)).toThrow(tooManyChoices);
  });
});
