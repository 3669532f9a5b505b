import { describe, expect, test } from "bun:test";
import { noUsage } from "../../../src/contract/usage.ts";
import { gemini } from "../../../src/providers/gemini/gemini.ts";
import { AnswerError } from "../../../src/providers/provider.ts";
import {
  geminiEvent,
  saying,
  thought,
  usageMetadata,
} from "../../support/provider/geminiAnswers.ts";

const { chat } = gemini;

function messageOf(parts: readonly object[], more: object = {}): Record<string, unknown> {
  const { completion } = chat.read(JSON.stringify(saying(parts, "STOP", more)));
  const [choice] = completion["choices"] as { message: Record<string, unknown> }[];
  return choice?.message ?? {};
}

function callsOf(parts: readonly object[], more: object = {}): readonly { id: string }[] {
  return messageOf(parts, more)["tool_calls"] as { id: string }[];
}

/** The reading of one stream, event by event. */
function deltasOf(...answers: readonly object[]): readonly unknown[] {
  const read = chat.events();
  return answers.map((answer) => {
    const data = geminiEvent(answer).slice("data: ".length).trimEnd();
    const event = read({ event: undefined, data });
    return event.kind === "chunk" ? event.chunk["choices"] : event.kind;
  });
}

describe("a candidate that ended", () => {
  const call = { functionCall: { name: "f" } };
  test.each<[string | null | undefined, string | null]>([
    ["STOP", "STOP"],
    ["constructor", "constructor"],
    ["FINISH_REASON_UNSPECIFIED", null],
    [null, null],
    [undefined, null],
  ])("with %j ends with %j", (finishReason, expected) => {
    const answer = { candidates: [{ content: { parts: [{ text: "x" }] }, finishReason }] };
    expect(chat.read(JSON.stringify(answer)).completion["choices"]).toMatchObject([
      { finish_reason: expected },
    ]);
    const [choices] = deltasOf(answer) as [readonly unknown[]];
    expect(choices.at(-1)).toMatchObject({ finish_reason: expected });
  });

  test("has its finish reason in a chunk after the content", () => {
    for (const parts of [[call], [{ text: "x" }], [thought("Hm.")]]) {
      expect(deltasOf(saying(parts, "MAX_TOKENS"))).toEqual([
        [
          { index: 0, finish_reason: null, delta: expect.any(Object) },
          { index: 0, finish_reason: "MAX_TOKENS", delta: {} },
        ],
      ]);
    }
  });

  test("with an unknown reason keeps it beside its content", () => {
    expect(deltasOf(saying([call], "NEXT_YEAR"))).toMatchObject([
      [{ finish_reason: "NEXT_YEAR", delta: { tool_calls: [{}] } }],
    ]);
  });
});

describe("more candidates than a request can ask for are refused", () => {
  const refusal = new AnswerError("the answer has too many choices");
  const candidates = (count: number, indexOf: (at: number) => unknown) =>
    JSON.stringify({
      candidates: Array.from({ length: count }, (_, at) => ({ index: indexOf(at) })),
    });
  const streamed = (indexes: readonly unknown[]) => {
    const read = chat.events();
    const last = indexes.map((index) =>
      read({ event: undefined, data: candidates(1, () => index) }),
    );
    return last.at(-1);
  };

  test.each([
    ["each with its index", (at: number) => at],
    ["without any", () => undefined],
    ["all with the same", () => 0],
  ])("%s", (_, indexOf) => {
    expect(chat.read(candidates(1024, indexOf)).completion["choices"]).toHaveLength(1024);
    expect(() => chat.read(candidates(1025, indexOf))).toThrow(refusal);
  });

  test("one by one in a stream", () => {
    const indexes = Array.from({ length: 1025 }, (_, at) => at);
    streamed(indexes.slice(0, -1));
    expect(() => streamed(indexes)).toThrow(refusal);
  });

  test("and an invalid index counts as none", () => {
    const choices = [0, 0.5, -1, "1", null].map((index) => streamed([index]));
    expect(choices).toEqual(Array(5).fill(streamed([undefined])));
  });
});

