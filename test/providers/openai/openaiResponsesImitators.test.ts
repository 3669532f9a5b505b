import { describe, expect, test } from "bun:test";
import {
  added,
  argumentsDelta,
  call,
  custom,
  done,
  ended,
  heard,
  message,
  reasoning,
  textDelta,
  textDone,
  type Event,
} from "../../support/provider/responsesStream.ts";

/** Servers that imitate the interface leave out one thing or another. */
describe("nothing is lost and nothing said twice of a stream with its text", () => {
  const streams: readonly (readonly [string, readonly Event[]])[] = [
    [
      "in deltas and in all that follows them",
      [textDelta("Hel"), textDelta("lo"), textDone, done(message, 0), ended([message])],
    ],
    ["in deltas alone", [textDelta("Hel"), textDelta("lo"), ended([])]],
    ["in deltas, and no output at the end", [textDelta("Hel"), textDelta("lo"), ended(undefined)]],
    ["at the end of its part", [textDelta(""), textDone, done(message, 0), ended([message])]],
    ["at the end of its item", [done(message, 0), ended([message])]],
    ["at the very end", [ended([message])]],
    [
      "in deltas that say nothing of their place, and at another place in the end",
      [
        textDelta("Hel", { output_index: undefined, item_id: undefined }),
        textDelta("lo", { output_index: 7, item_id: "x" }),
        done(message, 3),
        ended([reasoning, message]),
      ],
    ],
  ];

  test.each(streams)("%s", (_, events) => {
    const { texts, reason } = heard(events);
    expect([texts["content"], reason]).toEqual(["Hello", "stop"]);
    expect(texts["role"]).toBe("assistant");
  });

  test("of two messages at the end of their items", () => {
    const { texts } = heard([done(message, 0), done(message, 1), ended([message, message])]);
    expect(texts).toMatchObject({ content: "HelloHello" });
  });
});

describe("nothing is lost and nothing said twice of a stream with its calls", () => {
  const streams: readonly (readonly [string, readonly Event[]])[] = [
    [
      "in deltas and in all that follows them",
      [
        added(call, 0),
        argumentsDelta('{"a"', { item_id: "fc_1", output_index: 0 }),
        argumentsDelta(":1}", { item_id: "fc_1", output_index: 0 }),
        [
          "response.function_call_arguments.done",
          { item_id: "fc_1", output_index: 0, arguments: '{"a":1}' },
        ],
        done(call, 0),
        added(custom, 1),
        [
          "response.custom_tool_call_input.delta",
          { item_id: "ct_1", output_index: 1, delta: "do" },
        ],
        ["response.custom_tool_call_input.done", { item_id: "ct_1", output_index: 1, input: "do" }],
        done(custom, 1),
        ended([call, custom]),
      ],
    ],
    [
      "begun together, their deltas mixed",
      [
        added(call, 0),
        added(custom, 1),
        argumentsDelta('{"a"', { output_index: 0 }),
        ["response.custom_tool_call_input.delta", { output_index: 1, delta: "do" }],
        argumentsDelta(":1}", { output_index: 0 }),
        ended([]),
      ],
    ],
    [
      "by ids that change from event to event",
      [
        added(call, 0),
        argumentsDelta('{"a":', { item_id: "other", output_index: 0 }),
        argumentsDelta("1}", { item_id: "another", output_index: 0 }),
        done(custom, 1),
        ended([
          { ...call, id: "fc_9" },
          { ...custom, id: "ct_9" },
        ]),
      ],
    ],
    [
      "by ids alone, or by nothing",
      [
        ["response.output_item.added", { item: { ...call, arguments: "" } }],
        argumentsDelta('{"a":', { item_id: "fc_1" }),
        argumentsDelta("1}", {}),
        ended([call, custom]),
      ],
    ],
    [
      "with all their arguments from the beginning",
      [
        ["response.output_item.added", { output_index: 0, item: call }],
        done(call, 0),
        ended([call, custom]),
      ],
    ],
    [
      "at the end of their items, whose deltas began with nothing",
      [
        argumentsDelta('{"a":1}', { output_index: 0 }),
        done(call, 0),
        done(custom, 1),
        ended([call, custom]),
      ],
    ],
    ["at the very end", [ended([call, custom])]],
  ];

  test.each(streams)("%s", (_, events) => {
    expect(heard(events)).toMatchObject({
      calls: ['call_1f{"a":1}', "call_2cdo"],
      reason: "tool_calls",
    });
  });
});
