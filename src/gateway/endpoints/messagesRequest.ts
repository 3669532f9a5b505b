import { invalidRequest, resourceNotFound } from "../../contract/errors.ts";
import { parseExactly } from "../../lib/exactJson.ts";
import {
  fieldsOf,
  isDeeperThan,
  isJsonObject,
  textOf,
  viewOf,
  type JsonObjectText,
} from "../../lib/json.ts";
import { scanObject } from "../../lib/jsonObject.ts";
import { splice } from "../../lib/splice.ts";
import { DEPTH_MAX } from "../../providers/provider.ts";
import type { RequestScope } from "../requestScope.ts";
import {
  isTranslatedThinking,
  TRANSLATED_SIGNATURE,
} from "../translation/messages/translatedThinking.ts";

/** The headers of the Messages interface that a provider gets as the client sent them. */
const NATIVE_HEADERS = ["anthropic-version", "anthropic-beta"] as const;
/** Visible ASCII and blanks, as the connection to the provider accepts it. */
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
/** Providers refuse a long head for all its requests with 431. */
const HEADER_CHARS_MAX = 1024;

/** Reads the client's headers for the provider. Throws ApiError 400 for a beta that the operator refuses. */
export function messagesHeaders(scope: RequestScope): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const name of NATIVE_HEADERS) {
    const value = scope.header(name);
    if (value === null || value === "") continue;
    if (value.length > HEADER_CHARS_MAX)
      throw invalidRequest(`${name} is too long: at most ${HEADER_CHARS_MAX} characters`);
    if (!HEADER_VALUE.test(value)) throw invalidRequest(`${name} is not valid`);
    headers[name] = value;
  }
  const { refusedBetas } = scope.snapshot.config.api;
  const betas = (headers["anthropic-beta"] ?? "").split(",").map((beta) => beta.trim());
  const refused = betas.find((beta) => refusedBetas.includes(beta.toLowerCase()));
  if (refused !== undefined) throw invalidRequest(`anthropic-beta ${refused} is not supported`);
  return headers;
}

/** Refuses files of the provider, unless shared: their owner is not known. Throws ApiError 404. */
export function refuseForeignFiles({ snapshot }: RequestScope, objectIds: readonly string[]): void {
  const { sharedObjects } = snapshot.config.api;
  if (objectIds.some((id) => !sharedObjects.includes(id))) throw resourceNotFound();
}

/**
 * The client's text for a provider of kind anthropic. Reasoning of an answer that another kind of provider wrote has no
 * signature of Anthropic, and its models refuse it, so it is left out. Everything else keeps its bytes. So does a text that
 * is nested too deep to be written again: the provider refuses it.
 */
export function ownMessagesText(object: JsonObjectText): JsonObjectText {
  if (!viewOf(object.bytes).includes(TRANSLATED_SIGNATURE)) return object;
  const { messages } = fieldsOf(parseExactly(textOf(object)));
  if (!Array.isArray(messages) || isDeeperThan(messages, DEPTH_MAX)) return object;
  const kept = messages.flatMap((message: unknown) => {
    const { content, ...others } = fieldsOf(message);
    if (!Array.isArray(content)) return [message];
    const own = content.filter((block) => !isJsonObject(block) || !isTranslatedThinking(block));
    // The interface refuses a message without content.
    return own.length === 0 ? [] : [{ ...others, content: own }];
  });
  return scanObject(splice(object, { set: { messages: JSON.stringify(kept) } }));
}
