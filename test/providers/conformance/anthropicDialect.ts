import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import type { EncodedRequest } from "../../../src/providers/provider.ts";
import { anthropicTranscripts } from "./anthropicTranscripts.ts";
import {
  type Asked,
  type AskedImage,
  type Dialect,
  type ExpectedAnswer,
  type ExpectedUsage,
  type AnswerContent,
  askedTool,
  inPieces,
} from "./dialect.ts";
import { sentText } from "../../support/provider/sentText.ts";

type Block = Readonly<Record<string, unknown>>;

const head = { id: "msg_1", type: "message", role: "assistant", model: "claude" };
const begun = { ...head, content: [], stop_reason: null, stop_sequence: null };
const stopReasons = {
  stop: "end_turn",
  length: "max_tokens",
  content_filter: "refusal",
  tool_calls: "tool_use",
};
/** Of a request with a bound that leaves room for them. */
const efforts: Readonly<Record<number, string>> = {
  2048: "low",
  8192: "medium",
  16_384: "high",
  32_768: "xhigh",
};
const errorTypes: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  404: "not_found_error",
  429: "rate_limit_error",
  529: "overloaded_error",
};
const overloaded = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };

/** The Messages API, as https://platform.claude.com/docs/en/api/messages shows it. */
export const anthropicDialect: Dialect = {
  name: "anthropic",
  chat: anthropic.chat,
  json: (answer) =>
    JSON.stringify({
      ...head,
      content: blocksOf(answer),
      stop_reason: stopReasons[answer.finish],
      stop_sequence: null,
      ...(answer.usage && { usage: usageOf(answer.usage) }),
    }),
  stream: (answer) =>
    [
      { type: "message_start", message: { ...begun, ...startUsage(answer.usage) } },
      { type: "ping" },
      ...blocksOf(answer).flatMap(blockEvents),
      {
        type: "message_delta",
        delta: { stop_reason: stopReasons[answer.finish], stop_sequence: null },
        ...(answer.usage && { usage: usageOf(answer.usage) }),
      },
      { type: "message_stop" },
    ]
      .map(eventOf)
      .join(""),
  asked,
  error: (status, message) => {
    const type = errorTypes[status] ?? "api_error";
    const error = { type: "error", error: { type, message }, request_id: "req_1" };
    return { json: JSON.stringify(error), event: eventOf(error) };
  },
  failures: [
    {
      name: "an error of the provider's",
      json: JSON.stringify(overloaded),
      stream: eventOf(overloaded),
    },
    {
      name: "an error after the message began",
      stream: eventOf({ type: "message_start", message: head }) + eventOf(overloaded),
    },
    { name: "an error without a word", stream: "event: error\ndata: {}\n\n" },
    { name: "a message without content", json: JSON.stringify(head) },
    {
      name: "a call without a name",
      json: JSON.stringify({ ...head, content: [{ type: "tool_use", id: "a" }] }),
      stream: eventOf({
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use" },
      }),
    },
    {
      name: "a call that goes on before it began",
      stream: eventOf({
        type: "content_block_delta",
        index: 0,
        delta: { type: "input_json_delta", partial_json: "{" },
      }),
    },
  ],
  transcripts: anthropicTranscripts,
  leavesOut: [],
  cannot: {
    "two choices": "n is not supported by this model's provider",
  },
  boundAlways: true,
  reportsCacheWrites: true,
};

function eventOf(data: Block): string {
  return `event: ${String(data["type"])}\ndata: ${JSON.stringify(data)}\n\n`;
}

function blocksOf({ reasoning, text, toolCalls = [] }: ExpectedAnswer): Block[] {
  return [
    ...(reasoning === undefined
      ? []
      : [{ type: "thinking", thinking: reasoning, signature: "EqQBCgIYAh" }]),
    ...(text === undefined ? [] : [{ type: "text", text }]),
    ...toolCalls.map(({ id, name, arguments: given }) => ({
      type: "tool_use",
      id,
      name,
      input: JSON.parse(given) as unknown,
    })),
  ];
}

function blockEvents(block: Block, index: number): Block[] {
  const { start, deltas } = spokenBlock(block);
  return [
    { type: "content_block_start", index, content_block: start },
    ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ];
}

function spokenBlock(block: Block): { start: Block; deltas: Block[] } {
  const { type, thinking, text, signature, input } = block;
  if (type === "text") {
    const deltas = inPieces(String(text)).map((piece) => ({ type: "text_delta", text: piece }));
    return { start: { type, text: "" }, deltas };
  }
  if (type === "thinking") {
    return {
      start: { type, thinking: "", signature: "" },
      deltas: [
        ...inPieces(String(thinking)).map((piece) => ({ type: "thinking_delta", thinking: piece })),
        { type: "signature_delta", signature },
      ],
    };
  }
  const whole = JSON.stringify(input);
  const halves = whole === "{}" ? [""] : ["", whole.slice(0, 5), whole.slice(5)];
  return {
    start: { ...block, input: {} },
    deltas: halves.map((piece) => ({ type: "input_json_delta", partial_json: piece })),
  };
}

