import type { ReadJson } from "../../../lib/exactJson.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../../lib/json.ts";

/**
 * What a provider needs back with an answer and what no other item of a response has a place for: signed reasoning of
 * Anthropic (`thinking_blocks`), Google (`extra_content`) and OpenRouter (`reasoning_details`).
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

/**
 * Whether a responses request returns encrypted content that this gateway wrote. The responses interface of a provider
 * would refuse it.
 */
export function returnsOwnContent({ input }: JsonFields): boolean {
  const items: readonly unknown[] = Array.isArray(input) ? input : [];
  return items.some((item) => isOwn(fieldsOf(item)["encrypted_content"]));
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
