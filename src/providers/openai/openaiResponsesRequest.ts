import type { ChatRequest } from "../../contract/chat/chatRequest.ts";
import type {
  ChatRequestBody,
  ContentPart,
  RequestMessage,
} from "../../contract/chat/chatRequestBody.ts";
import { COMPARISON_RESPONSE_FIELD } from "../../contract/keyCase.ts";
import { fieldsOf, isJsonObject, type JsonFields, isGiven } from "../../lib/json.ts";
import { withRegisteredType } from "../../lib/mediaType.ts";
import {
  bodyWithOthers,
  refuseOtherAnswers,
  refuseRecording,
  refusalOf,
} from "../chat/chatParts.ts";
import { formatOf, answeredCallOf, callListOf } from "../chat/chatTools.ts";
import { parametersOf } from "../chat/toolSchemas.ts";
import { unsupported, type ChatCall, type EncodedRequest } from "../provider.ts";

/** Fields of the same name and meaning in both interfaces. */
const SHARED_FIELDS = [
  "temperature",
  "top_p",
  "parallel_tool_calls",
  "metadata",
  "user",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "service_tier",
  "moderation",
];

/** Asks for token probabilities. Without it `top_logprobs` has no effect. */
const LOGPROBS = "message.output_text.logprobs";

/** Fields without a counterpart that change the meaning of the request. */
const UNSUPPORTED_FIELDS = ["functions", "function_call"];

/**
 * References to objects in the provider's store. A chat has no ownership check, so the object could be another
 * account's.
 */
const STORED_OBJECT_FIELDS = ["previous_response_id", "conversation", "prompt"];

/**
 * Encodes a chat as https://platform.openai.com/docs/api-reference/responses/create. Throws UnsupportedRequestError.
 * Numbers in schemas that exceed a double lose digits.
 */
export function encodeChat(call: ChatCall): EncodedRequest {
  const { request } = call;
  const body: ChatRequestBody & JsonFields = request.body;
  refuseUnsupported(body, request);
  const fields: Record<string, unknown> = {
    model: call.model,
    input: inputOf(body.messages),
    stream: request.stream || undefined,
    stream_options: request.stream ? streamOptionsOf(body) : undefined,
    // The provider refuses fewer than 16 with an error to the caller.
    max_output_tokens: call.outputTokensBound,
    max_tool_calls: call.toolCallsMax,
    reasoning: reasoningOf(body),
    text: textOf(body),
    tools: isGiven(body["tools"]) ? flatTools(body["tools"]) : undefined,
    tool_choice: isGiven(body["tool_choice"]) ? flatToolChoice(body["tool_choice"]) : undefined,
    top_logprobs:
      body["logprobs"] === true || isGiven(body["include"]) ? body["top_logprobs"] : undefined,
    include: body["logprobs"] === true ? includedWithLogprobs(body["include"]) : undefined,
    // By default the provider keeps each response for a month under an id that the chat's client never learns. The
    // chat brings its whole history, so encrypted reasoning is not needed either.
    store: false,
  };
  for (const name of SHARED_FIELDS) fields[name] = body[name] ?? undefined;
  return { path: "/responses", body: bodyWithOthers(call, fields) };
}

function refuseUnsupported(body: JsonFields, { choiceCount, stop }: ChatRequest): void {
  if (choiceCount > 1) throw unsupported("n");
  // The gateway cuts the text at a stop sequence and cannot cut the token list at the same place.
  if (body["logprobs"] === true && stop.length > 0) throw unsupported("logprobs with stop");
  refuseOtherAnswers(body);
  const { instructions } = body;
  // A list of items could reference stored objects.
  if (isGiven(instructions) && typeof instructions !== "string") {
    throw unsupported("instructions");
  }
  const { prompt_cache_options: options } = body;
  if (isJsonObject(options) && isGiven(options[COMPARISON_RESPONSE_FIELD])) {
    throw unsupported(`prompt_cache_options.${COMPARISON_RESPONSE_FIELD}`);
  }
  const field = [...UNSUPPORTED_FIELDS, ...STORED_OBJECT_FIELDS].find((name) =>
    isGiven(body[name]),
  );
  if (field !== undefined) throw unsupported(field);
}

