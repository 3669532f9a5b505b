import { askedTier, type AskedTier } from "./serviceTier.ts";
import { Type, type Static } from "@sinclair/typebox";
import { fieldsOf, isGiven, type JsonFields, isJsonObject } from "../lib/json.ts";
import {
  bodyCheck,
  refuseLongPromptCacheTtl,
  holdFields,
  modelField,
  nullable,
  ownValue,
  refuseDifferentBounds,
  refuseFields,
  refuseOtherNames,
} from "./requestFields.ts";
import { mostOf, refuseExtras, type ExtraRules } from "./extras.ts";
import type { OtherCounts } from "./figures.ts";
import { measureText, type TextSize } from "./textSize.ts";
import {
  comparisonResponseIdOf,
  findStoredObjects,
  type ResponsesObjects,
} from "./storedObjects.ts";
import { tokens } from "./answerFields.ts";

/** The checked fields of the body of POST /v1/responses. The provider checks the others. */
export type ResponsesRequestBody = Static<typeof ResponsesRequestBody>;
export const ResponsesRequestBody = Type.Object({
  model: modelField,
  stream: nullable(Type.Boolean(), "True: the answer comes as server-sent events."),
  ...holdFields,
  previous_response_id: nullable(
    Type.String(),
    "A response of this account to continue. The request goes to the provider that made it.",
  ),
});

/**
 * Types of images and audio that do not begin with `input_`: outputs of tools,
 * https://platform.openai.com/docs/api-reference/responses/create#responses-create-input, and parts of MCP
 * results, https://modelcontextprotocol.io/specification/2025-06-18/server/tools#tool-result
 */
const NON_TEXT_PARTS: ReadonlySet<unknown> = new Set([
  "audio",
  "computer_screenshot",
  "image",
  "image_generation_call",
  "image_url",
]);

/**
 * vLLM uses this value as the id of the new response, so a client could name another account's:
 * https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/responses/protocol.py
 */
const RESPONSE_ID_FIELD = "request_id";

const INPUT_FIELDS: ReadonlySet<string> = new Set(["input", "instructions", "prompt"]);

/** Fields that hold text which no model reads: https://platform.openai.com/docs/api-reference/responses/create */
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

/** A checked request: what the gateway needs. The provider gets the client's own text. */
export interface ResponsesRequest extends ResponsesObjects {
  readonly model: string;
  readonly stream: boolean;
  readonly choiceCount: number;
  /** The caller's bound, in tokens. This interface has only `max_output_tokens`. */
  readonly outputTokensBound: number | undefined;
  /** The response that this one continues. It may be any string, also an empty one. */
  readonly previousResponseId: string | undefined;
  /** The earlier response with whose use of the cache the provider compares this one. */
  readonly comparisonResponseId: string | undefined;
  /** The size of the request's text and parts, for the estimate. */
  readonly promptSize: TextSize;
  /** The provider may cut the prompt before a model reads it. */
  readonly trimsPrompt: boolean;
  readonly serviceTier: AskedTier;
  /** The most to hold for of what is billed one by one. */
  readonly most: OtherCounts;
  /** The client does not forbid that the response is kept. */
  readonly mayBeKept: boolean;
}

/** The operator's rules. `refusedFields` are top-level names. */
export interface ResponsesRules extends ExtraRules {
  readonly refusedFields: readonly string[];
}

/** Checks a body that `parseJsonObject` accepted. Throws ApiError 400 with the first problem. */
export function checkResponsesRequest(value: JsonFields, rules: ResponsesRules): ResponsesRequest {
  const body = checkBody(value);
  refuseFields(value, [...rules.refusedFields, RESPONSE_ID_FIELD]);
  refuseOtherNames(value, "max_output_tokens");
  refuseExtras(value, rules);
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
    trimsPrompt: value["truncation"] === "auto" || isGiven(value["context_management"]),
    serviceTier: askedTier(value),
    most: mostOf(value, value["max_tool_calls"]),
    mayBeKept: value["store"] !== false,
    ...stored,
    needsWholeContext: stored.needsWholeContext || previousResponseId !== undefined,
  };
}

