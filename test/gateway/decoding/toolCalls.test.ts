import { describe, expect, test } from "bun:test";
import { array, assert as assertProperty, dictionary, nat, property, string } from "fast-check";
import { noUsage } from "../../../src/contract/usage.ts";
import { ChatDecoder } from "../../../src/gateway/decoding/chatDecoder.ts";
import {
  publicCompletion,
  type AnswerIdentity,
} from "../../../src/gateway/decoding/publicAnswer.ts";
import { StreamedCalls } from "../../../src/gateway/decoding/toolCalls.ts";
import { MessagesForm } from "../../../src/gateway/translation/messages/chatToMessages.ts";
import { openai } from "../../../src/providers/openai/openai.ts";
import { ANSWER_BYTES_MAX, ExcessiveAnswerError } from "../../../src/providers/provider.ts";
import { messagesSpeaker } from "../../conformance/speakers/messagesSpeaker.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

const identity: AnswerIdentity = {
  id: "chatcmpl-0123456789012345678901234567890123456789",
  model: "m",
  created: 1,
  unknownFields: "forward",
  toolNames: new Map([["short", "the_name_of_the_client"]]),
};
const callOf = (index: number, name: string, text = "{}") => ({
  index,
  id: `c${index}`,
  type: "function",
  function: { name, arguments: text },
});
const moreOf = (index: number, text: string) => ({ index, function: { arguments: text } });

test("the client gets its own names of tools, in a stream and in JSON", () => {
  const given = [callOf(0, "short"), callOf(1, "other")];
  const shown = [callOf(0, "the_name_of_the_client"), callOf(1, "other")];
  expect(new StreamedCalls(identity).read({ tool_calls: given }, 0)).toEqual({ tool_calls: shown });
  const choices = [{ index: 0, finish_reason: "tool_calls", message: { tool_calls: given } }];
  const { completion } = publicCompletion({ choices }, identity);
  expect(completion.choices[0]?.message["tool_calls"]).toEqual(shown);
});

test("an id that the gateway makes has at most 40 characters", () => {
  const calls = new StreamedCalls(identity);
  const given = Array.from({ length: 1024 }, () => ({ function: { name: "f" } }));
  const { tool_calls: shown } = calls.read({ tool_calls: given }, 0);
  const ids = (shown as unknown as { id: string }[]).map(({ id }) => id);
  expect(new Set(ids).size).toBe(1024);
  expect(Math.max(...ids.map(({ length }) => length))).toBeLessThanOrEqual(40);
});

describe("the memory that the calls of an answer take is bounded:", () => {
  const half = "x".repeat(ANSWER_BYTES_MAX / 2);
  test.each([
    ["arguments before a name", { id: "a", function: { arguments: half } }],
    ["arguments", callOf(0, "f", half)],
    ["ids", { id: half, function: { name: "f" } }],
    ["calls", { function: { name: "f" } }],
  ])("%s", (_, part) => {
    const calls = new StreamedCalls(identity);
    expect(() => {
      for (let times = 0; times < 1025; times++) {
        const isText = JSON.stringify(part).length > half.length;
        calls.read({ tool_calls: [isText ? { ...part, index: times } : part] }, 0);
      }
    }).toThrow(ExcessiveAnswerError);
  });

  test("what waits for the end of a call in a stream of Messages", () => {
    const form = new MessagesForm({ requestId: "req_1", model: "m", promptEstimate: 1 });
    const chunkOf = (delta: object) => ({
      id: "x",
      object: "chat.completion.chunk" as const,
      created: 1,
      model: "m",
      choices: [{ index: 0, delta: { ...delta }, finish_reason: null }],
    });
    form.chunk(chunkOf({ tool_calls: [callOf(0, "f", "{")] }), undefined);
    form.chunk(chunkOf({ content: half }), undefined);
    expect(() => form.chunk(chunkOf({ content: half }), undefined)).toThrow(ExcessiveAnswerError);
  });
});

test("a stream of Messages has each call whole, however their parts are mixed", () => {
  const argumentsOf = dictionary(string({ unit: "binary" }), string({ unit: "binary" }));
  assertProperty(
    property(array(argumentsOf, { minLength: 1, maxLength: 4 }), array(nat()), (calls, order) => {
      const texts = calls.map((one) => JSON.stringify(one));
      const events = calls.map((_, at) => chatEvent({ tool_calls: [callOf(at, `f${at}`, "")] }));
      for (let step = 0; texts.some((text) => text !== ""); step++) {
        const open = texts.flatMap((text, at) => (text === "" ? [] : [at]));
        const choice = order[step % (order.length || 1)] ?? 0;
        const at = open[choice % open.length] ?? 0;
        const text = texts[at] ?? "";
        const length = 1 + (choice % 9);
        events.push(chatEvent({ tool_calls: [moreOf(at, text.slice(0, length))] }));
        texts[at] = text.slice(length);
      }
      const decoder = new ChatDecoder({
        readEvent: openai.chat.events(),
        identity,
        choiceCount: 1,
        form: new MessagesForm({ requestId: "req_1", model: "m", promptEstimate: 1 }),
      });
      decoder.push(Buffer.from(events.join("") + chatEvent({}, "stop")));
      const result = messagesSpeaker.readStream((decoder.take() ?? "") + decoder.ending(noUsage));
      if (result.ended !== "whole") throw new Error("the stream failed");
      expect(result.answer.toolCalls).toEqual(
        calls.map((one, at) => ({ id: `c${at}`, name: `f${at}`, arguments: one })),
      );
    }),
  );
});
