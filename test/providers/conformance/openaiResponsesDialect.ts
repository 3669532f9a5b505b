import { openaiResponses } from "../../../src/providers/openai/openaiResponses.ts";
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
import { openaiResponsesTranscripts } from "./openaiResponsesTranscripts.ts";
import { sentText } from "../../support/provider/sentText.ts";

const notSupported = (path: string): string => `${path} is not supported by this model's provider`;
const failed = { ...responseOf({ finish: "stop" }), status: "failed" };

/** Chat over the responses interface, as https://platform.openai.com/docs/api-reference/responses shows it. */
export const openaiResponsesDialect: Dialect = {
  name: "openai over responses",
  chat: openaiResponses,
  json: (answer) => JSON.stringify(responseOf(answer)),
  stream: streamOf,
  asked,
  error: (status, message) => {
    const type = status < 500 ? "invalid_request_error" : "server_error";
    return {
      json: JSON.stringify({ error: { message, type, param: null, code: null } }),
      event: event("error", { code: type, message, param: null, sequence_number: 9 }),
    };
  },
  failures: [
    { name: "a failed response", json: JSON.stringify(failed) },
    {
      name: "a failed response without a word why",
      json: '{"object":"response","status":"failed","output":[]}',
    },
    { name: "a response that goes on", json: '{"status":"in_progress","output":[]}' },
    { name: "a cancelled response", json: '{"status":"cancelled","output":[]}' },
    { name: "a response without output", json: '{"object":"response","status":"completed"}' },
    {
      name: "a text that is none",
      json: '{"output":[{"type":"message","content":[{"type":"output_text","text":5}]}]}',
      stream: event("response.output_text.delta", { delta: 5 }),
    },
    {
      name: "a call without a name",
      json: '{"output":[{"type":"function_call","call_id":"c"}]}',
      stream: event("response.output_item.added", { item: { type: "function_call", id: "c" } }),
    },
    { name: "an error", stream: event("error", { code: "server_error", message: "no" }) },
    {
      name: "the event of a failed response",
      stream: event("response.failed", { response: failed }),
    },
    { name: "an end without its response", stream: event("response.completed", {}) },
    {
      name: "an end that says that it is none",
      stream: event("response.completed", { response: { ...failed, error: null } }),
    },
  ],
  transcripts: openaiResponsesTranscripts,
  leavesOut: ["stop"],
  cannot: { ...noAnthropicCounts, "two choices": notSupported("n") },
  boundAlways: false,
  reportsCacheWrites: true,
};

