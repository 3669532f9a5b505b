import type { ChatRequestBody, RequestMessage } from "../../contract/chat/chatRequestBody.ts";
import type { ReadJson } from "../../lib/exactJson.ts";
import { fieldsOf, isJsonObject, type JsonFields, isGiven } from "../../lib/json.ts";
import { unsupported, UnsupportedRequestError } from "../provider.ts";

/** A function that the model may call. `parameters` is the client's JSON schema, unchecked. */
export interface ChatTool {
  readonly name: string;
  readonly description: string | undefined;
  readonly parameters: JsonFields | undefined;
  readonly strict: boolean | undefined;
  /** The client's whole definition, for native fields of an interface. */
  readonly own: JsonFields;
}

/** Which tools the model may or must call. */
export type ChatToolChoice =
  | { readonly kind: "auto" | "none" | "required" }
  | { readonly kind: "tool"; readonly name: string }
  | { readonly kind: "allowed"; readonly isRequired: boolean; readonly names: readonly string[] };

/** An earlier call of the model. `arguments` is the JSON text that the client sent back. */
export interface ChatToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  /** Names the call to the caller: `messages[1].tool_calls[0]`. */
  readonly path: string;
  /** The client's whole call, for native fields of an interface. */
  readonly own: JsonFields;
}

/** The requested form of the answer; undefined for plain text. */
export type ChatFormat =
  | { readonly kind: "json" }
  | {
      readonly kind: "schema";
      readonly name: string | undefined;
      readonly description: string | undefined;
      readonly schema: JsonFields;
      readonly strict: boolean | undefined;
    };

/** Throws UnsupportedRequestError for tools other than functions. */
export function toolsOf(body: ChatRequestBody): readonly ChatTool[] {
  const { tools, functions } = body as JsonFields;
  if (isGiven(functions)) throw unsupported("functions");
  if (!isGiven(tools)) return [];
  if (!Array.isArray(tools)) throw unsupported("tools");
  return tools.map((tool: unknown, index) => {
    const path = `tools[${index}]`;
    if (!isJsonObject(tool)) throw unsupported(path);
    const definition = tool["function"];
    if (tool["type"] !== "function" || !isJsonObject(definition)) {
      throw unsupported(path, tool["type"]);
    }
    const { name, description, parameters, strict } = definition;
    if (typeof name !== "string" || name === "") throw unsupported(`${path}.function`);
    if (isGiven(parameters) && !isJsonObject(parameters)) {
      throw unsupported(`${path}.function.parameters`);
    }
    return {
      name,
      description: typeof description === "string" ? description : undefined,
      parameters: isJsonObject(parameters) ? parameters : undefined,
      strict: typeof strict === "boolean" ? strict : undefined,
      own: tool,
    };
  });
}

/** Undefined without a choice. Throws UnsupportedRequestError for unknown choices. */
export function toolChoiceOf(body: ChatRequestBody): ChatToolChoice | undefined {
  const { tool_choice: choice, function_call: legacy } = body as JsonFields;
  if (isGiven(legacy)) throw unsupported("function_call");
  if (!isGiven(choice)) return undefined;
  if (choice === "auto" || choice === "none" || choice === "required") return { kind: choice };
  if (isJsonObject(choice) && choice["type"] === "allowed_tools") return allowedOf(choice);
  return { kind: "tool", name: chosenName(choice) };
}

/** https://platform.openai.com/docs/api-reference/chat/create#chat-create-tool_choice */
function allowedOf(choice: JsonFields): ChatToolChoice {
  const { mode, tools } = fieldsOf(choice["allowed_tools"]);
  const isMode = mode === "auto" || mode === "required";
  if (!isMode || !Array.isArray(tools) || tools.length === 0) throw unsupported("tool_choice");
  return { kind: "allowed", isRequired: mode === "required", names: tools.map(chosenName) };
}

function chosenName(choice: unknown): string {
  const { type, function: chosen } = fieldsOf(choice);
  const name = type === "function" ? fieldsOf(chosen)["name"] : undefined;
  if (typeof name !== "string") throw unsupported("tool_choice");
  return name;
}

/** The calls of an assistant message in order. Throws UnsupportedRequestError for other calls than of functions. */
export function toolCallsOf(message: RequestMessage, path: string): readonly ChatToolCall[] {
  return callListOf(message, path).map((call, index) => {
    const at = `${path}.tool_calls[${index}]`;
    if (!isJsonObject(call)) throw unsupported(at);
    const { id, type = "function", function: called } = call;
    if (type !== "function" || !isJsonObject(called)) throw unsupported(at, type);
    const { name, arguments: argumentsText = "" } = called;
    if (typeof id !== "string" || typeof name !== "string" || typeof argumentsText !== "string") {
      throw unsupported(at);
    }
    return { id, name, arguments: argumentsText, path: at, own: call };
  });
}

/** The calls of an assistant message as the client sent them. Throws UnsupportedRequestError if they are not a list. */
export function callListOf(message: RequestMessage, path: string): readonly unknown[] {
  const { tool_calls: calls, function_call: legacy } = message as JsonFields;
  if (isGiven(legacy)) throw unsupported(`${path}.function_call`);
  if (!isGiven(calls)) return [];
  if (!Array.isArray(calls)) throw unsupported(`${path}.tool_calls`);
  return calls;
}

/** The id of the call that a tool message answers. Throws UnsupportedRequestError without one. */
export function answeredCallOf(message: RequestMessage, path: string): string {
  const { tool_call_id: id } = message as JsonFields;
  if (typeof id !== "string") throw new UnsupportedRequestError(`${path}.tool_call_id is required`);
  return id;
}

/**
 * The arguments of a call as an object; empty text is an empty object. Throws UnsupportedRequestError for anything
 * but a JSON object.
 */
export function argumentsOf(call: ChatToolCall, readJson: ReadJson): JsonFields {
  if (call.arguments.trim() === "") return {};
  try {
    const value: unknown = readJson(call.arguments);
    if (isJsonObject(value)) return value;
  } catch {
    // The parser's error quotes the client's text.
  }
  throw new UnsupportedRequestError(`${call.path}.function.arguments must be a JSON object`);
}

/**
 * An instruction to answer in this format, for an interface without a setting. Its text depends on the format alone,
 * so that the prompt stays in the provider's cache.
 */
export function formatInstruction(format: ChatFormat): string {
  const text =
    "Write your answer as exactly one JSON object and nothing else: no text before or after it, and no Markdown code fence around it. You may still call tools.";
  return format.kind === "json"
    ? text
    : `${text}\nThe object must match this JSON schema:\n${JSON.stringify(format.schema)}`;
}

/** Throws UnsupportedRequestError for unknown formats. */
export function formatOf(body: ChatRequestBody): ChatFormat | undefined {
  const { response_format: format } = body as JsonFields;
  if (!isGiven(format)) return undefined;
  if (!isJsonObject(format)) throw unsupported("response_format");
  if (format["type"] === "text") return undefined;
  if (format["type"] === "json_object") return { kind: "json" };
  const jsonSchema = format["json_schema"];
  if (format["type"] !== "json_schema" || !isJsonObject(jsonSchema))
    throw unsupported("response_format");
  const { name, description, schema, strict } = jsonSchema;
  if (!isJsonObject(schema)) throw unsupported("response_format.json_schema");
  return {
    kind: "schema",
    name: typeof name === "string" ? name : undefined,
    description: typeof description === "string" ? description : undefined,
    schema,
    strict: typeof strict === "boolean" ? strict : undefined,
  };
}