/** The interface counts cached tokens beside the prompt's others. */
function usageOf(usage: ExpectedUsage): object {
  return {
    input_tokens: usage.prompt - usage.cached - usage.cacheWrite,
    cache_read_input_tokens: usage.cached,
    cache_creation_input_tokens: usage.cacheWrite,
    output_tokens: usage.completion,
    output_tokens_details: { thinking_tokens: usage.reasoning },
    ...(usage.cacheWrite1h !== undefined && {
      cache_creation: {
        ephemeral_5m_input_tokens: usage.cacheWrite - usage.cacheWrite1h,
        ephemeral_1h_input_tokens: usage.cacheWrite1h,
      },
    }),
    ...(usage.webSearches !== undefined && {
      server_tool_use: { web_search_requests: usage.webSearches, web_fetch_requests: 0 },
    }),
    service_tier: "standard",
  };
}

/** At the start the output's figure is only a placeholder. */
function startUsage(usage: ExpectedUsage | undefined): object {
  return usage ? { usage: { ...usageOf(usage), output_tokens: 1 } } : {};
}

/** The members of a request that are read back here. */
interface Sent {
  readonly model: string;
  readonly max_tokens: number;
  readonly stream?: boolean;
  readonly system?: readonly { text: string }[];
  readonly messages: readonly { role: "user" | "assistant"; content: readonly SentBlock[] }[];
  readonly temperature?: number;
  readonly top_p?: number;
  readonly stop_sequences?: readonly string[];
  readonly thinking?: { budget_tokens: number };
  readonly tools?: readonly { name: string; description?: string; input_schema: object }[];
  readonly tool_choice?: { type: string; name?: string; disable_parallel_tool_use?: boolean };
  readonly output_config?: { effort?: string; format?: { type: string; schema: unknown } };
  readonly metadata?: { user_id: string };
}

interface SentBlock {
  readonly type: string;
  readonly text: string;
  readonly source: { type: string; url: string; media_type: string; data: string };
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  readonly tool_use_id: string;
  readonly content?: readonly { text: string }[];
}

/** The interface has no other way to ask for any JSON object. */
const ASKS_FOR_JSON = /exactly one JSON object and nothing else/;

function asked(encoded: EncodedRequest): Asked {
  const { path } = encoded;
  if (path !== "/messages") throw new Error(`no messages: ${path}`);
  const sent = JSON.parse(sentText(encoded)) as Sent;
  const choice = sent.tool_choice;
  const toolChoice = choice && toolChoiceOf(choice);
  return {
    model: sent.model,
    stream: sent.stream ?? false,
    system: [
      ...(sent.system ?? []).map(({ text }) => text).filter((text) => !ASKS_FOR_JSON.test(text)),
      ...sent.messages.flatMap(({ content }) => content.flatMap(lateInstruction)),
    ],
    conversation: sent.messages.flatMap(({ role, content }) =>
      content
        .filter((block) => lateInstruction(block).length === 0)
        .map((block) => utteranceOf(role, block)),
    ),
    bound: sent.max_tokens,
    ...(sent.temperature !== undefined && { temperature: sent.temperature }),
    ...(sent.top_p !== undefined && { topP: sent.top_p }),
    ...(sent.stop_sequences && { stop: sent.stop_sequences }),
    ...(sent.thinking && { effort: efforts[sent.thinking.budget_tokens] ?? "none" }),
    ...(sent.output_config?.effort !== undefined && { effort: sent.output_config.effort }),
    ...(sent.tools && { tools: sent.tools.map(toolOf) }),
    ...(toolChoice && { toolChoice }),
    ...(choice?.disable_parallel_tool_use && { parallelToolCalls: false }),
    ...(sent.system?.some(({ text }) => ASKS_FOR_JSON.test(text)) && { format: "json" as const }),
    ...(sent.output_config?.format && { format: { schema: sent.output_config.format.schema } }),
    ...(sent.metadata && { user: sent.metadata.user_id }),
  };
}

/** Models that take instructions at the top only are told of later ones in the user's turn. */
function lateInstruction({ type, text }: SentBlock): string[] {
  const [, instruction] = (type === "text" && /^<system>\n(.*)\n<\/system>$/s.exec(text)) || [];
  return instruction === undefined ? [] : [instruction];
}

function utteranceOf(by: "user" | "assistant", block: SentBlock): AnswerContent {
  switch (block.type) {
    case "text":
      return { by, text: block.text };
    case "image":
      return { by: "user", image: imageOf(block.source) };
    case "tool_use":
      return {
        by: "assistant",
        call: { id: block.id, name: block.name, arguments: block.input },
      };
    case "tool_result": {
      const text = (block.content ?? []).map((part) => part.text).join("");
      return { by: "tool", answers: block.tool_use_id, text };
    }
    default:
      throw new Error(`no block of the interface's: ${block.type}`);
  }
}

function imageOf(source: SentBlock["source"]): AskedImage {
  return source.type === "url"
    ? { url: source.url }
    : { mediaType: source.media_type, base64: source.data };
}

function toolOf({ input_schema: parameters, ...tool }: NonNullable<Sent["tools"]>[number]) {
  return askedTool({ ...tool, parameters });
}

/** If only the number of calls is set, the choice stays the default. */
function toolChoiceOf(choice: NonNullable<Sent["tool_choice"]>): Asked["toolChoice"] {
  if (choice.type === "any") return "required";
  if (choice.type === "none") return "none";
  if (choice.name !== undefined) return { name: choice.name };
  return choice.disable_parallel_tool_use ? undefined : "auto";
}