function event(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

function responseOf(answer: ExpectedAnswer): Record<string, unknown> {
  const isIncomplete = answer.finish === "length" || answer.finish === "content_filter";
  const reason = answer.finish === "length" ? "max_output_tokens" : "content_filter";
  return {
    id: "resp_1",
    object: "response",
    created_at: 1_700_000_000,
    status: isIncomplete ? "incomplete" : "completed",
    error: null,
    incomplete_details: isIncomplete ? { reason } : null,
    model: "m",
    output: itemsOf(answer),
    usage: answer.usage ? usageOf(answer.usage) : null,
  };
}

function itemsOf({
  reasoning,
  text,
  toolCalls = [],
}: ExpectedAnswer): readonly Record<string, unknown>[] {
  const summary = [{ type: "summary_text", text: reasoning }];
  const content = [{ type: "output_text", text, annotations: [] }];
  return [
    ...(reasoning === undefined ? [] : [{ id: "rs_1", type: "reasoning", summary }]),
    ...(text === undefined
      ? []
      : [{ id: "msg_1", type: "message", status: "completed", role: "assistant", content }]),
    ...toolCalls.map(({ id, name, arguments: given }) => ({
      id: `fc_${id}`,
      type: "function_call",
      status: "completed",
      call_id: id,
      name,
      arguments: given,
    })),
  ];
}

function usageOf(usage: ExpectedUsage): object {
  return {
    input_tokens: usage.prompt,
    input_tokens_details: { cached_tokens: usage.cached, cache_write_tokens: usage.cacheWrite },
    output_tokens: usage.completion,
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: usage.prompt + usage.completion,
  };
}

function streamOf(answer: ExpectedAnswer): string {
  const whole = responseOf(answer);
  const begun = {
    ...whole,
    status: "in_progress",
    incomplete_details: null,
    output: [],
    usage: null,
  };
  const events: readonly Event[] = [
    ["response.created", { response: begun }],
    ["response.in_progress", { response: begun }],
    ...itemsOf(answer).flatMap((item, at) => itemEvents(item, at, answer)),
    [`response.${String(whole["status"])}`, { response: whole }],
  ];
  return events
    .map(([type, fields], at) => event(type, { sequence_number: at, ...fields }))
    .join("");
}

type Event = readonly [type: string, fields: object];

/** One item from its beginning to its end, in the order of the documentation. */
function itemEvents(
  item: Record<string, unknown>,
  at: number,
  answer: ExpectedAnswer,
): readonly Event[] {
  const place = { item_id: item["id"], output_index: at };
  const around = (open: object, inside: readonly Event[]): readonly Event[] => [
    ["response.output_item.added", { output_index: at, item: { ...item, ...open } }],
    ...inside,
    ["response.output_item.done", { output_index: at, item }],
  ];
  switch (item["type"]) {
    case "reasoning": {
      const { reasoning = "" } = answer;
      const index = { ...place, summary_index: 0 };
      const part = (text: string) => ({ ...index, part: { type: "summary_text", text } });
      return around({ summary: [] }, [
        ["response.reasoning_summary_part.added", part("")],
        ...deltas("response.reasoning_summary_text", index, "text", reasoning),
        ["response.reasoning_summary_part.done", part(reasoning)],
      ]);
    }
    case "message": {
      const { text: whole = "" } = answer;
      const index = { ...place, content_index: 0 };
      const part = (text: string) => ({
        ...index,
        part: { type: "output_text", text, annotations: [] },
      });
      return around({ status: "in_progress", content: [] }, [
        ["response.content_part.added", part("")],
        ...deltas("response.output_text", index, "text", whole),
        ["response.content_part.done", part(whole)],
      ]);
    }
    case "function_call":
      return around(
        { status: "in_progress", arguments: "" },
        deltas("response.function_call_arguments", place, "arguments", String(item["arguments"])),
      );
    default:
      throw new Error("an item of no known type");
  }
}

/** A text in several deltas, and then the whole of it in the field of this name. */
function deltas(
  name: string,
  place: object,
  field: "text" | "arguments",
  whole: string,
): readonly Event[] {
  return [
    ...inPieces(whole).map((delta): Event => [`${name}.delta`, { ...place, delta }]),
    [`${name}.done`, { ...place, [field]: whole }],
  ];
}

/** The members of a request that are read back here. */
interface Sent {
  readonly model: string;
  readonly input: readonly SentItem[];
  readonly store: boolean;
  readonly stream?: boolean;
  readonly max_output_tokens?: number;
  readonly temperature?: number;
  readonly top_p?: number;
  readonly stop?: readonly string[];
  readonly reasoning?: { effort?: string };
  readonly tools?: readonly SentTool[];
  readonly tool_choice?: string | { name: string };
  readonly parallel_tool_calls?: boolean;
  readonly text?: { format?: { type: string; schema?: unknown } };
  readonly user?: string;
}

interface SentItem {
  readonly type?: string;
  readonly role?: string;
  readonly content?: string | readonly SentPart[];
  readonly call_id?: string;
  readonly name?: string;
  readonly arguments?: string;
  readonly output?: string | readonly SentPart[];
}

interface SentPart {
  readonly type: string;
  readonly text?: string;
  readonly image_url?: string;
}

interface SentTool {
  readonly type: string;
  readonly name: string;
  readonly description?: string;
  readonly parameters: object;
  readonly strict: boolean;
}

function asked(encoded: EncodedRequest): Asked {
  const { path } = encoded;
  if (path !== "/responses") throw new Error(`no response: ${path}`);
  const sent = JSON.parse(sentText(encoded)) as Sent;
  if (sent.store) throw new Error("a chat is not to be stored");
  const instructs = ({ role }: SentItem) => role === "system" || role === "developer";
  const { input, text, reasoning } = sent;
  return {
    model: sent.model,
    stream: sent.stream ?? false,
    system: input.filter(instructs).flatMap(({ content }) => textsOf(content)),
    conversation: input.filter((item) => !instructs(item)).flatMap(utterancesOf),
    ...(sent.max_output_tokens !== undefined && { bound: sent.max_output_tokens }),
    ...(sent.temperature !== undefined && { temperature: sent.temperature }),
    ...(sent.top_p !== undefined && { topP: sent.top_p }),
    ...(sent.stop && { stop: sent.stop }),
    ...(reasoning?.effort !== undefined && { effort: reasoning.effort }),
    ...(sent.tools && { tools: sent.tools.map(toolOf) }),
    ...(sent.tool_choice !== undefined && { toolChoice: toolChoiceOf(sent.tool_choice) }),
    ...(sent.parallel_tool_calls !== undefined && { parallelToolCalls: sent.parallel_tool_calls }),
    ...(text?.format && {
      format: text.format.type === "json_schema" ? { schema: text.format.schema } : "json",
    }),
    ...(sent.user !== undefined && { user: sent.user }),
  };
}

function utterancesOf(item: SentItem): readonly AnswerContent[] {
  const { type = "message", role, content, call_id: id = "", name = "" } = item;
  if (type === "function_call_output") {
    return [{ by: "tool", answers: id, text: textsOf(item.output).join("") }];
  }
  if (type === "function_call") {
    return [{ by: "assistant", call: { id, name, arguments: JSON.parse(item.arguments ?? "") } }];
  }
  const by = role === "assistant" ? "assistant" : "user";
  if (typeof content === "string") return [{ by, text: content }];
  return (content ?? []).map((part): AnswerContent => {
    if (part.image_url !== undefined) return { by: "user", image: imageOfUrl(part.image_url) };
    return { by, text: textsOf([part]).join("") };
  });
}

/** What an assistant answer is told apart from what is answer to it by the type of its parts. */
function textsOf(content: string | readonly SentPart[] = ""): readonly string[] {
  if (typeof content === "string") return [content];
  return content.map(({ type, text }) => {
    if (type !== "input_text" && type !== "output_text") throw new Error(`no text: ${type}`);
    return text ?? "";
  });
}

function toolOf({ type, strict, ...tool }: SentTool): AskedTool {
  if (type !== "function" || strict) throw new Error("no function as it was meant");
  return askedTool(tool);
}

function toolChoiceOf(choice: NonNullable<Sent["tool_choice"]>): NonNullable<Asked["toolChoice"]> {
  if (typeof choice !== "string") return { name: choice.name };
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  throw new Error(`no choice of the interface's: ${choice}`);
}
