import { isTranslatedReasoning } from "../../../contract/storedObjects.ts";
import { parseExactly, type ReadJson } from "../../../lib/exactJson.ts";
import {
  fieldsOf,
  isDeeperThan,
  isJsonObject,
  type JsonFields,
  type JsonObjectText,
  textOf,
  viewOf,
} from "../../../lib/json.ts";
import { scanObject } from "../../../lib/jsonObject.ts";
import { splice } from "../../../lib/splice.ts";
import { DEPTH_MAX } from "../../../providers/provider.ts";

/**
 * Signed reasoning that a provider needs back with an answer: of Anthropic (`thinking_blocks`), Google
 * (`extra_content`) and OpenRouter (`reasoning_details`). No other item of a response has a place for it.
 */
export interface ReturnedFields {
  readonly thinking_blocks?: readonly unknown[];
  readonly reasoning_details?: readonly unknown[];
  readonly extra_content?: JsonFields;
  /** The `extra_content` of calls, by call id. */
  readonly calls?: Readonly<Record<string, JsonFields>>;
}

/** Marks the encrypted content that this gateway wrote. It is not encrypted: the providers sign what must not change. */
const PREFIX = "tollgate-1:";

/** The `encrypted_content` of a reasoning item. */
export function encryptedContentOf(fields: ReturnedFields): string {
  return PREFIX + Buffer.from(JSON.stringify(fields)).toString("base64url");
}

/** How the id of reasoning begins, and that of reasoning of a translated answer. */
const REASONING_ID = '"rs_';
const TRANSLATED_ID = /^"rs_[0-9a-z]{20}_\d/;
const TRANSLATED_ID_BYTES = 26;

/**
 * The client's text for a provider with the responses interface. Reasoning of an answer that was translated is left out: the
 * provider did not store it and cannot decrypt it, and refuses the request. Everything else keeps its bytes. So does a text
 * that is nested too deep to be written again: the provider refuses it.
 */
export function ownResponsesText(object: JsonObjectText): JsonObjectText {
  const { input } = fieldsOf(parseExactly(textOf(object)));
  if (!Array.isArray(input) || isDeeperThan(input, DEPTH_MAX)) return object;
  const kept = input.filter((item: unknown) => !isOwnReasoning(fieldsOf(item)));
  return scanObject(splice(object, { set: { input: JSON.stringify(kept) } }));
}

/** Whether a text seems to return reasoning of a translated answer, with or without encrypted content. */
export function mayHaveOwnReasoning({ bytes }: JsonObjectText): boolean {
  const text = viewOf(bytes);
  if (text.includes(PREFIX)) return true;
  for (let at = text.indexOf(REASONING_ID); at >= 0; at = text.indexOf(REASONING_ID, at + 1)) {
    if (TRANSLATED_ID.test(text.toString("latin1", at, at + TRANSLATED_ID_BYTES))) return true;
  }
  return false;
}

function isOwnReasoning(item: JsonFields): boolean {
  return (
    isTranslatedReasoning(item) ||
    (item["type"] === "reasoning" && isOwn(item["encrypted_content"]))
  );
}

function isOwn(encrypted: unknown): boolean {
  return typeof encrypted === "string" && encrypted.startsWith(PREFIX);
}

/** Reads encrypted content. Undefined if it is a provider's, or if it was changed. */
export function returnedFieldsOf(
  encrypted: string,
  readJson: ReadJson,
): ReturnedFields | undefined {
  if (!isOwn(encrypted)) return undefined;
  try {
    const text = Buffer.from(encrypted.slice(PREFIX.length), "base64url").toString();
    const value = readJson(text);
    return isJsonObject(value) ? knownFields(value) : undefined;
  } catch {
    // The parser's error quotes the client's text.
    return undefined;
  }
}

function knownFields(value: JsonFields): ReturnedFields {
  const {
    thinking_blocks: blocks,
    reasoning_details: details,
    extra_content: extra,
    calls,
  } = value;
  return {
    ...(Array.isArray(blocks) && { thinking_blocks: blocks as readonly unknown[] }),
    ...(Array.isArray(details) && { reasoning_details: details as readonly unknown[] }),
    ...(isJsonObject(extra) && { extra_content: extra }),
    ...(isJsonObject(calls) && { calls: objectsIn(calls) }),
  };
}

function objectsIn(value: JsonFields): Readonly<Record<string, JsonFields>> {
  const entries = Object.entries(value).filter(
    (entry): entry is [string, Record<string, unknown>] => isJsonObject(entry[1]),
  );
  return Object.fromEntries(entries);
}
