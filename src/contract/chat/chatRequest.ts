import { type JsonFields, isJsonObject } from "../../lib/json.ts";
import {
  bodyCheck,
  refuseLongPromptCacheTtl,
  refuseTools,
  refuseDifferentBounds,
  refuseFields,
  refuseOtherNames,
} from "../requestFields.ts";
import { measurePrompt, type PromptMeasure } from "./chatPrompt.ts";
import {
  ChatRequestBody,
  hasValidContent,
  RequestMessage,
  StrictChatRequestBody,
  type ContentPart,
} from "./chatRequestBody.ts";
import { invalidRequest } from "../errors.ts";
import { validationMessage } from "../validationMessage.ts";
import { refuseCacheOptionsInOtherCase, refuseKeysInOtherCase } from "../keyCase.ts";

const checkOpen = bodyCheck(ChatRequestBody);
const checkStrict = bodyCheck(StrictChatRequestBody);

/** A checked request: what the gateway itself needs, and the parsed body for the adapters. */
export interface ChatRequest extends PromptMeasure {
  readonly model: string;
  readonly stream: boolean;
  /** The caller wants usage in its stream. */
  readonly includeUsage: boolean;
  readonly choiceCount: number;
  /** The bound of each choice's tokens, under whichever name it came; undefined where the caller gave none. */
  readonly outputTokensBound: number | undefined;
  /** The stop sequences, none of them empty. */
  readonly stop: readonly string[];
  readonly body: ChatRequestBody;
}

/** How the operator wants bodies read. `refusedFields` are names at the top level, `refusedTools` types of tools. */
export interface ChatRequestRules {
  readonly unknownFields: "forward" | "reject";
  readonly refusedFields: readonly string[];
  readonly refusedTools: readonly string[];
}

/** Checks a body that `parseJsonObject` accepted. Throws ApiError 400 with the first problem in words. */
export function checkChatRequest(value: JsonFields, rules: ChatRequestRules): ChatRequest {
  const body: ChatRequestBody =
    rules.unknownFields === "reject" ? checkStrict(value) : checkOpenly(value);
  refuseFields(value, rules.refusedFields);
  refuseOtherNames(value, "max_tokens");
  refuseTools(value, rules.refusedTools);
  refuseLongPromptCacheTtl(value);
  refuseDifferentBounds(body);
  return {
    model: body.model,
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    choiceCount: body.n ?? 1,
    outputTokensBound:
      body.max_tokens ?? body.max_completion_tokens ?? body.max_output_tokens ?? undefined,
    stop: typeof body.stop === "string" ? [body.stop] : (body.stop ?? []),
    ...measurePrompt(body),
    body,
  };
}

function checkOpenly(value: unknown): ChatRequestBody {
  const body = checkOpen(value);
  for (const [index, message] of body.messages.entries()) {
    // Its words cost many times what it costs to see that there are none.
    if (hasValidContent(message)) continue;
    const problem = validationMessage(RequestMessage, message, `messages[${index}]`);
    if (problem !== undefined) throw invalidRequest(problem);
  }
  refuseChatInOtherCase(body);
  return body;
}

const STREAM_OPTIONS: ReadonlySet<string> = new Set(["include_usage"]);
const MESSAGE: ReadonlySet<string> = new Set([
  "role",
  "content",
  "tool_calls",
  "function_call",
  "audio",
]);
const PART: ReadonlySet<string> = new Set(["type", "text", "refusal", "file", "file_id"]);
const AUDIO: ReadonlySet<string> = new Set(["voice"]);
const STORED_OBJECT: ReadonlySet<string> = new Set(["id", "file_id"]);

/**
 * Throws ApiError 400 for a key inside of a checked chat that some providers take for one that the check, the estimate
 * or the usage depends on. See `refuseFieldsInOtherCase`, which looks at the top level.
 */
function refuseChatInOtherCase(body: ChatRequestBody): void {
  const { messages, stream_options } = body;
  refuseCacheOptionsInOtherCase((body as JsonFields)["prompt_cache_options"]);
  refuseVoiceInOtherCase(body);
  if (isJsonObject(stream_options)) {
    refuseKeysInOtherCase(stream_options, STREAM_OPTIONS, () => "stream_options.");
  }
  for (const [index, message] of messages.entries()) {
    const path = (): string => `messages[${index}].`;
    refuseKeysInOtherCase(message, MESSAGE, path);
    const { content, audio }: typeof message & { readonly audio?: unknown } = message;
    if (isJsonObject(audio)) refuseKeysInOtherCase(audio, STORED_OBJECT, () => `${path()}audio.`);
    if (Array.isArray(content)) refuseParts(content, path);
  }
}

function refuseVoiceInOtherCase({ audio }: JsonFields): void {
  if (!isJsonObject(audio)) return;
  refuseKeysInOtherCase(audio, AUDIO, () => "audio.");
  const { voice } = audio;
  if (isJsonObject(voice)) refuseKeysInOtherCase(voice, STORED_OBJECT, () => "audio.voice.");
}

function refuseParts(parts: readonly ContentPart[], path: () => string): void {
  for (const [index, part] of parts.entries()) {
    const partPath = (): string => `${path()}content[${index}].`;
    refuseKeysInOtherCase(part, PART, partPath);
    const { file }: JsonFields = part;
    if (isJsonObject(file)) refuseKeysInOtherCase(file, STORED_OBJECT, () => `${partPath()}file.`);
  }
}
