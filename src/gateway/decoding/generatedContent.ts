import { BYTES_PER_OTHER_PART } from "../../billing/estimate.ts";
import { isJsonObject, type JsonFields, walk } from "../../lib/json.ts";
import { AnswerError } from "../../providers/provider.ts";

/** What stands under these says how an answer is put together, whatever the shape that they stand in. */
const ENVELOPE_KEYS: ReadonlySet<string> = new Set([
  "role",
  "id",
  "type",
  "index",
  "object",
  "status",
  "call_id",
  "item_id",
  // A message's thoughts once more, signed, for the provider that they came from; their text is in the reasoning.
  "thinking_blocks",
  // What the text cites: a search brought it in.
  "annotations",
  // The signatures of thoughts, in which Google's interface gives them.
  "extra_content",
]);

/** Under each of these a provider may give its thoughts, and some servers give the same ones under two. */
const THOUGHT_FIELDS: ReadonlySet<string> = new Set([
  "reasoning_content",
  "reasoning",
  "reasoning_details",
]);

/**
 * Beside these a list of thoughts has their format, and what is encrypted of them, which is no text:
 * https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#reasoning_details-array-structure
 */
const THOUGHT_ENVELOPE_KEYS: ReadonlySet<string> = ENVELOPE_KEYS.union(
  new Set(["format", "signature", "data"]),
);

/** Where the items of a response have what was generated. All else names, numbers or places it. */
const SPOKEN_FIELDS: ReadonlySet<string> = new Set([
  "text",
  "refusal",
  "arguments",
  "input",
  "code",
  "transcript",
]);

/**
 * UTF-8 bytes of what the model generated of a message or a delta: text, reasoning, refusals, the names and
 * arguments of calls. Ids, indexes and the like are not counted: no model made them, and in a stream they are twenty
 * times as long as the text. Sound counts by its transcript, and a picture as a part of a prompt that is no text: the
 * bytes of either tell nothing of tokens.
 */
export function messageBytes(message: JsonFields): number {
  let bytes = 0;
  for (const name in message) {
    const value = message[name];
    if (ENVELOPE_KEYS.has(name) || THOUGHT_FIELDS.has(name)) continue;
    // Most of what is said is one text, for which nothing need be walked.
    if (typeof value === "string") bytes += Buffer.byteLength(value);
    else if (name === "audio" && isJsonObject(value)) bytes += transcriptBytes(value);
    else if (name === "images" && Array.isArray(value))
      bytes += value.length * BYTES_PER_OTHER_PART;
    else bytes += stringBytes(value, ENVELOPE_KEYS);
  }
  return bytes + reasoningBytes(message);
}

/** The part of that which is thoughts: the same ones under another name are counted once. */
export function reasoningBytes(message: JsonFields): number {
  let bytes = 0;
  for (const name of THOUGHT_FIELDS) {
    const value = message[name];
    if (value) bytes = Math.max(bytes, stringBytes(value, THOUGHT_ENVELOPE_KEYS));
  }
  return bytes;
}

/**
 * UTF-8 bytes of what the output of a response says: texts, reasoning, refusals, calls of tools. They are
 * the ones that come as deltas in a stream, so both forms of an answer are estimated alike.
 */
export function outputBytes(output: unknown): number {
  let bytes = 0;
  walk(output, (found, name) => {
    const isSpoken = typeof found === "string" && name !== undefined && SPOKEN_FIELDS.has(name);
    if (isSpoken) bytes += Buffer.byteLength(found);
    return typeof found === "object";
  });
  return bytes;
}

function transcriptBytes({ transcript }: JsonFields): number {
  return typeof transcript === "string" ? Buffer.byteLength(transcript) : 0;
}

/** UTF-8 bytes of the strings in a value of any depth, without keys, and without what stands under the `envelopeKeys`. */
function stringBytes(value: unknown, envelopeKeys: ReadonlySet<string>): number {
  let bytes = 0;
  walk(value, (found, key) => {
    if (key !== undefined && envelopeKeys.has(key)) return false;
    if (typeof found === "string") bytes += Buffer.byteLength(found);
    return typeof found === "object";
  });
  return bytes;
}

/** What a message or a delta says in its content, in the fields that the convention has for it. */
export interface DetectedContent {
  readonly content: string;
  /** The thoughts that stand among the parts, unless the provider gives reasoning in this very field. */
  readonly reasoning_content?: string;
}

/**
 * Some providers give a list of parts where the convention has one text, and Mistral's has the thoughts of a model
 * among them: https://docs.mistral.ai/capabilities/reasoning/. Throws AnswerError.
 */
export function detectContent(message: JsonFields): DetectedContent {
  const { content, reasoning_content: reasoning } = message;
  if (typeof content === "string") return { content };
  if (content === null || content === undefined) return { content: "" };
  if (!Array.isArray(content)) throw new AnswerError("the content is not text");
  const thoughts = (reasoning ?? "") === "" ? content.map(thoughtOf).join("") : "";
  const text = textOf(content);
  return thoughts === "" ? { content: text } : { content: text, reasoning_content: thoughts };
}

function thoughtOf(part: unknown): string {
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

/** Where a chat's message has signed or hidden thoughts, as Anthropic's, Google's and OpenRouter's are given, and under which names. */
const SEALED_PLACES: ReadonlySet<string> = new Set([
  "thinking_blocks",
  "extra_content",
  "reasoning_details",
]);
const SEALED_FIELDS: ReadonlySet<string> = new Set(["signature", "data", "thought_signature"]);

/**
 * Thoughts that came encrypted: what a client that leaves has of them is as much a part of the answer as its text. They
 * are given in base64, of which four characters are three bytes, and the text in them has no more bytes than those, so
 * that counts at most what was thought. What also came as text is in there once more: it is counted once.
 */
export class EncryptedReasoning {
  #encryptedLength = 0;
  #textBytes = 0;

  /** So many characters of base64. */
  addEncrypted(characters: number): void {
    this.#encryptedLength += characters;
  }

  /** So many UTF-8 bytes of thoughts, or of summaries of them, that came as text. */
  addText(bytes: number): void {
    this.#textBytes += bytes;
  }

  /** UTF-8 bytes of what was thought and not shown, at most. */
  get encryptedReasoningBytes(): number {
    return Math.max(0, Math.ceil((this.#encryptedLength * 3) / 4) - this.#textBytes);
  }
}

/** The characters of the encrypted thoughts that stand in a delta of a chat, where none of them counts as text. */
export function encryptedLengthOf(delta: JsonFields): number {
  let characters = 0;
  walk(delta, (found, name) => {
    if (name === undefined || !SEALED_PLACES.has(name)) return typeof found === "object";
    walk(found, (sealed, field) => {
      const isSealed = typeof sealed === "string" && field !== undefined;
      if (isSealed && SEALED_FIELDS.has(field)) characters += sealed.length;
      return typeof sealed === "object";
    });
    return false;
  });
  return characters;
}
