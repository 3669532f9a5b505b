import { Type, type Static } from "@sinclair/typebox";
import { type JsonFields, isJsonObject } from "../../lib/json.ts";
import {
  bodyCheck,
  refuseLongPromptCacheTtl,
  refuseTools,
  holdFields,
  modelField,
  nullable,
  ownValue,
  refuseDifferentBounds,
  refuseFields,
  refuseOtherNames,
  measureText,
  type TextSize,
} from "../requestFields.ts";
import {
  comparisonResponseIdOf,
  findStoredObjects,
  type ResponsesObjects,
} from "../storedObjects.ts";

/** The body of POST /v1/responses, as far as it is checked. The provider judges the rest. */
export type ResponsesRequestBody = Static<typeof ResponsesRequestBody>;
export const ResponsesRequestBody = Type.Object({
  model: modelField,
  stream: nullable(Type.Boolean(), "True: the answer comes as server-sent events."),
  ...holdFields,
  previous_response_id: nullable(
    Type.String(),
    "A response of this account that is continued. It goes to the provider that made that response.",
  ),
});

/**
 * Pictures and sound under names that do not begin with `input_`: what a tool has shown or made,
 * https://platform.openai.com/docs/api-reference/responses/create#responses-create-input, and the parts that other tools
 * answer with, https://modelcontextprotocol.io/specification/2025-06-18/server/tools#tool-result
 */
const OTHER_PARTS: ReadonlySet<unknown> = new Set([
  "audio",
  "computer_screenshot",
  "image",
  "image_generation_call",
  "image_url",
]);

/**
 * vLLM takes it for the id of the response that it makes, and another account's could be named:
 * https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/responses/protocol.py
 */
const OWN_ID_FIELD = "request_id";

const INPUT_FIELDS: ReadonlySet<string> = new Set(["input", "instructions", "prompt"]);

/**
 * What no model reads, of what is not a number or a switch:
 * https://platform.openai.com/docs/api-reference/responses/create
 */
const SETTINGS: ReadonlySet<string> = new Set([
  "context_management",
  "conversation",
  "include",
  "metadata",
  "model",
  "moderation",
  "previous_response_id",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "reasoning",
  "safety_identifier",
  "service_tier",
  "stream_options",
  "tool_choice",
  "truncation",
  "user",
]);

const checkBody = bodyCheck(ResponsesRequestBody);

/** A checked request: what the gateway itself needs. What is sent is the client's own text. */
export interface ResponsesRequest extends ResponsesObjects {
  readonly model: string;
  readonly stream: boolean;
  readonly choiceCount: number;
  /** The caller's bound of the answer's tokens. Only `max_output_tokens` binds this interface. */
  readonly outputTokensBound: number | undefined;
  /** The response that this one continues; undefined where the caller named none. It may be any string, the empty one too. */
  readonly previousResponseId: string | undefined;
  /** The response with whose use of the caches this one's is compared; undefined where the caller named none. */
  readonly comparisonResponseId: string | undefined;
  /** What the request's own text and parts come to, for the estimate. */
  readonly promptSize: TextSize;
}

/** Checks a body that `parseJsonObject` accepted. Throws ApiError 400 with the first problem in words. */
export function checkResponsesRequest(
  value: JsonFields,
  rules: { readonly refusedFields: readonly string[]; readonly refusedTools: readonly string[] },
): ResponsesRequest {
  const body = checkBody(value);
  refuseFields(value, [...rules.refusedFields, OWN_ID_FIELD]);
  refuseOtherNames(value, "max_output_tokens");
  refuseTools(value, rules.refusedTools);
  refuseLongPromptCacheTtl(value);
  refuseDifferentBounds(body);
  const stored = findStoredObjects(value);
  const previousResponseId = body.previous_response_id ?? undefined;
  return {
    model: body.model,
    stream: body.stream ?? false,
    choiceCount: body.n ?? 1,
    outputTokensBound: body.max_output_tokens ?? undefined,
    previousResponseId,
    comparisonResponseId: comparisonResponseIdOf(value),
    promptSize: measurePrompt(value),
    ...stored,
    needsWholeContext: stored.needsWholeContext || previousResponseId !== undefined,
  };
}

/** Of parts that are no text only an input is made: what a tool's schema calls an image is read as words. */
function measurePrompt(body: JsonFields): TextSize {
  const inputs: unknown[] = [];
  const words: unknown[] = [];
  for (const [name, value] of Object.entries(body)) {
    if (INPUT_FIELDS.has(name)) inputs.push(value);
    else if (!SETTINGS.has(name)) words.push(value);
  }
  const { textBytes, nonTextParts } = measureText(inputs, isOtherPart);
  return { textBytes: textBytes + measureText(words).textBytes, nonTextParts };
}

/** What an item comes to in an input, with all that is in it. */
export function measureItem(item: JsonFields): TextSize {
  return measureText(item, isOtherPart);
}

/** Images, files, sound: `input_text` is the only part that a client makes for an input whose text is all of it. */
function isOtherPart(part: JsonFields): boolean {
  const type = ownValue(part, "type");
  if (OTHER_PARTS.has(type)) return true;
  return typeof type === "string" && type.startsWith("input_") && type !== "input_text";
}

/** Calls that a client answers in its next request; all others of an output the provider has answered by itself. */
const CLIENT_CALLS: ReadonlySet<string> = new Set([
  "function_call",
  "custom_tool_call",
  "computer_call",
  "local_shell_call",
  "shell_call",
  "apply_patch_call",
]);

/** How many calls of tools that the provider runs, such as `web_search_call`, the output of a response has. */
export function providerCallsOf(output: unknown): number {
  return Array.isArray(output) ? output.filter(isProviderCall).length : 0;
}

/** Whether an item of an output is such a call. */
export function isProviderCall(item: unknown): boolean {
  if (!isJsonObject(item)) return false;
  const { type } = item;
  return typeof type === "string" && type.endsWith("_call") && !CLIENT_CALLS.has(type);
}
