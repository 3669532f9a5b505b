import { describe, expect, test } from "bun:test";
import { openaiResponses } from "../../../src/providers/openai/openaiResponses.ts";
import { AnswerError, ExcessiveAnswerError } from "../../../src/providers/provider.ts";
import {
  added,
  call,
  custom,
  done,
  ended,
  eventsOf,
  decodedStream,
  message,
  reasoning,
  textDelta,
  type Event,
  type Fields,
  argumentsDelta,
  textDone,
} from "../../support/provider/responsesStream.ts";

function read(response: object): Fields {
  const { completion } = openaiResponses.read(JSON.stringify(response));
  const [choice] = completion["choices"] as Fields[];
  return choice ?? {};
}

describe("a whole response", () => {
  test("with everything that a chat has a field for", () => {
    const output = [reasoning, { type: "web_search_call" }, message, call, message, custom];
    expect(read({ status: "completed", output })).toEqual({
      index: 0,
      finish_reason: "tool_calls",
      message: {
        role: "assistant",
        content: "HelloHello",
        reasoning_content: "One.\n\nTwo.",
        tool_calls: [
          { id: "call_1", type: "function", function: { name: "f", arguments: '{"a":1}' } },
          { id: "call_2", type: "custom", custom: { name: "c", input: "do" } },
        ],
      },
    });
  });

  test("of a refusal", () => {
    const content = [{ type: "refusal", refusal: "No." }];
    const output = [{ type: "message", content }];
    expect(read({ output })).toMatchObject({
      finish_reason: "stop",
      message: { content: null, refusal: "No." },
    });
  });

  test("of a summary and the reasoning itself, several times", () => {
    const content = [{ type: "reasoning_text", text: "Really." }];
    const output = [{ ...reasoning, content }, reasoning];
    expect(read({ output })).toMatchObject({
      message: { reasoning_content: "One.\n\nTwo.\n\nReally.\n\nOne.\n\nTwo." },
    });
  });

  test.each([
    [{ status: "completed" }, "stop"],
    [{}, "stop"],
    [{ status: null }, "stop"],
    [{ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }, "length"],
    [{ status: "incomplete", incomplete_details: { reason: "content_filter" } }, "content_filter"],
    [{ status: "incomplete", incomplete_details: { reason: "something new" } }, "length"],
    [{ status: "incomplete", incomplete_details: null }, "length"],
  ])("of %j ends as %s", (fields, reason) => {
    expect(read({ ...fields, output: [message] })["finish_reason"]).toBe(reason);
  });

  test("that was cut within a call has the finish reason length", () => {
    expect(read({ status: "incomplete", output: [call] })["finish_reason"]).toBe("length");
  });

  test("shows its time, and the reasoning tokens if they are a number", () => {
    const usage = { input_tokens: 1, output_tokens: 2 };
    const details = (tokens: unknown) => ({ output_tokens_details: { reasoning_tokens: tokens } });
    const completion = (fields: object) =>
      openaiResponses.read(
        JSON.stringify({ output: [], created_at: 5, usage: { ...usage, ...fields } }),
      ).completion;
    expect(completion(details(2))).toMatchObject({
      created: 5,
      usage: { completion_tokens_details: { reasoning_tokens: 2 } },
    });
    expect(completion(details(-2))["usage"]).toBeUndefined();
    expect(completion({})["usage"]).toBeUndefined();
  });
});

