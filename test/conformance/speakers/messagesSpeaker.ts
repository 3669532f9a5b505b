import { type Usage, noUsage } from "../../../src/contract/usage.ts";
import type { AnswerContent, Asked, AskedImage } from "../../providers/conformance/dialect.ts";
import { eventsIn, fieldsOf } from "./serverSentEvents.ts";
import {
  check,
  type ClientAnswer,
  type ClientError,
  type ClientStream,
  countOf,
  listOf,
  membersOf,
  type Speaker,
  textOf,
  understood,
} from "./speaker.ts";

type Fields = Readonly<Record<string, unknown>>;

/** A request must have a bound. */
const bound = 500;
const finishes: Readonly<Record<string, string>> = {
  end_turn: "stop",
  max_tokens: "length",
  tool_use: "tool_calls",
  refusal: "content_filter",
};
const errorTypes = { 400: "invalid_request_error", 404: "not_found_error", 502: "api_error" };

/** A client of https://platform.claude.com/docs/en/api/messages. */
export const messagesSpeaker: Speaker = {
  endpoint: "messages",
  path: "/v1/messages",
  body: ({ asks }) => (asks.format === "json" ? undefined : bodyOf(asks)),
  restated(asks, service) {
    if (service === "native") return { bound, ...asks };
    const { user: _, system, ...others } = asks;
    // The texts of the instructions become one text, and nothing says who the user is.
    return { bound, ...others, ...(system && { system: [system.join("\n\n")] }) };
  },
  read(text) {
    const { type, role, content, stop_reason: reason, usage } = membersOf(JSON.parse(text));
    check(type === "message" && role === "assistant", "not the assistant's message");
    return answerOf(listOf(content).map(membersOf), reason, usage);
  },
  readStream,
  error: (error, requestId) => ({
    type: "error",
    error: {
      type: errorTypeOf(error),
      message: error.message,
      ...(error.code !== undefined && { code: error.code }),
    },
    request_id: requestId,
  }),
};

function errorTypeOf({ status, retryAfter }: ClientError): string {
  return status === 502 && retryAfter !== undefined ? "overloaded_error" : errorTypes[status];
}

function bodyOf(asks: Asked): Fields {
  const { toolChoice, parallelToolCalls, effort, format } = asks;
  const choice = toolChoice ?? (parallelToolCalls === undefined ? undefined : "auto");
  return {
    max_tokens: asks.bound ?? bound,
    messages: messagesOf(asks.conversation ?? []),
    ...(asks.stream && { stream: true }),
    ...(asks.system && { system: asks.system.map((text) => ({ type: "text", text })) }),
    ...(asks.temperature !== undefined && { temperature: asks.temperature }),
    ...(asks.topP !== undefined && { top_p: asks.topP }),
    ...(asks.stop && { stop_sequences: asks.stop }),
    ...(asks.tools && {
      tools: asks.tools.map(({ parameters, ...tool }) => ({
        ...tool,
        input_schema: parameters ?? { type: "object", properties: {} },
      })),
    }),
    ...(choice !== undefined && {
      tool_choice: {
        ...choiceOf(choice),
        ...(parallelToolCalls === false && { disable_parallel_tool_use: true }),
      },
    }),
    ...((effort !== undefined || format !== undefined) && {
      output_config: {
        ...(effort !== undefined && { effort }),
        ...(typeof format === "object" && { format: { type: "json_schema", ...format } }),
      },
    }),
    ...(asks.user !== undefined && { metadata: { user_id: asks.user } }),
  };
}

function choiceOf(choice: NonNullable<Asked["toolChoice"]>): object {
  if (typeof choice !== "string") return { type: "tool", ...choice };
  return { type: choice === "required" ? "any" : choice };
}

/** A text begins a message. Images, calls and results go to the message before them, if it is of the same role. */
function messagesOf(conversation: readonly AnswerContent[]): readonly object[] {
  const messages: { role: string; content: object[] }[] = [];
  for (const piece of conversation) {
    const role = piece.by === "assistant" ? "assistant" : "user";
    const last = messages.at(-1);
    const isNew = last?.role !== role || (piece.by !== "tool" && "text" in piece);
    if (isNew) messages.push({ role, content: [] });
    messages.at(-1)?.content.push(blockOf(piece));
  }
  return messages;
}

function blockOf(piece: AnswerContent): object {
  if (piece.by === "tool") {
    const content = [{ type: "text", text: piece.text }];
    return { type: "tool_result", tool_use_id: piece.answers, content };
  }
  if ("text" in piece) return { type: "text", text: piece.text };
  if ("image" in piece) return { type: "image", source: sourceOf(piece.image) };
  const { id, name, arguments: input } = piece.call;
  return { type: "tool_use", id, name, input };
}

function sourceOf(image: AskedImage): object {
  return "url" in image
    ? { type: "url", url: image.url }
    : { type: "base64", media_type: image.mediaType, data: image.base64 };
}

/** The text that each kind of block collects from its deltas. */
const deltaTexts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  text: { text_delta: "text" },
  thinking: { thinking_delta: "thinking", signature_delta: "signature" },
  tool_use: { input_json_delta: "partial_json" },
};

