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
import { IMAGE_CALL, readExtras, X_CALL, type AskedExtras, type ExtraRules } from "./extras.ts";
import { addCounts, largerCounts, type OtherCounts } from "./figures.ts";
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
export interface ResponsesRequest extends ResponsesObjects, AskedExtras {
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
  const promptSize = measurePrompt(value);
  const { audioParts, videoParts } = promptSize;
  const extras = readExtras(value, rules, {
    hasAudio: audioParts > 0,
    hasVideo: videoParts > 0,
    toolCallsBound: ownValue(value, "max_tool_calls"),
  });
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
    promptSize,
    trimsPrompt: value["truncation"] === "auto" || isGiven(value["context_management"]),
    serviceTier: askedTier(value),
    ...extras,
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

/** More containers and pictures than an answer has. */
const TRACKED_MAX = 1024;

/**
 * Counts what the provider's tools used, by the items of an output. It bounds what an answer costs whose end does not come: a
 * picture counts at the most that its call may use.
 */
export class ItemCounter {
  counts: OtherCounts = {};
  #searches: "webSearches" | "webSearchPreviews" = "webSearches";
  readonly #containers = new Set<string>();
  readonly #pictures = new Set<unknown>();

  /** Reads the tools of the response, which are those of the request. */
  readTools(tools: unknown): void {
    const areOld =
      Array.isArray(tools) && tools.some((tool) => OLD_SEARCH.test(String(fieldsOf(tool)["type"])));
    if (areOld) this.#searches = "webSearchPreviews";
  }

  /**
   * An item has begun. A picture counts from then on: its previews may be all that the client wants. So does a container,
   * which then exists.
   */
  begin(item: unknown): void {
    const fields = fieldsOf(item);
    if (fields["type"] === PICTURE_CALL || typeof containerOf(fields) === "string") this.add(item);
  }

  /** A complete item. */
  add(item: unknown): void {
    const fields = fieldsOf(item);
    const { type, status, name } = fields;
    const container = containerOf(fields);
    // Code that fails has its container too.
    if (status === "failed" && typeof container !== "string") return;
    if (isSearch(item)) this.#count({ [this.#searches]: 1 });
    else if (type === "file_search_call") this.#count({ fileSearches: 1 });
    else if (type === "code_interpreter_call" || type === "shell_call")
      this.#addContainer(container);
    else if (type === PICTURE_CALL) this.#addPicture(fieldsOf(item));
    else if (type === "custom_tool_call" && X_SEARCH.test(String(name))) this.#count(X_CALL);
  }

  /** Adds the items of a whole output. Each of them counts once, however often it came before. */
  addOutput(output: unknown): void {
    const whole = new ItemCounter();
    whole.#searches = this.#searches;
    if (Array.isArray(output)) for (const item of output) whole.add(item);
    this.counts = largerCounts(this.counts, whole.counts);
  }

  #count(counts: OtherCounts): void {
    this.counts = addCounts(this.counts, counts);
  }

  #addPicture(item: JsonFields): void {
    const { id } = item;
    if (this.#pictures.has(id) || this.#pictures.size === TRACKED_MAX) return;
    this.#pictures.add(id);
    this.#count(pictureCallOf(item));
  }

  /** Each container is billed once, whatever runs in it. A server may not name it. */
  #addContainer(id: unknown): void {
    if (typeof id === "string") {
      if (this.#containers.has(id) || this.#containers.size === TRACKED_MAX) return;
      this.#containers.add(id);
    } else if (this.#containers.size > 0 || (this.counts.codeSessions ?? 0) > 0) return;
    this.#count({ codeSessions: 1 });
  }
}

/** The container that a call runs in, if its provider names it. */
function containerOf({ type, container_id, environment }: JsonFields): unknown {
  if (type === "code_interpreter_call") return container_id;
  return type === "shell_call" ? fieldsOf(environment)["container_id"] : undefined;
}

/** The type of a call of the image tool. */
const PICTURE_CALL = "image_generation_call";
/** What is in each item that counts from its beginning. */
export const COUNTED_FROM_BEGINNING = [PICTURE_CALL, "container_id"] as const;
const OLD_SEARCH = /^web_search_preview/;

/** The names that xAI gives the calls of its tool `x_search`: https://docs.x.ai/developers/tools/tool-usage-details */
const X_SEARCH = /^x_(?:keyword|semantic|user)_search$|^x_thread_fetch$/;

/** Tokens of a square picture and of the larger ones: https://platform.openai.com/docs/guides/image-generation#cost-and-latency */
const IMAGE_TOKENS: Readonly<Record<string, { readonly square: number; readonly other: number }>> =
  {
    low: { square: 272, other: 408 },
    medium: { square: 1056, other: 1584 },
  };

/** The most that a call of the image tool used. Only a known quality makes it less than the most of any call. */
function pictureCallOf({ quality, size }: JsonFields): OtherCounts {
  const known = IMAGE_TOKENS[String(quality)];
  const tokens = known && (size === "1024x1024" ? known.square : known.other);
  return {
    ...IMAGE_CALL,
    ...(tokens !== undefined && { imageToolOutputTokens: tokens }),
    images: 1,
  };
}

/**
 * What the provider's tools used for a whole response. OpenAI and xAI report it; what they do not report is counted by the
 * items of the output. `seen`: what the items of its stream were.
 */
export function toolCountsOf(response: JsonFields, seen = new ItemCounter()): OtherCounts {
  seen.readTools(response["tools"]);
  seen.addOutput(response["output"]);
  const { tool_usage: used, usage } = response;
  const { server_side_tool_usage_details: ofXai } = fieldsOf(usage);
  if (isJsonObject(ofXai)) return xaiCounts(ofXai);
  // Only xAI bills pictures one by one, and posts.
  const { images: _, xPosts: _posts, xProfiles: _profiles, ...counts } = seen.counts;
  const { num_requests: searches } = fieldsOf(fieldsOf(used)["web_search"]);
  const kind = (counts.webSearchPreviews ?? 0) > 0 ? "webSearchPreviews" : "webSearches";
  return {
    ...counts,
    ...(countOf(searches) > 0 && { [kind]: countOf(searches) }),
    ...imageToolCounts(fieldsOf(used)["image_gen"]),
  };
}

function imageToolCounts(reported: unknown): OtherCounts {
  if (!isJsonObject(reported)) return {};
  const read = countOf(reported["input_tokens"]);
  const { image_tokens: pictures } = fieldsOf(reported["input_tokens_details"]);
  const imageToolInputTokens = Math.min(countOf(pictures), read);
  return {
    imageToolTextTokens: read - imageToolInputTokens,
    imageToolInputTokens,
    imageToolOutputTokens: countOf(reported["output_tokens"]),
  };
}

/** https://docs.x.ai/developers/tools/tool-usage-details */
function xaiCounts(details: JsonFields): OtherCounts {
  const of = (name: string): number => countOf(details[name]);
  return {
    webSearches: of("web_search_calls"),
    xPosts: of("x_posts_fetched"),
    xProfiles: of("x_users_fetched"),
    codeSessions: of("code_interpreter_calls"),
    fileSearches: of("file_search_calls"),
    attachmentSearches: of("document_search_calls"),
    images: of("image_generation_calls"),
  };
}

function countOf(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

/**
 * Whether an item is a web search. Opening a page and looking in it are calls of the same type, and are not billed:
 * https://platform.openai.com/docs/guides/tools-web-search
 */
function isSearch(item: unknown): boolean {
  const { type, action } = fieldsOf(item);
  const { type: kind = "search" } = fieldsOf(action);
  return type === "web_search_call" && kind === "search";
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
