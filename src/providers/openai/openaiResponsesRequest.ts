import type { ChatRequest } from "../../contract/chat/chatRequest.ts";
import type {
  ChatRequestBody,
  ContentPart,
  RequestMessage,
} from "../../contract/chat/chatRequestBody.ts";
import { COMPARISON_RESPONSE_FIELD } from "../../contract/keyCase.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import {
  bodyWithOthers,
  isGiven,
  refuseOtherAnswers,
  refuseRecording,
} from "../chat/chatFields.ts";
import { unfit, refusalOf, unfitPart } from "../chat/chatParts.ts";
import { formatOf, NO_PARAMETERS, answeredCallOf, callListOf } from "../chat/chatTools.ts";
import type { ChatCall, EncodedRequest } from "../provider.ts";

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

/** What asks for the probabilities of tokens; without it `top_logprobs` alone brings none. */
const LOGPROBS = "message.output_text.logprobs";

/** Fields of the convention without a counterpart, and without which a request means something else. */
const UNFIT_FIELDS = ["functions", "function_call"];

/**
 * What takes up something from the provider's store. In a chat nobody asks whose it is, so it goes no
 * further: it could be another account's.
 */
const STORED_OBJECT_FIELDS = ["previous_response_id", "conversation", "prompt"];

/**
 * A chat as a responses request: https://platform.openai.com/docs/api-reference/responses/create.
 * Throws UnsupportedRequestError. Numbers beyond a double lose digits in what is put together anew: in schemas.
 */
export function encodeChat(call: ChatCall): EncodedRequest {
  const { object, request } = call;
  const body: ChatRequestBody & JsonFields = request.body;
  refuseUnsupported(body, request);
  const fields: Record<string, unknown> = {
    model: call.model,
    input: inputOf(body.messages),
    stream: request.stream || undefined,
    stream_options: request.stream ? streamOptionsOf(body) : undefined,
    // Fewer than 16 are the caller's mistake here, and the provider says so.
    max_output_tokens: call.outputTokensBound,
    reasoning: reasoningOf(body),
    text: textOf(body),
    tools: isGiven(body["tools"]) ? flatTools(body["tools"]) : undefined,
    tool_choice: isGiven(body["tool_choice"]) ? flatToolChoice(body["tool_choice"]) : undefined,
    top_logprobs:
      body["logprobs"] === true || isGiven(body["include"]) ? body["top_logprobs"] : undefined,
    include: body["logprobs"] === true ? includedWithLogprobs(body["include"]) : undefined,
    // Unless told otherwise the provider keeps every response for a month, and hands it out by an id that
    // a chat's client never learns: it could neither use it nor have it deleted. The reasoning need not
    // come back encrypted either: each chat brings all that it builds on.
    store: false,
  };
  for (const name of SHARED_FIELDS) fields[name] = body[name] ?? undefined;
  return { path: "/responses", body: bodyWithOthers(object, fields) };
}

function refuseUnsupported(body: JsonFields, { choiceCount, stop }: ChatRequest): void {
  if (choiceCount > 1) throw unfit("n");
  // The gateway ends the text at a stop sequence, and could not tell which tokens that leaves.
  if (body["logprobs"] === true && stop.length > 0) throw unfit("logprobs with stop");
  refuseOtherAnswers(body);
  const { instructions } = body;
  // As a list of items it could name stored ones.
  if (isGiven(instructions) && typeof instructions !== "string") {
    throw unfit("instructions");
  }
  const { prompt_cache_options: options } = body;
  if (isJsonObject(options) && isGiven(options[COMPARISON_RESPONSE_FIELD])) {
    throw unfit(`prompt_cache_options.${COMPARISON_RESPONSE_FIELD}`);
  }
  const field = [...UNFIT_FIELDS, ...STORED_OBJECT_FIELDS].find((name) => isGiven(body[name]));
  if (field !== undefined) throw unfit(field);
}

/** The caller may include more, in the interface's own words. */
function includedWithLogprobs(own: unknown): readonly unknown[] {
  if (!isGiven(own)) return [LOGPROBS];
  if (!Array.isArray(own)) throw unfit("include");
  return own.includes(LOGPROBS) ? own : [...(own as unknown[]), LOGPROBS];
}

/** Usage is on the last event always; only how the stream is padded can be asked for. */
function streamOptionsOf(body: JsonFields): object | undefined {
  const padding = fieldsOf(body["stream_options"])["include_obfuscation"];
  return typeof padding === "boolean" ? { include_obfuscation: padding } : undefined;
}

/** The caller's own `reasoning`, as who knows the interface writes it, with the convention's fields on top. */
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

/** What the caller wrote under the interface's own name, with ours put over it; undefined where there is neither. */
function withOwn(own: unknown, ours: JsonFields): object | undefined {
  const entries = Object.entries(ours).filter(([, value]) => isGiven(value));
  if (entries.length === 0) return isJsonObject(own) ? own : undefined;
  return { ...fieldsOf(own), ...Object.fromEntries(entries) };
}

