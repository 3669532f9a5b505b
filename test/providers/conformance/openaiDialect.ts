import { openai } from "../../../src/providers/openai/openai.ts";
import type { EncodedRequest } from "../../../src/providers/provider.ts";
import {
  type Asked,
  type AskedTool,
  type Dialect,
  type ExpectedAnswer,
  type ExpectedUsage,
  type AnswerContent,
  noAnthropicCounts,
  askedTool,
  imageOfUrl,
  inPieces,
} from "./dialect.ts";
import { openaiTranscripts } from "./openaiTranscripts.ts";
import { sentText } from "../../support/provider/sentText.ts";

const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1_700_000_000 };
const failedChoice = { index: 0, delta: {}, message: {}, finish_reason: "error" };

/** Chat completions, as https://platform.openai.com/docs/api-reference/chat shows them. */
export const openaiDialect: Dialect = {
  name: "openai chat",
  chat: openai.chat,
  json: (answer) =>
    JSON.stringify({
      ...head,
      object: "chat.completion",
      model: "m",
      choices: [{ index: 0, message: messageOf(answer), finish_reason: answer.finish }],
      ...(answer.usage && { usage: usageOf(answer.usage) }),
    }),
  stream: (answer) =>
    [
      chunk({ role: "assistant", content: "" }),
      ...inPieces(answer.reasoning ?? "").map((piece) => chunk({ reasoning_content: piece })),
      ...inPieces(answer.text ?? "").map((piece) => chunk({ content: piece })),
      ...(answer.toolCalls ?? []).flatMap(callChunks),
      chunk({}, answer.finish),
      ...(answer.usage ? [event({ ...head, choices: [], usage: usageOf(answer.usage) })] : []),
      "data: [DONE]\n\n",
    ].join(""),
  asked,
  error: (status, message) => {
    const type = status < 500 ? "invalid_request_error" : "server_error";
    const error = { error: { message, type, param: null, code: null } };
    return { json: JSON.stringify(error), event: event(error) };
  },
  failures: [
    {
      name: "a choice that failed",
      json: JSON.stringify({ choices: [failedChoice] }),
      stream: event({ ...head, choices: [failedChoice] }),
    },
    {
      name: "choices that are no list",
      json: '{"choices":{}}',
      stream: event({ choices: {} }),
    },
    { name: "no choices", json: '{"choices":[]}' },
  ],
  transcripts: openaiTranscripts,
  leavesOut: [],
  cannot: { ...noAnthropicCounts },
  boundAlways: false,
  reportsCacheWrites: true,
};

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function chunk(delta: object, finishReason: string | null = null): string {
  return event({
    ...head,
    model: "m",
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  });
}

function callChunks(
  call: NonNullable<ExpectedAnswer["toolCalls"]>[number],
  index: number,
): string[] {
  const { id, name, arguments: given } = call;
  const half = Math.ceil(given.length / 2);
  return [
    chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }),
    ...[given.slice(0, half), given.slice(half)].map((piece) =>
      chunk({ tool_calls: [{ index, function: { arguments: piece } }] }),
    ),
  ];
}

function messageOf({ text, reasoning, toolCalls }: ExpectedAnswer): object {
  return {
    role: "assistant",
    content: text ?? null,
    ...(reasoning !== undefined && { reasoning_content: reasoning }),
    ...(toolCalls && {
      tool_calls: toolCalls.map(({ id, ...called }) => ({
        id,
        type: "function",
        function: called,
      })),
    }),
  };
}

function usageOf(usage: ExpectedUsage): object {
  return {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
    prompt_tokens_details: { cached_tokens: usage.cached, cache_write_tokens: usage.cacheWrite },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
  };
}

/** The members of a request that are read back here. */
interface Sent {
  readonly model: string;
  readonly messages: readonly SentMessage[];
  readonly stream?: boolean | null;
  readonly stream_options?: unknown;
  readonly max_tokens?: number;
  readonly temperature?: number | null;
  readonly top_p?: number | null;
  readonly stop?: string | readonly string[] | null;
  readonly reasoning_effort?: string;
  readonly tools?: readonly SentTool[] | null;
  readonly tool_choice?: string | { function: { name: string } } | null;
  readonly parallel_tool_calls?: boolean;
  readonly response_format?: { type: string; json_schema?: { schema: unknown } };
  readonly user?: string;
}

interface SentTool {
  readonly function: AskedTool & { readonly strict?: boolean };
}

interface SentMessage {
  readonly role: string;
  readonly content?: string | readonly SentPart[] | null;
  readonly tool_calls?: readonly { id: string; function: { name: string; arguments: string } }[];
  readonly tool_call_id?: string;
}

interface SentPart {
  readonly type: string;
  readonly text?: string;
  readonly image_url?: { url: string };
}

function asked(encoded: EncodedRequest): Asked {
  const { path } = encoded;
  if (path !== "/chat/completions") throw new Error(`not a chat: ${path}`);
  const sent = JSON.parse(sentText(encoded)) as Sent;
  const instructs = ({ role }: SentMessage) => role === "system" || role === "developer";
  return {
    model: sent.model,
    stream: sent.stream ?? false,
    system: sent.messages.filter(instructs).flatMap((message) => partsOf(message).map(textOf)),
    conversation: sent.messages.filter((message) => !instructs(message)).flatMap(utterancesOf),
    ...(sent.max_tokens !== undefined && { bound: sent.max_tokens }),
    ...(typeof sent.temperature === "number" && { temperature: sent.temperature }),
    ...(typeof sent.top_p === "number" && { topP: sent.top_p }),
    ...(sent.stop && { stop: [sent.stop].flat() }),
    ...(sent.reasoning_effort && { effort: sent.reasoning_effort }),
    ...(sent.tools && { tools: sent.tools.map(toolOf) }),
    ...(sent.tool_choice && { toolChoice: toolChoiceOf(sent.tool_choice) }),
    ...(sent.parallel_tool_calls !== undefined && { parallelToolCalls: sent.parallel_tool_calls }),
    ...(sent.response_format && {
      format: sent.response_format.json_schema
        ? { schema: sent.response_format.json_schema.schema }
        : "json",
    }),
    ...(sent.user !== undefined && { user: sent.user }),
  };
}

function utterancesOf(message: SentMessage): readonly AnswerContent[] {
  const { role, tool_calls: calls = [], tool_call_id: answers = "" } = message;
  if (role === "tool") {
    return [{ by: "tool", answers, text: partsOf(message).map(textOf).join("") }];
  }
  const by = role === "assistant" ? "assistant" : "user";
  return [
    ...partsOf(message).map((part): AnswerContent =>
      part.image_url
        ? { by: "user", image: imageOfUrl(part.image_url.url) }
        : { by, text: textOf(part) },
    ),
    ...calls.map(({ id, function: { name, arguments: given } }): AnswerContent => ({
      by: "assistant",
      call: { id, name, arguments: JSON.parse(given) },
    })),
  ];
}

function partsOf({ content }: SentMessage): readonly SentPart[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
}

function textOf(part: SentPart): string {
  return part.text ?? "";
}

function toolOf({ function: { strict = false, ...tool } }: SentTool): AskedTool {
  if (strict) throw new Error("no function as it was meant");
  return askedTool(tool);
}

function toolChoiceOf(choice: NonNullable<Sent["tool_choice"]>): NonNullable<Asked["toolChoice"]> {
  if (typeof choice !== "string") return { name: choice.function.name };
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  throw new Error(`no choice of the interface's: ${choice}`);
}
