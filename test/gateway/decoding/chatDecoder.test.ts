import { describe, expect, test } from "bun:test";
import { upstreamFailure } from "../../../src/contract/errors.ts";
import { noUsage, type Usage } from "../../../src/contract/usage.ts";
import {
  publicUsage,
  publicCompletion,
  type AnswerIdentity,
} from "../../../src/gateway/decoding/publicAnswer.ts";
import { ChatDecoder } from "../../../src/gateway/decoding/chatDecoder.ts";
import { ChatForm } from "../../../src/gateway/decoding/chatForm.ts";
import { AnswerError, type ChatEvent } from "../../../src/providers/provider.ts";
import { chunksOf } from "../../support/gateway/chatCalls.ts";
import { openai } from "../../../src/providers/openai/openai.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

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
    form: new ChatForm(identity, false),
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
    form: new ChatForm(identity, false),
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
      form: new ChatForm(identity, true),
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
    form: new ChatForm(identity, false),
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
      form: new ChatForm(identity, false),
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
    expect(() => push(decoder, 1)).toThrow(new AnswerError("the answer has too many final chunks"));
  });

  test("counts its choices up for ever", () => {
    const decoder = decoderOf([say(1023, { content: "a" }), say(1024, { content: "b" })]);
    push(decoder, 1);
    expect(
      chunksOf({ text: `${decoder.take()}${decoder.failure(upstreamFailure)}` }),
    ).toMatchObject([
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

const identity: AnswerIdentity = {
  id: "chatcmpl-1",
  model: "small",
  created: 1,
  unknownFields: "forward",
};
const done = "data: [DONE]\n\n";
const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };

function decoderFor(stop: readonly string[], choiceCount = 1): ChatDecoder {
  const readEvent = openai.chat.events();
  return new ChatDecoder({
    readEvent,
    identity,
    choiceCount,
    form: new ChatForm(identity, false),
    stop,
  });
}

/** Everything that the client gets of a stream that is read in these pieces. */
function shownText(pieces: readonly (string | Uint8Array)[], stop: readonly string[]): string {
  const decoder = decoderFor(stop);
  let text = "";
  for (const piece of pieces) {
    decoder.push(typeof piece === "string" ? Buffer.from(piece) : piece);
    text += decoder.take() ?? "";
  }
  decoder.end();
  text += decoder.take() ?? "";
  return text + (decoder.isFinished ? decoder.ending(noUsage) : decoder.failure(upstreamFailure));
}

interface Shown {
  index: number;
  delta: { content?: string };
  finish_reason: string | null;
}

function shown(pieces: readonly string[], stop: readonly string[]): Shown[] {
  const text = shownText(pieces, stop);
  return chunksOf({ text }).flatMap(({ choices }) => choices as Shown[]);
}

const deltas = (pieces: readonly string[], stop: readonly string[]): [object, string | null][] =>
  shown(pieces, stop).map(({ delta, finish_reason }) => [delta, finish_reason]);

const said = (text: string): string => chatEvent({ content: text });
const call = {
  tool_calls: [{ index: 0, id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
};

describe("a stream whose stop sequences are the gateway's to keep", () => {
  const cases: readonly (readonly [string, readonly string[], [object, string | null][]])[] = [
    [
      "ends before the sequence, and what follows is dropped",
      [said("one EN"), said("D two"), chatEvent({ reasoning_content: "hm" }), chatEvent(call)],
      [
        [{ content: "one " }, null],
        [{}, "stop"],
      ],
    ],
    [
      "shows the text before the sequence at once, the role with it",
      [chatEvent({ role: "assistant", reasoning_content: "hm", content: "one END two" }), done],
      [
        [{ role: "assistant", reasoning_content: "hm", content: "one " }, null],
        [{}, "stop"],
      ],
    ],
    [
      "is not ended by the provider's own reason behind it",
      [said("END"), chatEvent({}, "length"), done],
      [[{}, "stop"]],
    ],
    [
      "ends also where the sequence comes with the finish",
      [said("one E"), chatEvent({ content: "ND", ...call }, "tool_calls"), done],
      [
        [{ content: "one " }, null],
        [{}, "stop"],
      ],
    ],
    [
      "is whole where none comes",
      [chatEvent({ role: "assistant", content: "" }), said("one E"), chatEvent({}, "stop"), done],
      [
        [{ role: "assistant", content: "" }, null],
        [{ content: "one " }, null],
        [{ content: "E" }, "stop"],
      ],
    ],
    [
      "gives out what was kept back when something else comes",
      [said("EN"), chatEvent(call), said("d"), chatEvent({}, "tool_calls"), done],
      [
        [{ ...call, content: "EN" }, null],
        [{ content: "d" }, null],
        [{}, "tool_calls"],
      ],
    ],
    [
      "never shows a sequence, also where something else comes in its middle",
      [said("EN"), chatEvent({ reasoning_content: "hm" }), said("D!"), done],
      [
        [{ reasoning_content: "hm", content: "EN" }, null],
        [{}, "stop"],
      ],
    ],
    [
      "gives out what was kept back when its provider fails",
      [said("one EN")],
      [
        [{ content: "one " }, null],
        [{ content: "EN" }, null],
        [{}, "error"],
      ],
    ],
  ];

  test.each(cases)("%s", (_, pieces, expected) => {
    expect(deltas(pieces, ["END"])).toEqual(expected);
  });

  test("is the same however the network cuts it", () => {
    const bytes = Buffer.from(
      [said("жук 🦆 E"), said("N"), said("DE"), chatEvent({}, "stop"), done].join(""),
    );
    const whole = shownText([bytes], ["END", "🦊"]);
    for (let at = 1; at < bytes.length; at++) {
      expect(shownText([bytes.subarray(0, at), bytes.subarray(at)], ["END", "🦊"])).toBe(whole);
    }
    expect(
      shownText(
        [...bytes].map((byte) => Uint8Array.of(byte)),
        ["END", "🦊"],
      ),
    ).toBe(whole);
    const texts = whole.match(/(?<="content":")[^"]*/g) ?? [];
    expect(texts.join("")).toBe("жук 🦆 ");
  });

  test("is finished at the sequence, and reads on for its usage", () => {
    const decoder = decoderFor(["END"]);
    decoder.push(Buffer.from(said("END")));
    expect([decoder.hasContent, decoder.isFinished, decoder.isClosed]).toEqual([true, true, false]);
    decoder.push(Buffer.from(said("more") + chatEvent({}, "stop")));
    decoder.push(Buffer.from(`data: ${JSON.stringify({ choices: [], usage })}\n\n${done}`));
    expect([decoder.isClosed, decoder.usage?.completionTokens]).toEqual([true, 2]);
    // What was dropped was generated all the same.
    expect(decoder.textBytes).toBe(Buffer.byteLength("ENDmore"));
  });

  test("of two choices ends each where it ends", () => {
    const second = (event: string): string => event.replace('"index":0', '"index":1');
    const decoder = decoderFor(["END"], 2);
    decoder.push(Buffer.from(said("a END") + second(said("b EN"))));
    expect(decoder.isFinished).toBe(false);
    decoder.push(Buffer.from(said("a") + second(said("d")) + second(chatEvent({}, "length"))));
    expect(decoder.isFinished).toBe(true);
    const text = (decoder.take() ?? "") + decoder.ending(noUsage);
    const choices = chunksOf({ text }).flatMap((chunk) => chunk["choices"] as Shown[]);
    const contents = [0, 1].map((at) =>
      choices
        .filter(({ index }) => index === at)
        .map(({ delta }) => delta.content ?? "")
        .join(""),
    );
    expect(contents).toEqual(["a ", "b ENd"]);
    expect(choices.flatMap(({ finish_reason: reason }) => reason ?? [])).toEqual([
      "stop",
      "length",
    ]);
  });

  test("is content once it began, even if all of it is kept back", () => {
    const decoder = decoderFor(["END"]);
    decoder.push(Buffer.from(said("E")));
    expect([decoder.hasContent, decoder.take()]).toEqual([true, undefined]);
  });
});

describe("a whole answer whose stop sequences are the gateway's to keep", () => {
  const answer = (message: object, stop: readonly string[]) => {
    const reply = { choices: [{ index: 0, finish_reason: "length", message, logprobs: {} }] };
    const { completion, textBytes } = publicCompletion(reply, identity, stop);
    return { choice: completion.choices[0] as object, textBytes };
  };

  test("ends before the sequence, without what was said behind it, which is counted all the same", () => {
    const message = { content: "one END two", reasoning_content: "hm", refusal: "no", ...call };
    expect(answer(message, ["END", "two"])).toEqual({
      choice: {
        index: 0,
        finish_reason: "stop",
        message: { role: "assistant", reasoning_content: "hm", content: "one " },
      },
      textBytes: Buffer.byteLength("one END twohmnof{}"),
    });
  });

  test("is untouched where none comes", () => {
    expect(answer({ content: "one", ...call }, ["END"]).choice).toEqual({
      index: 0,
      finish_reason: "length",
      logprobs: {},
      message: { role: "assistant", content: "one", ...call },
    });
  });
});
