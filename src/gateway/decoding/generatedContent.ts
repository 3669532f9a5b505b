import { BYTES_PER_OTHER_PART } from "../../billing/estimate.ts";
import { isJsonObject, type JsonFields, walk } from "../../lib/json.ts";
import { AnswerError } from "../../providers/provider.ts";

/** Keys whose values describe the structure of an answer. The model does not generate them. */
const ENVELOPE_KEYS: ReadonlySet<string> = new Set([
  "role",
  "id",
  "type",
  "index",
  "object",
  "status",
  "call_id",
  "item_id",
  // A signed copy of the reasoning.
  "thinking_blocks",
  // Citations of search results.
  "annotations",
  // Google's signatures of reasoning.
  "extra_content",
]);

/** Fields for reasoning. Some servers send the same reasoning in two of them. */
const REASONING_FIELDS: ReadonlySet<string> = new Set([
  "reasoning_content",
  "reasoning",
  "reasoning_details",
]);

/**
 * A list of reasoning details also has keys for its format and for encrypted data, which are not text:
 * https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#reasoning_details-array-structure
 */
const REASONING_ENVELOPE_KEYS: ReadonlySet<string> = ENVELOPE_KEYS.union(
  new Set(["format", "signature", "data"]),
);

/** The fields of response items that the model generates. */
const GENERATED_FIELDS: ReadonlySet<string> = new Set([
  "text",
  "refusal",
  "arguments",
  "input",
  "code",
  "transcript",
]);

/**
 * Returns the UTF-8 bytes that the model generated in a message or a delta: text, reasoning, refusals, names and arguments
 * of calls. Ids and indexes do not count; in a stream they are twenty times as long as the text. Audio counts by its
 * transcript, and an image like a part of a prompt that is not text, because their bytes do not tell their tokens.
 */
export function messageBytes(message: JsonFields): number {
  let bytes = 0;
  for (const name in message) {
    const value = message[name];
    if (ENVELOPE_KEYS.has(name) || REASONING_FIELDS.has(name)) continue;
    // The fast path: most deltas are one text.
    if (typeof value === "string") bytes += Buffer.byteLength(value);
    else if (name === "audio" && isJsonObject(value)) bytes += transcriptBytes(value);
    else if (name === "images" && Array.isArray(value))
      bytes += value.length * BYTES_PER_OTHER_PART;
    else bytes += stringBytes(value, ENVELOPE_KEYS);
  }
  return bytes + reasoningBytes(message);
}

/** The part of it that is reasoning. The same reasoning in two fields counts once. */
export function reasoningBytes(message: JsonFields): number {
  let bytes = 0;
  for (const name of REASONING_FIELDS) {
    const value = message[name];
    if (value) bytes = Math.max(bytes, stringBytes(value, REASONING_ENVELOPE_KEYS));
  }
  return bytes;
}

/**
 * Returns the UTF-8 bytes that the model generated in the output of a response. A stream has the same bytes as deltas, so
 * both forms of an answer have the same estimate.
 */
export function outputBytes(output: unknown): number {
  let bytes = 0;
  walk(output, (found, name) => {
    const isGenerated =
      typeof found === "string" && name !== undefined && GENERATED_FIELDS.has(name);
    if (isGenerated) bytes += Buffer.byteLength(found);
    return typeof found === "object";
  });
  return bytes;
}

/** Keys of content blocks that describe them, and the signatures of reasoning. */
const BLOCK_ENVELOPE_KEYS: ReadonlySet<string> = REASONING_ENVELOPE_KEYS.union(
  new Set(["citations", "content", "tool_use_id"]),
);

/** Returns the UTF-8 bytes that the model generated in the content blocks of a message, without results of tools. */
export function messageBlocksBytes(content: unknown): number {
  return stringBytes(content, BLOCK_ENVELOPE_KEYS);
}

function transcriptBytes({ transcript }: JsonFields): number {
  return typeof transcript === "string" ? Buffer.byteLength(transcript) : 0;
}

/** UTF-8 bytes of all strings in a value, except keys and the values of `envelopeKeys`. */
function stringBytes(value: unknown, envelopeKeys: ReadonlySet<string>): number {
  let bytes = 0;
  walk(value, (found, key) => {
    if (key !== undefined && envelopeKeys.has(key)) return false;
    if (typeof found === "string") bytes += Buffer.byteLength(found);
    return typeof found === "object";
  });
  return bytes;
}

/** The content of a message or a delta, in the standard fields. */
export interface DetectedContent {
  readonly content: string;
  /** The reasoning among the parts, unless the provider fills this field itself. */
  readonly reasoning_content?: string;
}

/**
 * Some providers send a list of parts instead of one text. Mistral's list contains the reasoning:
 * https://docs.mistral.ai/capabilities/reasoning/. Throws AnswerError if the content is neither text nor a list.
 */
export function detectContent(message: JsonFields): DetectedContent {
  const { content, reasoning_content: reasoning } = message;
  if (typeof content === "string") return { content };
  if (content === null || content === undefined) return { content: "" };
  if (!Array.isArray(content)) throw new AnswerError("the content is not text");
  const thinkingText = (reasoning ?? "") === "" ? content.map(reasoningOf).join("") : "";
  const text = textOf(content);
  return thinkingText === ""
    ? { content: text }
    : { content: text, reasoning_content: thinkingText };
}

function reasoningOf(part: unknown): string {
  if (!isJsonObject(part) || part["type"] !== "thinking") return "";
  const { thinking } = part;
  return typeof thinking === "string" ? thinking : textOf(thinking);
}

function textOf(parts: unknown): string {
  if (!Array.isArray(parts)) return "";
  return parts
    .map((part: unknown) =>
      isJsonObject(part) && typeof part["text"] === "string" ? part["text"] : "",
    )
    .join("");
}

/** The fields in which Anthropic, Google and OpenRouter send signed or encrypted reasoning, and the keys of the data. */
const ENCRYPTED_REASONING_FIELDS: ReadonlySet<string> = new Set([
  "thinking_blocks",
  "extra_content",
  "reasoning_details",
]);
const ENCRYPTED_DATA_KEYS: ReadonlySet<string> = new Set([
  "signature",
  "data",
  "thought_signature",
]);

/**
 * Counts reasoning that arrives encrypted, for the charge after a disconnect. It is base64: four characters are three
 * bytes, and the text in them is not longer. Reasoning that also arrives as text counts once.
 */
export class EncryptedReasoning {
  #encryptedLength = 0;
  #textBytes = 0;

  addEncrypted(characters: number): void {
    this.#encryptedLength += characters;
  }

  /** Adds UTF-8 bytes of reasoning, or of its summaries, that arrived as text. */
  addText(bytes: number): void {
    this.#textBytes += bytes;
  }

  /** The most UTF-8 bytes of reasoning that did not arrive as text. */
  get encryptedReasoningBytes(): number {
    return Math.max(0, Math.ceil((this.#encryptedLength * 3) / 4) - this.#textBytes);
  }
}

/** Base64 characters of the encrypted reasoning in a delta. None of them counts as text. */
export function encryptedLengthOf(delta: JsonFields): number {
  let characters = 0;
  walk(delta, (found, name) => {
    if (name === undefined || !ENCRYPTED_REASONING_FIELDS.has(name))
      return typeof found === "object";
    walk(found, (value, field) => {
      const isEncrypted = typeof value === "string" && field !== undefined;
      if (isEncrypted && ENCRYPTED_DATA_KEYS.has(field)) characters += value.length;
      return typeof value === "object";
    });
    return false;
  });
  return characters;
}
