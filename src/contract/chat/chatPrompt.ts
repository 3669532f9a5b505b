import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import {
  type ChatRequestBody,
  type ContentPart,
  type RequestMessage,
  CONVENTION_FIELDS,
} from "./chatRequestBody.ts";
import { invalidRequest } from "../errors.ts";
import { findChatObjects, type StoredObjects } from "../storedObjects.ts";
import { measureText, type TextSize } from "../requestFields.ts";

/** Those of the convention's fields that a model reads beside the messages. */
const DEFINITION_FIELDS: ReadonlySet<string> = new Set(["tools", "functions", "response_format"]);
const TEXT_PARTS: ReadonlySet<string> = new Set(["text", "refusal"]);

/** https://www.rfc-editor.org/rfc/rfc2397, with its data in base64. */
const DATA_URL = /^data:[\w.+/;=-]{0,200};base64,/i;
/** Longer than any of the words for how closely to look: `auto`, `original`. */
const DETAIL_CHARACTERS_MAX = 16;

/** What a chat's prompt holds, for estimates and for the check of who owns what it names. */
export interface PromptMeasure extends StoredObjects {
  readonly messageCount: number;
  /** Of what a model may read: messages but for their roles, tool and format definitions, and fields that are no setting. */
  readonly promptSize: TextSize;
  /** What of it the fields of messages beside their content are, by name: a provider may be kept from some. */
  readonly fieldSizes: ReadonlyMap<string, TextSize>;
}

/** Measures a body that was checked. Throws ApiError 400 where it names a stored object by what is no id. */
export function measurePrompt(body: ChatRequestBody): PromptMeasure {
  const soundIds: string[] = [];
  const contents: unknown[] = [];
  const fieldSizes = new Map<string, Sum>();
  const promptSize: Sum = measureText(readBesideMessages(body));
  for (const message of body.messages) {
    const { content } = message;
    addContent(promptSize, content);
    if (typeof content !== "string") contents.push(content);
    for (const name in message) {
      if (name === "role" || name === "content") continue;
      const size = sizeBesideContent(name, (message as JsonFields)[name]);
      add(promptSize, size);
      const before = fieldSizes.get(name);
      if (before) add(before, size);
      else fieldSizes.set(name, size);
    }
    // An earlier answer in sound, named by its id.
    const { audio }: JsonFields = message;
    if (isJsonObject(audio)) addId(soundIds, "audio.id", audio);
  }
  const { audio, tools, mcp_servers }: JsonFields = body;
  // A voice of the operator's own, which the answer is to be spoken in.
  const voice = fieldsOf(audio)["voice"];
  if (isJsonObject(voice)) addId(soundIds, "audio.voice.id", voice);
  const found = findChatObjects(contents, tools);
  // Servers whose tools Anthropic calls by itself, with results that nobody here sees.
  const hasServers = Array.isArray(mcp_servers);
  return {
    messageCount: body.messages.length,
    promptSize,
    fieldSizes,
    needsWholeContext: promptSize.nonTextParts > 0 || found.needsWholeContext || hasServers,
    objectIds: [...found.objectIds, ...soundIds],
  };
}

/**
 * What a model may read of the other fields. But for definitions the convention's own are settings; any other may have a
 * prompt, as `system` has in Anthropic's interface, `instructions` in OpenAI's other one, and `documents` in vLLM's.
 */
function readBesideMessages(body: ChatRequestBody): unknown[] {
  const read = Object.entries(body).filter(
    ([name]) => DEFINITION_FIELDS.has(name) || !CONVENTION_FIELDS.has(name),
  );
  return read.map(([, value]) => value);
}

/** A size that is added up: a prompt may have ten thousand messages, and each would make another. */
type Sum = { -readonly [Field in keyof TextSize]: TextSize[Field] };

function add(sum: Sum, { textBytes, nonTextParts }: TextSize): void {
  sum.textBytes += textBytes;
  sum.nonTextParts += nonTextParts;
}

function addContent(sum: Sum, content: RequestMessage["content"]): void {
  if (typeof content === "string") sum.textBytes += Buffer.byteLength(content);
  else {
    for (const part of content ?? []) {
      const text = textOf(part);
      if (text === undefined) sum.nonTextParts += 1;
      else sum.textBytes += Buffer.byteLength(text);
    }
  }
}

/** What a field of a message comes to: a model may read whatever stands in one, such as calls and earlier reasoning. */
function sizeBesideContent(name: string, value: unknown): TextSize {
  if (typeof value === "string") return { textBytes: Buffer.byteLength(value), nonTextParts: 0 };
  if (name === "audio") return { textBytes: 0, nonTextParts: isJsonObject(value) ? 1 : 0 };
  if (name === "images" && Array.isArray(value))
    return { textBytes: 0, nonTextParts: value.length };
  return measureText(value, isPicture);
}

/** Nothing but a picture's address, with the picture in it, and how closely to look at it. */
function isPicture(object: JsonFields): boolean {
  if (typeof object["url"] !== "string" || !DATA_URL.test(object["url"])) return false;
  const { url: _, detail = "", ...others } = object;
  const isWord = typeof detail === "string" && detail.length <= DETAIL_CHARACTERS_MAX;
  return isWord && Object.keys(others).length === 0;
}

/** The text of a text part, or of a refusal that is sent back; undefined for any other part. */
function textOf(part: ContentPart): string | undefined {
  const text = part.type === "refusal" ? (part as JsonFields)["refusal"] : part.text;
  return typeof text === "string" && TEXT_PARTS.has(part.type) ? text : undefined;
}

function addId(ids: string[], path: string, { id }: JsonFields): void {
  if (id === undefined || id === null) return;
  if (typeof id !== "string") throw invalidRequest(`${path} must be a string`);
  ids.push(id);
}
