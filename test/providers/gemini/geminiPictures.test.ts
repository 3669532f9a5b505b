import { describe, expect, test } from "bun:test";
import { gemini } from "../../../src/providers/gemini/gemini.ts";
import { saying, thought } from "../../support/provider/geminiAnswers.ts";
import { hello, notSupported, sentFor } from "../conformance/reading.ts";

type Fields = Readonly<Record<string, unknown>>;

const png = { inlineData: { mimeType: "image/png", data: "AAAA" } };
const webp = { inlineData: { mimeType: "image/webp", data: "BBBB" } };
const url = "data:image/png;base64,AAAA";
const picture = { type: "image_url", image_url: { url } };

/** What a client gets of an answer in JSON, as it would send it back. */
function messageOf(parts: readonly object[]): object {
  const { completion } = gemini.chat.read(JSON.stringify(saying(parts, "STOP")));
  const [choice] = completion["choices"] as { message: object }[];
  return { role: "assistant", ...choice?.message };
}

/** The pictures of each event of a stream. */
function streamed(...answers: readonly object[]): readonly unknown[] {
  const read = gemini.chat.events();
  return answers.map((answer) => {
    const event = read({ event: undefined, data: JSON.stringify(answer) });
    if (event.kind !== "chunk") return event.kind;
    const choices = event.chunk["choices"] as { delta: { images?: unknown } }[];
    return choices.map(({ delta }) => delta.images);
  });
}

function lastParts(model: string, ...messages: readonly object[]): unknown {
  const sent = sentFor(gemini.chat, { messages: [hello, ...messages] }, { model });
  const { contents } = JSON.parse(sent) as {
    contents: { parts: unknown }[];
  };
  return contents.at(-1)?.parts;
}

describe("the pictures of an answer", () => {
  test("have an index in a stream, counted for each choice", () => {
    const second = { content: { parts: [png] }, index: 1 };
    const both = saying([], undefined, {
      candidates: [{ content: { parts: [png, webp] }, index: 0 }, second],
    });
    const image = (index: number, address = url) => ({
      index,
      type: "image_url",
      image_url: { url: address },
    });
    expect(streamed(saying([png]), saying([{ text: "and" }]), both)).toEqual([
      [[image(0)]],
      [undefined],
      [[image(1), image(2, "data:image/webp;base64,BBBB")], [image(0)]],
    ]);
  });

  test("are not the drafts of its reasoning", () => {
    const drafts = [{ ...webp, thought: true }, thought("Better so.")];
    expect(messageOf([...drafts, png])).toMatchObject({ images: [picture] });
    expect(streamed(saying(drafts), saying([png]))).toEqual([
      [undefined],
      [[{ ...picture, index: 0 }]],
    ]);
  });
});

describe("the pictures of an answer in the history", () => {
  test.each([
    ["with a text", [{ text: "Here:" }, png, webp]],
    ["alone", [png]],
    [
      "with their signatures",
      [
        { text: "Here:", thoughtSignature: "dGV4dA==" },
        { ...png, thoughtSignature: "b25l" },
        { ...webp, thoughtSignature: "dHdv" },
      ],
    ],
  ])("are sent as the model made them, %s", (_, parts) => {
    expect(lastParts("gemini-2.5-flash-image", messageOf(parts))).toEqual(parts);
  });

  test("may have the index of a stream, and no type", () => {
    const images = [
      { index: 0, type: "image_url", image_url: { url } },
      { image_url: { url: "https://a.example/b.webp" } },
    ];
    expect(lastParts("gemini-2.5-flash", { role: "assistant", content: "See.", images })).toEqual([
      { text: "See." },
      png,
      { fileData: { mimeType: "image/webp", fileUri: "https://a.example/b.webp" } },
    ]);
  });

  test("get the placeholder signature if a model requires one and the client dropped it", () => {
    expect(
      lastParts("gemini-3-pro-image-preview", {
        role: "assistant",
        content: "",
        images: [{ ...picture, extra_content: { google: { thought_signature: "b25l" } } }, picture],
      }),
    ).toEqual([
      { ...png, thoughtSignature: "b25l" },
      { ...png, thoughtSignature: "skip_thought_signature_validator" },
    ]);
  });

  test.each<[unknown]>([
    [null],
    [false],
    [{}],
    [["iVBORw0KGgo="]],
    [[{ b64_json: "AAAA" }, { type: "text", text: "x" }, { image_url: null }, null]],
  ])("are not other values of that field: %j", (images) => {
    const message = { role: "assistant", content: "x", images };
    expect(lastParts("gemini-2.5-flash", message)).toEqual([{ text: "x" }]);
  });

  test.each<[unknown, string]>([
    [[{ type: "image_url", image_url: {} }], "messages[1].images[0] of the type image_url"],
    [[picture, { type: "text", text: "x", image_url: "x" }], "messages[1].images[1]"],
  ])("are refused if they cannot be read: %j", (images, what) => {
    const message = { role: "assistant", content: "x", images };
    expect(() => lastParts("gemini-2.5-flash", message)).toThrow(notSupported(what));
  });
});

describe("pictures in the result of a call", () => {
  const called = { id: "a", type: "function", function: { name: "look", arguments: "{}" } };
  const calling = { role: "assistant", content: null, tool_calls: [called] };
  const pdf = "data:application/pdf;base64,CCCC";
  const resultOf = (model: string, content: readonly object[]): unknown =>
    lastParts(model, calling, { role: "tool", tool_call_id: "a", content });
  const newer = "gemini-3-flash-preview";

  test.each<[readonly object[], Fields]>([
    [[picture], { response: { output: "" }, parts: [png] }],
    [
      [{ type: "text", text: '{"seen":1}' }, picture, { type: "file", file: { file_data: pdf } }],
      {
        response: { seen: 1 },
        parts: [png, { inlineData: { mimeType: "application/pdf", data: "CCCC" } }],
      },
    ],
  ])("are beside its text: %j", (content, expected) => {
    expect(resultOf(newer, content)).toEqual([
      { functionResponse: { id: "a", name: "look", ...expected } },
    ]);
  });

  const sound = { inlineData: { mimeType: "audio/wav", data: "AA" } };
  const address = "https://a.example/b.png";
  test.each<[string, string, object, object]>([
    [
      "at an address",
      newer,
      { type: "image_url", image_url: { url: address } },
      { fileData: { mimeType: "image/png", fileUri: address } },
    ],
    ["in sound", newer, { type: "input_audio", input_audio: { data: "AA", format: "wav" } }, sound],
    ["for a model that takes none", "gemini-2.5-pro", picture, png],
    ["for a model of which nothing is known", "gemma-3-27b-it", picture, png],
  ])("follow the result %s", (_, model, part, sent) => {
    expect(resultOf(model, [part])).toEqual([
      { functionResponse: { id: "a", name: "look", response: { output: "" } } },
      sent,
    ]);
  });
});
