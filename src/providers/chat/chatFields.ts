import { type RequestMessage, CONVENTION_FIELDS } from "../../contract/chat/chatRequestBody.ts";
import { isDeeperThan, type JsonFields, type JsonObjectText } from "../../lib/json.ts";
import { unsupported } from "./chatParts.ts";
import { DEPTH_MAX, UnsupportedRequestError } from "../provider.ts";

/** True unless a field is absent. A null one counts as absent, as everywhere in the convention. */
export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Throws UnsupportedRequestError for what asks for another kind of answer, which only the convention's own interface can give. */
export function refuseOtherAnswers(body: JsonFields): void {
  const { modalities, web_search_options: search } = body;
  if (isGiven(search)) throw unsupported("web_search_options");
  if (Array.isArray(modalities) && modalities.some((mode) => mode !== "text")) {
    throw unsupported("modalities");
  }
}

/**
 * Throws UnsupportedRequestError for an earlier answer in sound, which a message of the assistant names by its id: it is kept where
 * it was made. `path` names the message to the caller.
 */
export function refuseRecording(message: RequestMessage, path: string): void {
  const { audio } = message as RequestMessage & { audio?: unknown };
  if (isGiven(audio)) throw unsupported(`${path}.audio`);
}

/**
 * The body of a request in another interface's words: the given fields, of which undefined ones are left out, and
 * behind them every top-level field of the client's that the convention does not know, in the client's own text: who
 * writes such a field knows the provider. A given field takes the place of the client's.
 * Throws UnsupportedRequestError for a given value that is nested too deep to be written.
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