/** Only inputs can have parts that are not text. A type `image` inside a tool's schema is text. */
function measurePrompt(body: JsonFields): TextSize {
  const inputs: unknown[] = [];
  const texts: unknown[] = [];
  for (const [name, value] of Object.entries(body)) {
    if (INPUT_FIELDS.has(name)) inputs.push(value);
    else if (!SETTINGS.has(name)) texts.push(value);
  }
  const size = measureText(inputs, isNonTextPart);
  return { ...size, textBytes: size.textBytes + measureText(texts).textBytes };
}

/** The size of an item and all its members in an input. */
export function measureItem(item: JsonFields): TextSize {
  return measureText(item, isNonTextPart);
}

/** Images, files and audio. Of the `input_` types only `input_text` is text. */
function isNonTextPart(part: JsonFields): boolean {
  const type = ownValue(part, "type");
  if (NON_TEXT_PARTS.has(type)) return true;
  return typeof type === "string" && type.startsWith("input_") && type !== "input_text";
}

/** Calls that the client answers in its next request. The provider runs all other calls itself. */
const CLIENT_CALLS: ReadonlySet<string> = new Set([
  "function_call",
  "custom_tool_call",
  "computer_call",
  "local_shell_call",
  "shell_call",
  "apply_patch_call",
]);

/** The number of calls in an output that the provider ran, such as `web_search_call`. */
export function providerCallsOf(output: unknown): number {
  return Array.isArray(output) ? output.filter(isProviderCall).length : 0;
}

/** Whether an item of an output is a call that the provider ran. */
export function isProviderCall(item: unknown): boolean {
  if (!isJsonObject(item)) return false;
  const { type } = item;
  return typeof type === "string" && type.endsWith("_call") && !CLIENT_CALLS.has(type);
}

/** What of an output is billed one by one. */
export function countedItems(output: unknown): OtherCounts {
  return { webSearches: Array.isArray(output) ? output.filter(isSearch).length : 0 };
}

/**
 * Whether an item is a web search. Opening a page and looking in it are calls of the same type, and are not billed:
 * https://platform.openai.com/docs/guides/tools-web-search
 */
function isSearch(item: unknown): boolean {
  const { type, action, status } = fieldsOf(item);
  const { type: kind = "search" } = fieldsOf(action);
  return type === "web_search_call" && kind === "search" && status !== "failed";
}

/** The finish reason of a response in the words of a chat. Empty if it did not finish. */
export function finishReasonsOf(response: JsonFields): readonly string[] {
  const { status, output, incomplete_details: details } = response;
  if (status === "incomplete") {
    const isFiltered = isJsonObject(details) && details["reason"] === "content_filter";
    return [isFiltered ? "content_filter" : "length"];
  }
  if (status !== "completed") return [];
  const callsTool = Array.isArray(output) && output.some(isClientCall);
  return [callsTool ? "tool_calls" : "stop"];
}

function isClientCall(item: unknown): boolean {
  return isJsonObject(item) && typeof item["type"] === "string" && CLIENT_CALLS.has(item["type"]);
}

const ResponsesUsage = Type.Object({
  input_tokens: tokens("Tokens of the prompt, including cached tokens."),
  output_tokens: tokens("Tokens of the answer, including reasoning."),
  total_tokens: Type.Optional(tokens("The sum of both.")),
});

/** The fields of an answer of POST /v1/responses that the gateway knows. Answers are not checked against it. */
export const ResponsesAnswer = Type.Partial(
  Type.Object({
    id: Type.String({ description: "The id of the response." }),
    object: Type.String({ description: "`response`." }),
    created_at: Type.Number({ description: "Seconds since 1970." }),
    status: Type.String({ description: "The status of the response, such as `completed`." }),
    model: Type.String({
      description:
        "The provider's name for the model; the id that was asked for if the answer is translated.",
    }),
    output: Type.Array(Type.Unknown(), { description: "The items of the answer." }),
    usage: Type.Union([ResponsesUsage, Type.Null()], {
      description: "The tokens of the answer, as the provider counts them.",
    }),
  }),
  {
    description: [
      "The provider's answer, byte for byte, or a translated answer. The gateway knows only the listed fields.",
      "The documentation of the interface defines the answer.",
    ].join(" "),
  },
);