describe("a stream", () => {
  const reasoningDelta = (delta: string, kind: string, fields: object): Event => [
    `response.${kind}.delta`,
    { output_index: 0, delta, ...fields },
  ];

  test("has a blank line between the parts of its reasoning, and none within", () => {
    const events = [
      reasoningDelta("On", "reasoning_summary_text", { summary_index: 0 }),
      reasoningDelta("e.", "reasoning_summary_text", { summary_index: 0 }),
      reasoningDelta("Two.", "reasoning_summary_text", { summary_index: 1 }),
      reasoningDelta("Rea", "reasoning_text", { content_index: 1 }),
      reasoningDelta("lly.", "reasoning_text", { content_index: 1 }),
      reasoningDelta("More.", "reasoning_text", { content_index: 1, output_index: 2 }),
      done(reasoning, 0),
      ended([reasoning]),
    ];
    const { texts } = decodedStream(events);
    expect(texts).toMatchObject({ reasoning_content: "One.\n\nTwo.\n\nReally.\n\nMore." });
  });

  test("with reasoning only at its end has the blank lines too", () => {
    const { texts } = decodedStream([ended([reasoning])]);
    expect(texts).toMatchObject({ reasoning_content: "One.\n\nTwo." });
  });

  test("of a refusal", () => {
    const { texts, reason } = decodedStream([
      ["response.refusal.delta", { delta: "No" }],
      ["response.refusal.delta", { delta: "." }],
      ["response.refusal.done", { refusal: "No." }],
      ended([{ type: "message", content: [{ type: "refusal", refusal: "No." }] }]),
    ]);
    expect([texts, reason]).toEqual([{ role: "assistant", refusal: "No." }, "stop"]);
  });

  test("has no chunk before the first content", () => {
    const response = { status: "in_progress", output: [] };
    const events = eventsOf([
      ["response.created", { response }],
      ["response.queued", { response }],
      ["response.in_progress", { response }],
      added(message, 0),
      ["response.content_part.added", { part: { type: "output_text", text: "" } }],
      ["response.web_search_call.completed", { item_id: "ws_1" }],
      ["something.new", {}],
      ["", { constructor: 1 }],
    ]);
    expect(new Set(events.map(({ kind }) => kind))).toEqual(new Set(["nothing"]));
  });

  test("ends with its last event, which has the usage", () => {
    const usage = {
      input_tokens: 7,
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 1 },
    };
    const [first, last] = eventsOf([textDelta("a"), ended([], { usage })]);
    expect(first).not.toHaveProperty("isLast");
    expect(last).toMatchObject({
      kind: "chunk",
      isLast: true,
      usage: { promptTokens: 7, completionTokens: 3 },
      chunk: { usage: { completion_tokens_details: { reasoning_tokens: 1 } } },
    });
  });

  test.each([
    [{ incomplete_details: { reason: "max_output_tokens" } }, "length"],
    [{ incomplete_details: { reason: "content_filter" }, status: "incomplete" }, "content_filter"],
  ])("that is incomplete by %j ends as %s", (response, reason) => {
    const events: Event[] = [textDelta("a"), ["response.incomplete", { response }]];
    expect(decodedStream(events)).toMatchObject({ reason });
  });

  test("has each encrypted reasoning once, when its item is complete", () => {
    const item = { ...reasoning, encrypted_content: "12345" };
    const events = eventsOf([added(item, 0), done(item, 0)]);
    expect(events).toMatchObject([
      { kind: "nothing", encryptedLength: 0 },
      { kind: "chunk", encryptedLength: 5 },
    ]);
  });

  test("has a blank line between the reasoning of two items", () => {
    const said = (delta: string, item_id: string): Event => [
      "response.reasoning_text.delta",
      { delta, item_id, content_index: 0 },
    ];
    const events = [said("On", "rs_1"), said("e.", "rs_1"), said("Two.", "rs_2")];
    expect(decodedStream(events).texts).toMatchObject({ reasoning_content: "One.\n\nTwo." });
  });

  test("that completes with an error has failed", () => {
    const failed = ended([message], { error: { code: "server_error", message: "no" } });
    expect(() => eventsOf([textDelta("a"), failed])).toThrow("the provider reports a failure");
  });

  test("uses the event name if the data has no type", () => {
    const readEvent = openaiResponses.events();
    const event = readEvent({ event: "response.output_text.delta", data: '{"delta":"a"}' });
    expect(event).toMatchObject({ chunk: { choices: [{ delta: { content: "a" } }] } });
    expect(() => readEvent({ event: "error", data: "{}" })).toThrow(AnswerError);
  });

  test("does not end with [DONE]", () => {
    const readEvent = openaiResponses.events();
    expect(readEvent({ event: undefined, data: "[DONE]" })).toEqual({ kind: "nothing" });
  });

  test("of more calls than any model makes is refused", () => {
    const events = Array.from({ length: 1025 }, (_, at) =>
      added({ ...call, call_id: `c${at}` }, at),
    );
    expect(() => eventsOf(events)).toThrow(AnswerError);
    expect(() => eventsOf(events.slice(1))).not.toThrow();
  });
});

