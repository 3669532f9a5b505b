import { describe, expect, test } from "bun:test";
import { openaiResponses } from "../../../src/providers/openai/openaiResponses.ts";
import {
  done,
  ended,
  eventsOf,
  textDelta,
  type Event,
  type Fields,
} from "../../support/provider/responsesStream.ts";

/** As https://platform.openai.com/docs/guides/tools-web-search shows it for a response, and for a chat. */
const cited = { start_index: 1, end_index: 5, title: "A", url: "https://a.example" };
const inResponse = { type: "url_citation", ...cited };
const inChat = { type: "url_citation", url_citation: cited };
/** The same in the second text, behind the five characters of the first. */
const inSecond = { ...inChat, url_citation: { ...cited, start_index: 6, end_index: 10 } };

function message(annotations: unknown, text = "Hello"): Fields {
  return { type: "message", content: [{ type: "output_text", text, annotations }] };
}

describe("the sources of a whole response", () => {
  const read = (...output: readonly object[]): unknown => {
    const { completion } = openaiResponses.read(JSON.stringify({ output }));
    const [choice] = completion["choices"] as { message: Fields }[];
    return choice?.message["annotations"];
  };

  test("are those of the message, in the form of a chat", () => {
    expect(read({ type: "web_search_call" }, message([inResponse, inResponse]))).toEqual([
      inChat,
      inChat,
    ]);
  });

  test("count from the beginning of all texts", () => {
    const inThird = { ...cited, start_index: 11, end_index: 15 };
    expect(read(message([]), message([inResponse]), message([inResponse]))).toEqual([
      inSecond,
      { ...inChat, url_citation: inThird },
    ]);
  });

  test.each(["Hello", "Hi 👋!"])(
    "are found in the whole text, where five characters of another stand before theirs: %s",
    (before) => {
      expect(read(message([], before), message([inResponse]))).toEqual([inSecond]);
    },
  );

  test.each([
    [undefined],
    [null],
    [[]],
    ["a"],
    [["a", null]],
    [[{ ...inResponse, type: "file_citation" }]],
    [[{ ...inResponse, url: null }]],
    [[{ ...inResponse, start_index: "1" }]],
    [[{ ...inResponse, end_index: undefined }]],
  ])("are left out if a chat has no field for them: %j", (annotations) => {
    expect(read(message(annotations))).toBeUndefined();
  });

  test("may have no title", () => {
    const { title: _, ...untitled } = inResponse;
    expect(read(message([untitled]))).toEqual([
      { ...inChat, url_citation: { ...cited, title: "" } },
    ]);
  });
});

describe("the sources of a stream", () => {
  const heardIn = (events: readonly Event[]): unknown[] =>
    eventsOf(events).flatMap((event) => {
      if (event.kind !== "chunk") return [];
      const [choice] = event.chunk["choices"] as { delta: Fields }[];
      return [choice?.delta["annotations"] ?? choice?.delta["content"]];
    });
  const first = message([inResponse]);
  const second = message([inResponse]);

  test("come with the end in one list, because clients do not join lists", () => {
    const announced: Event = [
      "response.output_text.annotation.added",
      { output_index: 0, annotation: inResponse },
    ];
    const events = [
      textDelta("Hello"),
      announced,
      done(first, 0),
      textDelta("Hello"),
      done(second, 1),
      ended([first, second]),
    ];
    expect(heardIn(events)).toEqual(["Hello", "Hello", [inChat, inSecond]]);
  });

  test("come with the end if the items have none", () => {
    expect(heardIn([textDelta("HelloHello"), ended([first, second])])).toEqual([
      "HelloHello",
      [inChat, inSecond],
    ]);
  });

  test("over a megabyte are dropped, so a provider cannot fill the memory", () => {
    const count = 1000;
    const pages = (from: number) =>
      Array.from({ length: count }, (_, at) => ({ ...inResponse, title: `${from + at}` }));
    const events = Array.from({ length: 20 }, (_, at) => done(message(pages(at * count), ""), 0));
    const [, kept] = heardIn([textDelta("Hello"), ...events, ended([])]) as [string, object[]];
    const characters = JSON.stringify(kept).length;
    expect(characters).toBeGreaterThan(1_000_000);
    expect(characters).toBeLessThan(1_100_000);
    const titles = kept.map((_, at) => ({ url_citation: { title: `${at}` } }));
    expect(kept).toMatchObject(titles);
  });
});

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

function textWith(logprobs: unknown): object {
  return { type: "message", content: [{ type: "output_text", text: "Hello", logprobs }] };
}

describe("the probabilities of a whole response", () => {
  const read = (...output: readonly object[]): unknown => {
    const { completion } = openaiResponses.read(JSON.stringify({ output }));
    return (completion["choices"] as Fields[])[0]?.["logprobs"];
  };

  test("are those of the choice", () => {
    expect(read(textWith([hel, lo]))).toEqual({ content: [hel, lo], refusal: null });
  });

  test("are those of all its texts", () => {
    expect(read(textWith([hel]), textWith([lo]))).toEqual({ content: [hel, lo], refusal: null });
  });

  test("have all fields of a chat, whatever is missing", () => {
    const partial = [{ token: "a", logprob: 0, bytes: null, top_logprobs: null }, "strange"];
    expect(read(textWith(partial))).toEqual({
      content: [{ token: "a", logprob: 0, bytes: null, top_logprobs: [] }],
      refusal: null,
    });
  });

  test.each([[undefined], [null], [[]], [{}], ["a"]])(
    "are none where it has none: %j",
    (logprobs) => {
      expect(read(textWith(logprobs))).toBeUndefined();
    },
  );
});

describe("the probabilities of a stream", () => {
  /** What comes in each chunk: its text, and the probabilities. */
  const decodedStream = (...events: readonly Event[]): unknown[] =>
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
  const end = ended([textWith([hel, lo])]);

  test("come with the pieces of the text, and once", () => {
    const pieces = [
      textDelta("Hel", { logprobs: [helInPiece] }),
      textDelta("lo", { logprobs: [lo] }),
    ];
    expect(decodedStream(...pieces, textDone, end)).toEqual([
      ["Hel", { content: [heardInPiece], refusal: null }],
      ["lo", { content: [lo], refusal: null }],
      [undefined, undefined],
    ]);
  });

  test("come after the text if only the end has them", () => {
    expect(
      decodedStream(textDelta("Hel"), textDelta("lo", { logprobs: [] }), textDone, end),
    ).toEqual([
      ["Hel", undefined],
      ["lo", undefined],
      [undefined, { content: [hel, lo], refusal: null }],
      [undefined, undefined],
    ]);
  });

  test("come with a piece that is not a complete character", () => {
    expect(decodedStream(textDelta("", { logprobs: [lo] }), end)).toEqual([
      [undefined, { content: [lo], refusal: null }],
      ["Hello", undefined],
    ]);
  });
});
