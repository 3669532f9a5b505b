import { type RequestMessage, CONVENTION_FIELDS } from "../../contract/chat/chatRequestBody.ts";
import { isDeeperThan, type JsonFields, type JsonObjectText } from "../../lib/json.ts";
import { unsupported } from "./chatParts.ts";
import { DEPTH_MAX, UnsupportedRequestError } from "../provider.ts";

/** Null counts as absent, as everywhere in the chat convention. */
export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Throws UnsupportedRequestError for kinds of answers that only OpenAI's own interface has. */
export function refuseOtherAnswers(body: JsonFields): void {
  const { modalities, web_search_options: search } = body;
  if (isGiven(search)) throw unsupported("web_search_options");
  if (Array.isArray(modalities) && modalities.some((mode) => mode !== "text")) {
    throw unsupported("modalities");
  }
}

/**
 * Throws UnsupportedRequestError for an earlier audio answer, which is referenced by its id at the provider that made
 * it. `path` names the message.
 */
export function refuseRecording(message: RequestMessage, path: string): void {
  const { audio } = message as RequestMessage & { audio?: unknown };
  if (isGiven(audio)) throw unsupported(`${path}.audio`);
}

/**
 * The body for another interface: the given fields, then each top-level field of the client that the chat convention
 * does not know, in the client's own text. A given field replaces the client's; undefined fields are left out. Throws
 * UnsupportedRequestError for fields nested too deep.
 */
export function bodyWithOthers(object: JsonObjectText, fields: JsonFields): string {
  if (isDeeperThan(fields, DEPTH_MAX))
    throw new UnsupportedRequestError("the request is nested too deep");
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  const members = given.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  const taken = new Set(given.map(([name]) => name));
  for (const { key, valueStart, valueEnd } of object.members) {
    if (CONVENTION_FIELDS.has(key) || taken.has(key)) continue;
    members.push(`${JSON.stringify(key)}:${object.text.slice(valueStart, valueEnd)}`);
  }
  return `{${members.join(",")}}`;
}