/** The order of events is that of https://platform.claude.com/docs/en/build-with-claude/streaming. */
function readStream(text: string): ClientStream {
  const events = eventsIn(text).map((event) => {
    const fields = fieldsOf(event);
    // A provider that imitates the interface may leave the names out.
    check(
      (event.name ?? fields["type"]) === fields["type"],
      `an event ${event.name} of another type`,
    );
    return fields;
  });
  const known = events.filter(({ type }) => isKnown(type));
  const last = known.at(-1);
  if (last?.["type"] === "error") {
    const { type, message } = membersOf(last["error"]);
    check(textOf(last["request_id"]).startsWith("req_"), "an error without the request's id");
    check(events.at(-1) === last, "an event follows the error");
    readBlocks(known.slice(0, -1));
    return { ended: "failed", type: textOf(type), message: textOf(message) };
  }
  check(events.at(-1)?.["type"] === "message_stop", "the stream does not end with message_stop");
  check(known.at(-2)?.["type"] === "message_delta", "no message_delta before the end");
  const { blocks, open, startUsage } = readBlocks(known.slice(0, -2));
  check(open === undefined, "a block is open at the end");
  const { delta, usage } = known.at(-2) ?? {};
  check(membersOf(delta)["stop_sequence"] === null, "the delta has no stop_sequence");
  // The end may leave out what has not changed since the start.
  const wholeUsage = usage === undefined ? startUsage : { ...startUsage, ...membersOf(usage) };
  return { ended: "whole", answer: answerOf(blocks, membersOf(delta)["stop_reason"], wholeUsage) };
}

const knownTypes = /^(?:message_(?:start|delta|stop)|content_block_(?:start|delta|stop)|error)$/;

/** Clients skip what they do not know, and pings. */
function isKnown(type: unknown): boolean {
  return knownTypes.test(String(type));
}

type OpenBlock = Record<string, unknown>;

interface OpenMessage {
  readonly blocks: readonly Fields[];
  readonly open: OpenBlock | undefined;
  readonly startUsage: Fields | undefined;
}

/** Reads the events before the end of a message. */
function readBlocks(events: readonly Fields[]): OpenMessage {
  const [start, ...others] = events;
  if (start === undefined) return { blocks: [], open: undefined, startUsage: undefined };
  check(start["type"] === "message_start", "the stream does not begin with message_start");
  const message = membersOf(start["message"]);
  check(message["type"] === "message" && message["role"] === "assistant", "not a message");
  check(typeof message["id"] === "string" && typeof message["model"] === "string", "no id");
  check(message["stop_reason"] === null && listOf(message["content"]).length === 0, "not new");
  const blocks: Fields[] = [];
  let open: OpenBlock | undefined;
  for (const { type, index, content_block: block, delta } of others) {
    check(index === blocks.length, `an event of block ${String(index)} within ${blocks.length}`);
    if (type === "content_block_start") {
      check(open === undefined, "a block begins within another one");
      open = { ...membersOf(block) };
    } else if (type === "content_block_delta") {
      check(open !== undefined, "a delta without its block");
      addDelta(open, membersOf(delta));
    } else {
      check(type === "content_block_stop" && open !== undefined, "an end without its block");
      blocks.push(open);
      open = undefined;
    }
  }
  const { usage } = message;
  return { blocks, open, startUsage: usage === undefined ? undefined : membersOf(usage) };
}

/** Unknown deltas and those of unknown blocks are skipped. */
function addDelta(open: OpenBlock, delta: Fields): void {
  const known = deltaTexts[String(open["type"])];
  const name = known?.[String(delta["type"])];
  const isForeign = Object.values(deltaTexts).some((one) => String(delta["type"]) in one);
  check(known === undefined || name !== undefined || !isForeign, "a delta of another block");
  if (name === undefined) return;
  check(name === "signature" || !open["signature"], "reasoning goes on after its signature");
  open[name] = textOf(open[name] ?? "") + textOf(delta[name]);
}

function answerOf(blocks: readonly Fields[], reason: unknown, usage: unknown): ClientAnswer {
  const textsOf = (type: string, name: string): readonly string[] =>
    blocks.filter((block) => block["type"] === type).map((block) => textOf(block[name]));
  const calls = blocks.filter(({ type }) => type === "tool_use");
  const reasoning = textsOf("thinking", "thinking");
  check(!textsOf("thinking", "signature").includes(""), "reasoning without a signature");
  const finish = finishes[String(reason)];
  check(finish !== undefined, `no stop reason: ${String(reason)}`);
  return {
    text: textsOf("text", "text").join(""),
    reasoning: reasoning.length === 0 ? undefined : reasoning.join(""),
    toolCalls: calls.map(({ id, name, input, partial_json: given }) => {
      check(typeof input === "object", "a call without input");
      const text = textOf(given ?? JSON.stringify(input));
      return understood({ id: textOf(id), name: textOf(name), arguments: text });
    }),
    finish,
    usage: usageOf(usage),
  };
}

/** The input tokens leave out those of the cache. */
function usageOf(value: unknown): Usage | undefined {
  if (value === undefined || value === null) return undefined;
  const usage = membersOf(value);
  const cached = countOf(usage["cache_read_input_tokens"] ?? 0);
  const written = countOf(usage["cache_creation_input_tokens"] ?? 0);
  const lifetimes = membersOf(usage["cache_creation"]);
  return {
    ...noUsage,
    promptTokens: countOf(usage["input_tokens"]) + cached + written,
    cachedTokens: cached,
    cacheWriteTokens: written,
    cacheWrite1hTokens: countOf(lifetimes["ephemeral_1h_input_tokens"] ?? 0),
    completionTokens: countOf(usage["output_tokens"]),
    webSearches: countOf(membersOf(usage["server_tool_use"])["web_search_requests"] ?? 0),
  };
}
