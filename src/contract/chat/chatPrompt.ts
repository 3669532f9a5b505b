import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { bytesOfString, wholeString } from "../../lib/outline.ts";
import {
  type ChatRequestBody,
  type ContentPart,
  type RequestMessage,
  CONVENTION_FIELDS,
} from "./chatRequestBody.ts";
import { invalidRequest } from "../errors.ts";
import { findChatObjects, type StoredObjects } from "../storedObjects.ts";
import { addSize, measureText, noText, sizeOfPart, type Sum, type TextSize } from "../textSize.ts";

/** The listed fields, besides the messages, that a model reads. */
const DEFINITION_FIELDS: ReadonlySet<string> = new Set(["tools", "functions", "response_format"]);
const TEXT_PARTS: ReadonlySet<string> = new Set(["text", "refusal"]);

/** An RFC 2397 address with base64 data. */
const DATA_URL = /^data:[\w.+/;=-]{0,200};base64,/i;
/** Longer than every level of detail, such as `auto` and `original`. */
const DETAIL_CHARACTERS_MAX = 16;

/** The sizes of a chat's prompt, for estimates, and the stored objects that it names. */
export interface PromptMeasure extends StoredObjects {
  readonly messageCount: number;
  /** All that a model may read: messages without roles, definitions of tools and formats, and fields that are not settings. */
  readonly promptSize: TextSize;
  /** The part of `promptSize` in message fields other than role and content, by name: `drop_message_fields` removes some. */
  readonly fieldSizes: ReadonlyMap<string, TextSize>;
}

/** Measures a checked body. Throws ApiError 400 for an id of a stored object that is not a string. */
export function measurePrompt(body: ChatRequestBody): PromptMeasure {
  const audioIds: string[] = [];
  const contents: unknown[] = [];
  const fieldSizes = new Map<string, Sum>();
  const promptSize = measureBesideMessages(body);
  for (const message of body.messages) {
    const { content } = message;
    addContent(promptSize, content);
    if (typeof content !== "string") contents.push(content);
    for (const name in message) {
      if (name === "role" || name === "content") continue;
      const size = sizeOfField(name, (message as JsonFields)[name]);
      addSize(promptSize, size);
      const before = fieldSizes.get(name);
      if (before) addSize(before, size);
      else fieldSizes.set(name, size);
    }
    // The recording of an earlier answer, by its id.
    const { audio }: JsonFields = message;
    if (isJsonObject(audio)) addId(audioIds, "audio.id", audio);
  }
  const { audio, tools, mcp_servers }: JsonFields = body;
  // A custom voice.
  const voice = fieldsOf(audio)["voice"];
  if (isJsonObject(voice)) addId(audioIds, "audio.voice.id", voice);
  const found = findChatObjects(contents, tools);
  // Anthropic calls the tools of these servers itself. The gateway does not see the results.
  const hasServers = Array.isArray(mcp_servers);
  return {
    messageCount: body.messages.length,
    promptSize,
    fieldSizes,
    needsWholeContext: promptSize.nonTextParts > 0 || found.needsWholeContext || hasServers,
    objectIds: audioIds.length === 0 ? found.objectIds : [...found.objectIds, ...audioIds],
  };
}

/**
 * Measures the other fields that a model may read: definitions, and every field that the convention does not list. Such
 * a field may hold a prompt, as `system` (Anthropic), `instructions` (OpenAI Responses) and `documents` (vLLM) do.
 */
function measureBesideMessages(body: JsonFields): Sum {
  const sum: Sum = { ...noText };
  for (const name in body) {
    const isRead = DEFINITION_FIELDS.has(name) || !CONVENTION_FIELDS.has(name);
    if (isRead) addSize(sum, measureText(body[name]));
  }
  return sum;
}

function addContent(sum: Sum, content: RequestMessage["content"]): void {
  if (typeof content === "string") sum.textBytes += bytesOfString(content);
  else {
    for (const part of content ?? []) {
      const text = textOf(part);
      if (text === undefined) addSize(sum, sizeOfPart(part));
      else sum.textBytes += bytesOfString(text);
    }
  }
}

/** The size of a message field other than role and content. A model may read it: calls, earlier reasoning. */
function sizeOfField(name: string, value: unknown): TextSize {
  if (typeof value === "string") return { ...noText, textBytes: bytesOfString(value) };
  // The recording of an earlier answer, by its id: it is as short as an answer.
  if (name === "audio") {
    const parts = isJsonObject(value) ? 1 : 0;
    return { ...noText, nonTextParts: parts, audioParts: parts };
  }
  if (name === "images" && Array.isArray(value)) {
    const sum: Sum = { ...noText };
    for (const image of value as readonly unknown[])
      addSize(sum, { ...sizeOfPart(image), attachmentTokens: 0 });
    return sum;
  }
  return measureText(value, isImage);
}

/** Whether an object is only an image: a data address, with a level of detail or without. */
function isImage(object: JsonFields): boolean {
  if (typeof object["url"] !== "string" || !DATA_URL.test(object["url"])) return false;
  const { url: _, detail = "", ...others } = object;
  const isLevel = typeof detail === "string" && detail.length <= DETAIL_CHARACTERS_MAX;
  return isLevel && Object.keys(others).length === 0;
}

/** The text of a text part or a refusal; undefined for any other part. */
function textOf(part: ContentPart): string | undefined {
  const text = part.type === "refusal" ? (part as JsonFields)["refusal"] : part.text;
  return typeof text === "string" && TEXT_PARTS.has(part.type) ? text : undefined;
}

function addId(ids: string[], path: string, { id }: JsonFields): void {
  if (id === undefined || id === null) return;
  if (typeof id !== "string") throw invalidRequest(`${path} must be a string`);
  ids.push(wholeString(id));
}