describe("usage", () => {
  const replyOf = (metadata: unknown, parts: readonly object[]) => {
    const text = JSON.stringify(saying(parts, "STOP", { usageMetadata: metadata }));
    const { usage, isUsageEarly } = chat.read(text);
    return [usage, isUsageEarly] as readonly unknown[];
  };
  const figures = (promptTokens: number, cachedTokens: number, completionTokens: number) => ({
    ...noUsage,
    promptTokens,
    cachedTokens,
    completionTokens,
  });

  test.each<[object, object | undefined]>([
    [usageMetadata, figures(100, 40, 50)],
    [{ ...usageMetadata, toolUsePromptTokenCount: 7 }, figures(107, 40, 50)],
    [{ ...usageMetadata, totalTokenCount: 999 }, figures(100, 40, 50)],
    [{ promptTokenCount: 5, candidatesTokenCount: 2 }, figures(5, 0, 2)],
    [{ promptTokenCount: 5, candidatesTokenCount: 0 }, figures(5, 0, 0)],
    [{ ...usageMetadata, cachedContentTokenCount: 500 }, figures(100, 100, 50)],
    [{ ...usageMetadata, cachedContentTokenCount: -1 }, figures(100, 0, 50)],
    [{ candidatesTokenCount: 2 }, undefined],
    // What is not counted of the answer is the rest of the total.
    [{ promptTokenCount: 5, totalTokenCount: 7 }, figures(5, 0, 2)],
    [{ ...usageMetadata, candidatesTokenCount: undefined }, figures(100, 40, 50)],
    [
      { ...usageMetadata, candidatesTokenCount: undefined, toolUsePromptTokenCount: 7 },
      figures(107, 40, 43),
    ],
    [{ ...usageMetadata, candidatesTokenCount: -5 }, undefined],
    [{ ...usageMetadata, candidatesTokenCount: 1.5, thoughtsTokenCount: 0.5 }, undefined],
    [{ ...usageMetadata, thoughtsTokenCount: -5 }, undefined],
    [{ ...usageMetadata, thoughtsTokenCount: "30" }, undefined],
    [{ ...usageMetadata, toolUsePromptTokenCount: -5 }, undefined],
    [
      { ...usageMetadata, promptTokenCount: Number.MAX_SAFE_INTEGER, toolUsePromptTokenCount: 2 },
      undefined,
    ],
  ])("that is reported as %j is %j", (metadata, usage) => {
    expect(replyOf(metadata, [{ text: "x" }])).toEqual([usage, false]);
  });

  test("counts only reasoning if the answer has no text", () => {
    const thinking = { promptTokenCount: 5, thoughtsTokenCount: 9 };
    expect(replyOf(thinking, [thought("Hm.")])).toEqual([figures(5, 0, 9), false]);
    expect(replyOf({ promptTokenCount: 5 }, [])).toEqual([figures(5, 0, 0), false]);
  });

  test.each<[object, object]>([
    [{ promptTokenCount: 5 }, figures(5, 0, 0)],
    [{ promptTokenCount: 5, totalTokenCount: 5 }, figures(5, 0, 0)],
    [{ promptTokenCount: 5, totalTokenCount: 3 }, figures(5, 0, 0)],
    [{ promptTokenCount: 5, totalTokenCount: "7" }, figures(5, 0, 0)],
    [{ promptTokenCount: 5, thoughtsTokenCount: 9, totalTokenCount: 14 }, figures(5, 0, 9)],
  ])("without the count of the content is early: %j", (metadata, usage) => {
    for (const part of [{ text: "x" }, { functionCall: { name: "f" } }]) {
      expect(replyOf(metadata, [part])).toEqual([usage, true]);
    }
  });

  test("alone in an event is passed on", () => {
    expect(deltasOf({ usageMetadata }, { modelVersion: "x" }, {})).toEqual([
      [],
      "nothing",
      "nothing",
    ]);
  });
});

describe("the id of a call", () => {
  const two = [{ functionCall: { name: "f" } }, { functionCall: { name: "f", args: { a: 1 } } }];

  test("is the provider's own if there is one", () => {
    expect(callsOf([{ functionCall: { name: "f", id: "own" } }])).toMatchObject([{ id: "own" }]);
    const [empty] = callsOf([{ functionCall: { name: "f", id: "" } }], { responseId: "r" });
    expect(empty).toMatchObject({ id: "call_r_0_0" });
  });

  test("is made from the response id, one for each call of each candidate, at most 40 characters", () => {
    const ids = callsOf(two, { responseId: `é${"x".repeat(100)}` }).map(({ id }) => id);
    expect(ids).toEqual([`call_${"x".repeat(24)}_0_0`, `call_${"x".repeat(24)}_0_1`]);
    expect(Math.max(...ids.map((id) => id.length))).toBeLessThan(40);
  });

  test("differs between answers, also without a response id", () => {
    const given = [{ responseId: 5 }, { responseId: "" }, { responseId: undefined }];
    const ids = given.flatMap((more) => callsOf(two, more).map(({ id }) => id));
    expect(new Set(ids).size).toBe(6);
    for (const id of ids) expect(id).toMatch(/^call_[0-9a-f]{24}_0_[01]$/);
  });

  test("counts on through a stream", () => {
    expect(deltasOf(saying(two), saying(two.slice(0, 1)))).toMatchObject([
      [{ delta: { tool_calls: [{ index: 0 }, { index: 1 }] } }],
      [{ delta: { tool_calls: [{ index: 2, id: "call_mAitaLmkHPPlz7IPvtfUqQ4_0_2" }] } }],
    ]);
  });
});

describe("the content of a message", () => {
  test("is not filtered because of prompt feedback without a block", () => {
    const promptFeedback = { blockReason: "SAFETY" };
    expect(messageOf([{ text: "a" }], { promptFeedback })).toMatchObject({ content: "a" });
  });

  test("leaves out unknown parts", () => {
    expect(
      messageOf([
        { text: "a" },
        { executableCode: { language: "PYTHON", code: "1" } },
        { inlineData: { mimeType: "audio/wav", data: "AAAA" } },
        { of: "next year" },
        { text: "b" },
      ]),
    ).toEqual({ role: "assistant", content: "ab" });
  });

  test("has images in the form in which clients send them", () => {
    const image = { inlineData: { mimeType: "image/png", data: "AAAA" } };
    expect(messageOf([image])).toEqual({
      role: "assistant",
      content: "",
      images: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }],
    });
  });

  test("has the signature of its reasoning, also on a part without text", () => {
    const extra = { extra_content: { google: { thought_signature: "c2ln" } } };
    const signed = { thoughtSignature: "c2ln" };
    for (const parts of [
      [{ text: "a" }, { text: "", ...signed }],
      [{ text: "a", ...signed }, { text: "" }],
    ]) {
      expect(messageOf(parts)).toEqual({ role: "assistant", content: "a", ...extra });
    }
    expect(
      deltasOf(saying([{ text: "a" }]), saying([{ text: "", thoughtSignature: "c2ln" }])),
    ).toEqual([
      [{ index: 0, finish_reason: null, delta: { role: "assistant", content: "a" } }],
      [{ index: 0, finish_reason: null, delta: extra }],
    ]);
  });
});