function flatTools(tools: unknown): readonly unknown[] {
  if (!Array.isArray(tools)) throw unfit("tools");
  return tools.map((tool: unknown, index) => toolOf(tool, `tools[${index}]`));
}

/** Definitions of functions and custom tools lie flat here; any other tool is of the provider's own, and passes. */
function toolOf(tool: unknown, path: string): unknown {
  if (!isJsonObject(tool)) throw unfit(path);
  const { type, function: called, custom } = tool;
  if (type === "function" && isJsonObject(called)) {
    const { name, description, parameters, strict } = called;
    return {
      type,
      name,
      description,
      parameters: parameters ?? NO_PARAMETERS,
      // Here functions are strict unless told otherwise, and their schemas then must be of a certain kind.
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
  if (!isJsonObject(choice)) throw unfit("tool_choice");
  const { type } = choice;
  const allowed = choice["allowed_tools"];
  if (type === "allowed_tools" && isJsonObject(allowed)) {
    const { mode, tools } = allowed;
    if (!Array.isArray(tools)) throw unfit("tool_choice");
    return { type, mode, tools: tools.map(namedTool) };
  }
  return namedTool(choice);
}

/** A tool by its name, which the convention puts one level deeper. */
function namedTool(tool: unknown): unknown {
  if (!isJsonObject(tool)) throw unfit("tool_choice");
  const { type } = tool;
  const named = type === "function" || type === "custom" ? tool[type] : undefined;
  return isJsonObject(named) ? { type, name: named["name"] } : tool;
}

/**
 * The messages of a chat as the input items of a response, in their order:
 * https://platform.openai.com/docs/api-reference/responses/create#responses-create-input.
 * Throws UnsupportedRequestError for what these have no counterpart for.
 */
function inputOf(messages: readonly RequestMessage[]): readonly object[] {
  /** Results name their call only by its id, and those of custom tools are items of another type. */
  const customCalls = new Set<string>();
  return messages.flatMap((message, index): readonly object[] => {
    const path = `messages[${index}]`;
    const { role } = message;
    if (role === "tool") return [outputOf(message, path, customCalls)];
    if (role !== "assistant") return [{ role, content: contentOf(message, path, inputPart) }];
    const calls = callsOf(message, path);
    for (const call of calls) if (call.type === "custom_tool_call") customCalls.add(call.call_id);
    return [...spokenBefore(message, path, calls.length > 0), ...calls];
  });
}

/** What an assistant's message says beside its calls. A text stays a string: all servers of the interface take that. */
function spokenBefore(
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
  // Where the client wants the prompt's cache to end.
  const cache = { prompt_cache_breakpoint: part["prompt_cache_breakpoint"] ?? undefined };
  if (type === "text") return { type: "input_text", text, ...cache };
  if (type === "image_url") return { ...imagePart(part["image_url"], path), ...cache };
  if (type === "file") return { ...filePart(part["file"], path), ...cache };
  // The interface has no recordings yet: https://platform.openai.com/docs/guides/migrate-to-responses.
  throw unfitPart(path, type);
}

/** What an assistant said, sent back: it is told apart from what a user says, and refused in the user's words. */
function outputPart(part: ContentPart & JsonFields, path: string): object {
  const { type, text, refusal } = part;
  if (type === "text") return { type: "output_text", text };
  if (type === "refusal" && typeof refusal === "string") return { type, refusal };
  throw unfitPart(path, type);
}

function imagePart(image: unknown, path: string): object {
  const url = isJsonObject(image) ? image["url"] : image;
  if (typeof url !== "string") throw unfit(`${path}.image_url`);
  // Some servers of the interface want the detail to be there.
  const detail = isJsonObject(image) ? (image["detail"] ?? "auto") : "auto";
  return { type: "input_image", image_url: url, detail };
}

/** An id of a stored file passes: only one that the operator shares comes so far. */
function filePart(file: unknown, path: string): object {
  if (!isJsonObject(file)) throw unfit(`${path}.file`);
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
  if (!isJsonObject(call)) throw unfit(path);
  const { id, type = "function" } = call;
  const called = type === "function" || type === "custom" ? call[type] : undefined;
  if (!isJsonObject(called)) throw unfitPart(path, type);
  const { name } = called;
  const given = called[type === "custom" ? "input" : "arguments"] ?? "";
  if (typeof id !== "string" || typeof name !== "string" || typeof given !== "string") {
    throw unfit(path);
  }
  return type === "custom"
    ? { type: "custom_tool_call", call_id: id, name, input: given }
    : { type: "function_call", call_id: id, name, arguments: given };
}

function outputOf(message: RequestMessage, path: string, customCalls: ReadonlySet<string>): object {
  const callId = answeredCallOf(message, path);
  return {
    type: customCalls.has(callId) ? "custom_tool_call_output" : "function_call_output",
    call_id: callId,
    output: contentOf(message, path, inputPart),
  };
}
