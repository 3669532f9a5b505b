import type { ContentPart, RequestMessage } from "../../contract/chatRequestBody.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { refuseRecording } from "../chat/chatFields.ts";
import { refusalOf, unfit, unfitPart } from "../chat/chatParts.ts";
import { answeredCallOf, callListOf } from "../chat/chatTools.ts";

/**
 * The messages of a chat as the input items of a response, in their order:
 * https://platform.openai.com/docs/api-reference/responses/create#responses-create-input.
 * Throws UnfitError for what these have no counterpart for.
 */
export function inputOf(messages: readonly RequestMessage[]): readonly object[] {
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
