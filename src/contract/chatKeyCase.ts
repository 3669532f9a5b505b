import { isJsonObject, type JsonFields } from "../lib/json.ts";
import type { ChatRequestBody, ContentPart } from "./chatRequestBody.ts";
import { refuseCacheOptionsInOtherCase, refuseKeysInOtherCase } from "./keyCase.ts";

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
export function refuseChatInOtherCase(body: ChatRequestBody): void {
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