/** The caller's own `include` values stay. */
function includedWithLogprobs(own: unknown): readonly unknown[] {
  if (!isGiven(own)) return [LOGPROBS];
  if (!Array.isArray(own)) throw unsupported("include");
  return own.includes(LOGPROBS) ? own : [...(own as unknown[]), LOGPROBS];
}

/** Usage always comes with the last event. Only the padding can be chosen. */
function streamOptionsOf(body: JsonFields): object | undefined {
  const padding = fieldsOf(body["stream_options"])["include_obfuscation"];
  return typeof padding === "boolean" ? { include_obfuscation: padding } : undefined;
}

/** The caller's own `reasoning` object, with the chat fields on top. */
function reasoningOf(body: ChatRequestBody & JsonFields): object | undefined {
  const { reasoning_effort: effort, reasoningSummary } = body;
  const summary = reasoningSummary === "detail" ? "detailed" : reasoningSummary;
  return withOwn(body["reasoning"], { effort, summary });
}

function textOf(body: ChatRequestBody & JsonFields): object | undefined {
  const format = formatOf(body);
  const schema =
    format?.kind === "schema"
      ? {
          type: "json_schema",
          name: format.name,
          description: format.description,
          schema: format.schema,
          strict: format.strict,
        }
      : undefined;
  const type = format?.kind === "json" ? { type: "json_object" } : schema;
  return withOwn(body["text"], { format: type, verbosity: body.verbosity });
}

/** The caller's native object with the chat fields on top; undefined without both. */
function withOwn(own: unknown, ours: JsonFields): object | undefined {
  const entries = Object.entries(ours).filter(([, value]) => isGiven(value));
  if (entries.length === 0) return isJsonObject(own) ? own : undefined;
  return { ...fieldsOf(own), ...Object.fromEntries(entries) };
}

function flatTools(tools: unknown): readonly unknown[] {
  if (!Array.isArray(tools)) throw unsupported("tools");
  return tools.map((tool: unknown, index) => toolOf(tool, `tools[${index}]`));
}

/** Functions and custom tools have flat definitions here. Other tools are the provider's own and pass unchanged. */
function toolOf(tool: unknown, path: string): unknown {
  if (!isJsonObject(tool)) throw unsupported(path);
  const { type, function: called, custom } = tool;
  if (type === "function" && isJsonObject(called)) {
    const { name, description, parameters, strict } = called;
    return {
      type,
      name,
      description,
      parameters: parametersOf(isJsonObject(parameters) ? parameters : undefined),
      // Here the default is strict, which not every schema satisfies.
      strict: strict ?? false,
    };
  }
  if (type === "custom" && isJsonObject(custom)) {
    const { name, description, format } = custom;
    return { type, name, description, format: inputFormatOf(format) };
  }
  return tool;
}

function inputFormatOf(format: unknown): unknown {
  if (!isJsonObject(format) || !isJsonObject(format["grammar"])) return format ?? undefined;
  const { syntax, definition } = format["grammar"];
  return { type: format["type"], syntax, definition };
}

function flatToolChoice(choice: unknown): unknown {
  if (typeof choice === "string") return choice;
  if (!isJsonObject(choice)) throw unsupported("tool_choice");
  const { type } = choice;
  const allowed = choice["allowed_tools"];
  if (type === "allowed_tools" && isJsonObject(allowed)) {
    const { mode, tools } = allowed;
    if (!Array.isArray(tools)) throw unsupported("tool_choice");
    return { type, mode, tools: tools.map(namedTool) };
  }
  return namedTool(choice);
}

/** The chat form has the name one level deeper. */
function namedTool(tool: unknown): unknown {
  if (!isJsonObject(tool)) throw unsupported("tool_choice");
  const { type } = tool;
  const named = type === "function" || type === "custom" ? tool[type] : undefined;
  return isJsonObject(named) ? { type, name: named["name"] } : tool;
}

/**
 * The messages as input items:
 * https://platform.openai.com/docs/api-reference/responses/create#responses-create-input. Throws
 * UnsupportedRequestError for content without a counterpart.
 */
function inputOf(messages: readonly RequestMessage[]): readonly object[] {
  /** A result names its call only by id, and results of custom tools have another item type. */
  const customCalls = new Set<string>();
  return messages.flatMap((message, index): readonly object[] => {
    const path = `messages[${index}]`;
    const { role } = message;
    if (role === "tool") return [outputOf(message, path, customCalls)];
    if (role !== "assistant") return [{ role, content: contentOf(message, path, inputPart) }];
    const calls = callsOf(message, path);
    for (const call of calls) if (call.type === "custom_tool_call") customCalls.add(call.call_id);
    return [...messageItems(message, path, calls.length > 0), ...calls];
  });
}

