import { eventsIn, fieldsOf } from "./serverSentEvents.ts";
import {
  check,
  type ClientAnswer,
  type ClientStream,
  countOf,
  listOf,
  membersOf,
  openaiError,
  openaiUsage,
  type Speaker,
  textOf,
  understood,
} from "./speaker.ts";

/** A client of https://platform.openai.com/docs/api-reference/chat. It asks for the usage in streams. */
export const chatSpeaker: Speaker = {
  endpoint: "chat",
  path: "/v1/chat/completions",
  body: ({ body }) => ({
    ...body,
    ...(body["stream"] === true && { stream_options: { include_usage: true } }),
  }),
  restated: (asks) => asks,
  read(text) {
    const completion = membersOf(JSON.parse(text));
    const [choice, ...others] = listOf(completion["choices"]).map(membersOf);
    check(completion["object"] === "chat.completion" && others.length === 0, "not one choice");
    const message = membersOf(choice?.["message"]);
    check(choice?.["index"] === 0 && message["role"] === "assistant", "not the assistant's");
    const calls = listOf(message["tool_calls"] ?? []).map((call) => {
      const { id, type, function: called } = membersOf(call);
      check(type === "function", "a call of another type");
      return callOf(id, membersOf(called));
    });
    return {
      text: textOf(message["content"]),
      reasoning: message["reasoning_content"] as string | undefined,
      toolCalls: calls,
      finish: textOf(choice["finish_reason"]),
      usage: openaiUsage(completion["usage"], "prompt", "completion"),
    };
  },
  readStream,
  error: openaiError,
};

function readStream(text: string): ClientStream {
  const all = eventsIn(text);
  check(all.at(-1)?.data === "[DONE]", "the stream does not end with [DONE]");
  const events = all.slice(0, -1);
  const calls: { id: unknown; name: unknown; arguments: string }[] = [];
  let answer: Omit<ClientAnswer, "toolCalls"> = {
    text: "",
    reasoning: undefined,
    finish: "",
    usage: undefined,
  };
  let head: readonly unknown[] | undefined;
  for (const [at, event] of events.entries()) {
    const { id, object, created, model, choices, usage, error } = fieldsOf(event);
    check(event.name === undefined && object === "chat.completion.chunk", "not a chunk");
    check(typeof id === "string" && typeof model === "string", "a chunk without id or model");
    check(Bun.deepEquals([id, model], (head ??= [id, model])), "the chunks are of two answers");
    check(typeof created === "number", "a chunk without a time");
    check(answer.finish === "", "a chunk follows the finish reason");
    const [choice, ...others] = listOf(choices).map(membersOf);
    check(choice?.["index"] === 0 && others.length === 0, "not one choice");
    const finish = choice["finish_reason"];
    if (error !== undefined) {
      check(finish === "error" && at === events.length - 2, "an error that ends nothing");
      check(Bun.deepEquals(fieldsOf(events[at + 1] ?? event), { error }), "no error alone");
      const { type, message } = membersOf(error);
      return { ended: "failed", type: textOf(type), message: textOf(message) };
    }
    const delta = membersOf(choice["delta"]);
    for (const piece of listOf(delta["tool_calls"] ?? [])) addCall(calls, membersOf(piece));
    const reasoning = delta["reasoning_content"];
    answer = {
      text: answer.text + textOf(delta["content"] ?? ""),
      reasoning: reasoning ? (answer.reasoning ?? "") + textOf(reasoning) : answer.reasoning,
      finish: textOf(finish ?? ""),
      usage: openaiUsage(usage, "prompt", "completion"),
    };
  }
  check(answer.finish !== "", "the stream has no finish reason");
  const toolCalls = calls.map(({ id, ...called }) => callOf(id, called));
  return { ended: "whole", answer: { ...answer, toolCalls } };
}

/** The first piece of a call opens it, the next ones add to its arguments. */
function addCall(
  calls: { id: unknown; name: unknown; arguments: string }[],
  { index, id, type, function: called }: Readonly<Record<string, unknown>>,
): void {
  const { name, arguments: given } = membersOf(called);
  if (index === calls.length) {
    check(type === "function", "a call of another type");
    calls.push({ id, name, arguments: "" });
  }
  const open = calls[countOf(index)];
  check(open !== undefined, "a call goes on that did not begin");
  open.arguments += textOf(given ?? "");
}

function callOf(
  id: unknown,
  { name, arguments: given }: Readonly<Record<string, unknown>>,
): object {
  return understood({ id: textOf(id), name: textOf(name), arguments: textOf(given) });
}
