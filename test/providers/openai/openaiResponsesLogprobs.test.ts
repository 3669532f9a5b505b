import { describe, expect, test } from "bun:test";
import { openaiResponses } from "../../../src/providers/openai/openaiResponses.ts";
import {
  ended,
  eventsOf,
  textDelta,
  type Event,
  type Fields,
} from "../../support/provider/responsesStream.ts";

/** Probabilities of tokens as the whole text has them; in the pieces of a stream the bytes are left out. */
const hel = {
  token: "Hel",
  logprob: -0.25,
  bytes: [72, 101, 108],
  top_logprobs: [{ token: "Hi", logprob: -2, bytes: [72, 105] }],
};
const lo = { token: "lo", logprob: -1, bytes: [108, 111], top_logprobs: [] };
const { bytes: _, ...helInPiece } = { ...hel, top_logprobs: [{ token: "Hi", logprob: -2 }] };
const heardInPiece = {
  ...hel,
  bytes: null,
  top_logprobs: [{ token: "Hi", logprob: -2, bytes: null }],
};

function message(logprobs: unknown): object {
  return { type: "message", content: [{ type: "output_text", text: "Hello", logprobs }] };
}

describe("the probabilities of a whole response", () => {
  const read = (...output: readonly object[]): unknown => {
    const { completion } = openaiResponses.read(JSON.stringify({ output }));
    return (completion["choices"] as Fields[])[0]?.["logprobs"];
  };

  test("are those of the choice", () => {
    expect(read(message([hel, lo]))).toEqual({ content: [hel, lo], refusal: null });
  });

  test("are those of all its texts", () => {
    expect(read(message([hel]), message([lo]))).toEqual({ content: [hel, lo], refusal: null });
  });

  test("are there in the form of a chat, whatever is missing", () => {
    const partial = [{ token: "a", logprob: 0, bytes: null, top_logprobs: null }, "strange"];
    expect(read(message(partial))).toEqual({
      content: [{ token: "a", logprob: 0, bytes: null, top_logprobs: [] }],
      refusal: null,
    });
  });

  test.each([[undefined], [null], [[]], [{}], ["a"]])(
    "are none where it has none: %j",
    (logprobs) => {
      expect(read(message(logprobs))).toBeUndefined();
    },
  );
});

describe("the probabilities of a stream", () => {
  /** What comes in each chunk: its text, and the probabilities. */
  const heard = (...events: readonly Event[]): unknown[] =>
    eventsOf(events).flatMap((event) => {
      if (event.kind !== "chunk") return [];
      const [choice] = event.chunk["choices"] as Fields[];
      const { delta, logprobs } = choice as { delta: Fields; logprobs?: unknown };
      expect(delta).not.toHaveProperty("logprobs");
      return [[delta["content"], logprobs]];
    });
  const textDone: Event = [
    "response.output_text.done",
    { output_index: 0, text: "Hello", logprobs: [hel, lo] },
  ];
  const end = ended([message([hel, lo])]);

  test("come with the pieces of the text, and once", () => {
    const pieces = [
      textDelta("Hel", { logprobs: [helInPiece] }),
      textDelta("lo", { logprobs: [lo] }),
    ];
    expect(heard(...pieces, textDone, end)).toEqual([
      ["Hel", { content: [heardInPiece], refusal: null }],
      ["lo", { content: [lo], refusal: null }],
      [undefined, undefined],
    ]);
  });

  test("come behind it where only its end has them", () => {
    expect(heard(textDelta("Hel"), textDelta("lo", { logprobs: [] }), textDone, end)).toEqual([
      ["Hel", undefined],
      ["lo", undefined],
      [undefined, { content: [hel, lo], refusal: null }],
      [undefined, undefined],
    ]);
  });

  test("come with a piece that is not a whole character yet", () => {
    expect(heard(textDelta("", { logprobs: [lo] }), end)).toEqual([
      [undefined, { content: [lo], refusal: null }],
      ["Hello", undefined],
    ]);
  });
});