/** An assistant's text and refusal. A text stays a string, which all compatible servers accept. */
function messageItems(
  message: RequestMessage,
  path: string,
  callsTools: boolean,
): readonly object[] {
  const { content } = message;
  refuseRecording(message, path);
  const refusal = refusalOf(message);
  if (refusal !== "") {
    const texts = content === "" ? [] : asParts(contentOf(message, path, outputPart));
    return [{ role: "assistant", content: [...texts, { type: "refusal", refusal }] }];
  }
  if (callsTools && (content ?? "").length === 0) return [];
  return [{ role: "assistant", content: contentOf(message, path, outputPart) }];
}

function asParts(content: string | readonly object[]): readonly object[] {
  return typeof content === "string" ? [{ type: "output_text", text: content }] : content;
}

function contentOf(
  { content }: RequestMessage,
  path: string,
  partOf: (part: ContentPart & JsonFields, path: string) => object,
): string | readonly object[] {
  if (typeof content === "string") return content;
  return (content ?? []).map((part, index) => partOf(part, `${path}.content[${index}]`));
}

function inputPart(part: ContentPart & JsonFields, path: string): object {
  const { type, text } = part;
  // Where the client ends the cached prefix of the prompt.
  const cache = { prompt_cache_breakpoint: part["prompt_cache_breakpoint"] ?? undefined };
  if (type === "text") return { type: "input_text", text, ...cache };
  if (type === "image_url") return { ...imagePart(part["image_url"], path), ...cache };
  if (type === "file") return { ...filePart(part["file"], path), ...cache };
  // The interface has no audio input: https://platform.openai.com/docs/guides/migrate-to-responses.
  throw unsupported(path, type);
}

/** Parts of an assistant message have their own types; the interface refuses those of a user in their place. */
function outputPart(part: ContentPart & JsonFields, path: string): object {
  const { type, text, refusal } = part;
  if (type === "text") return { type: "output_text", text };
  if (type === "refusal" && typeof refusal === "string") return { type, refusal };
  throw unsupported(path, type);
}

function imagePart(image: unknown, path: string): object {
  const url = isJsonObject(image) ? image["url"] : image;
  if (typeof url !== "string") throw unsupported(`${path}.image_url`);
  // Some compatible servers require the detail.
  const detail = isJsonObject(image) ? (image["detail"] ?? "auto") : "auto";
  return { type: "input_image", image_url: withRegisteredType(url), detail };
}

/** Only ids of files that the operator shares get here. */
function filePart(file: unknown, path: string): object {
  if (!isJsonObject(file)) throw unsupported(`${path}.file`);
  const { file_data, file_id, filename, detail } = file;
  return { type: "input_file", filename, file_data, file_id, detail: detail ?? undefined };
}

type CallItem =
  | { type: "function_call"; call_id: string; name: string; arguments: string }
  | { type: "custom_tool_call"; call_id: string; name: string; input: string };

function callsOf(message: RequestMessage, path: string): readonly CallItem[] {
  return callListOf(message, path).map((call, index) =>
    callItem(call, `${path}.tool_calls[${index}]`),
  );
}

function callItem(call: unknown, path: string): CallItem {
  if (!isJsonObject(call)) throw unsupported(path);
  const { id, type = "function" } = call;
  const called = type === "function" || type === "custom" ? call[type] : undefined;
  if (!isJsonObject(called)) throw unsupported(path, type);
  const { name } = called;
  const argumentsText = called[type === "custom" ? "input" : "arguments"] ?? "";
  if (typeof id !== "string" || typeof name !== "string" || typeof argumentsText !== "string") {
    throw unsupported(path);
  }
  return type === "custom"
    ? { type: "custom_tool_call", call_id: id, name, input: argumentsText }
    : { type: "function_call", call_id: id, name, arguments: argumentsText };
}

function outputOf(message: RequestMessage, path: string, customCalls: ReadonlySet<string>): object {
  const callId = answeredCallOf(message, path);
  return {
    type: customCalls.has(callId) ? "custom_tool_call_output" : "function_call_output",
    call_id: callId,
    output: contentOf(message, path, inputPart),
  };
}