describe("a provider cannot fill the memory with calls", () => {
  const long = "-".repeat(1024 * 1024);
  const refusal = new ExcessiveAnswerError("the answer has too many calls");

  test.each<[string, number, (at: number) => [item: object, at: unknown]]>([
    ["without end", 1024, (at) => [{ ...call, call_id: `call_${at}` }, at]],
    ["with endless ids", 31, (at) => [{ ...call, call_id: `${at}${long}` }, at]],
    ["in endless items", 31, (at) => [{ ...call, call_id: `call_${at}`, id: `${at}${long}` }, at]],
    ["in endless places", 31, (at) => [{ ...call, call_id: `call_${at}` }, [`${at}${long}`]]],
  ])("%s", (_, count, itemAt) => {
    const begun = Array.from({ length: count + 1 }, (__, at): Event => {
      const [item, place] = itemAt(at);
      return ["response.output_item.added", { item, output_index: place }];
    });
    eventsOf(begun.slice(0, count));
    expect(() => eventsOf(begun)).toThrow(refusal);
  });
});

/** Servers that imitate the interface leave out one thing or another. */
describe("no text is lost or repeated if a stream has it", () => {
  const streams: Readonly<Record<string, readonly Event[]>> = {
    "in deltas and in all that follows them": [
      textDelta("Hel"),
      textDelta("lo"),
      textDone,
      done(message, 0),
      ended([message]),
    ],
    "in deltas alone": [textDelta("Hel"), textDelta("lo"), ended([])],
    "in deltas, and no output at the end": [textDelta("Hel"), textDelta("lo"), ended(undefined)],
    "at the end of its part": [textDelta(""), textDone, done(message, 0), ended([message])],
    "at the end of its item": [done(message, 0), ended([message])],
    "at the very end": [ended([message])],
    "in deltas that say nothing of their place, and at another place in the end": [
      textDelta("Hel", { output_index: undefined, item_id: undefined }),
      textDelta("lo", { output_index: 7, item_id: "x" }),
      done(message, 3),
      ended([reasoning, message]),
    ],
  };

  test.each(Object.entries(streams))("%s", (_, events) => {
    const { texts, reason } = decodedStream(events);
    expect([texts["content"], reason]).toEqual(["Hello", "stop"]);
    expect(texts["role"]).toBe("assistant");
  });

  test("of two messages at the end of their items", () => {
    const { texts } = decodedStream([
      done(message, 0),
      done(message, 1),
      ended([message, message]),
    ]);
    expect(texts).toMatchObject({ content: "HelloHello" });
  });
});

describe("no call is lost or repeated if a stream has it", () => {
  const streams: Readonly<Record<string, readonly Event[]>> = {
    "in deltas and in all that follows them": [
      added(call, 0),
      argumentsDelta('{"a"', { item_id: "fc_1", output_index: 0 }),
      argumentsDelta(":1}", { item_id: "fc_1", output_index: 0 }),
      [
        "response.function_call_arguments.done",
        { item_id: "fc_1", output_index: 0, arguments: '{"a":1}' },
      ],
      done(call, 0),
      added(custom, 1),
      ["response.custom_tool_call_input.delta", { item_id: "ct_1", output_index: 1, delta: "do" }],
      ["response.custom_tool_call_input.done", { item_id: "ct_1", output_index: 1, input: "do" }],
      done(custom, 1),
      ended([call, custom]),
    ],
    "begun together, their deltas mixed": [
      added(call, 0),
      added(custom, 1),
      argumentsDelta('{"a"', { output_index: 0 }),
      ["response.custom_tool_call_input.delta", { output_index: 1, delta: "do" }],
      argumentsDelta(":1}", { output_index: 0 }),
      ended([]),
    ],
    "by ids that change from event to event": [
      added(call, 0),
      argumentsDelta('{"a":', { item_id: "other", output_index: 0 }),
      argumentsDelta("1}", { item_id: "another", output_index: 0 }),
      done(custom, 1),
      ended([
        { ...call, id: "fc_9" },
        { ...custom, id: "ct_9" },
      ]),
    ],
    "by ids alone, or by nothing": [
      ["response.output_item.added", { item: { ...call, arguments: "" } }],
      argumentsDelta('{"a":', { item_id: "fc_1" }),
      argumentsDelta("1}", {}),
      ended([call, custom]),
    ],
    "with all their arguments from the beginning": [
      ["response.output_item.added", { output_index: 0, item: call }],
      done(call, 0),
      ended([call, custom]),
    ],
    "at the end of their items, whose deltas began with nothing": [
      argumentsDelta('{"a":1}', { output_index: 0 }),
      done(call, 0),
      done(custom, 1),
      ended([call, custom]),
    ],
    "at the very end": [ended([call, custom])],
  };

  test.each(Object.entries(streams))("%s", (_, events) => {
    expect(decodedStream(events)).toMatchObject({
      calls: ['call_1f{"a":1}', "call_2cdo"],
      reason: "tool_calls",
    });
  });
});
