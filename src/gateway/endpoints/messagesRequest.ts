import { invalidRequest, resourceNotFound } from "../../contract/errors.ts";
import { viewOf, type JsonObjectText } from "../../lib/json.ts";
import type { RunTask } from "../largeBodies/largeBodies.ts";
import { largeText } from "../largeBodies/largeText.ts";
import type { RequestScope } from "../requestScope.ts";
import {
  ownMessagesText,
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

/** The client's text for a provider of kind anthropic: `ownMessagesText`. */
export function ownMessages(
  object: JsonObjectText,
  runTask: RunTask | undefined,
): JsonObjectText | Promise<JsonObjectText> {
  if (!viewOf(object.bytes).includes(TRANSLATED_SIGNATURE)) return object;
  if (!runTask) return ownMessagesText(object);
  return runTask("ownMessages", object.members).then((own) => (own ? largeText(own) : object));
}
