import { isJsonObject, type JsonFields, type JsonObjectText } from "../lib/json.ts";
import { parseObject, wholeValue, type ParsedObject } from "../lib/jsonObject.ts";
import { lazy } from "../lib/lazy.ts";
import { CutStringError } from "../lib/outline.ts";
import { CostlyJsonError } from "../lib/untrustedJson.ts";
import { invalidRequest } from "./errors.ts";
import { sessionNameOf } from "./session.ts";
import { shownKey } from "./validationMessage.ts";

/** The members of requests that hold the prompt. Of their long texts the checks need only the size. */
const PROMPT_MEMBERS: ReadonlySet<string> = new Set([
  "input",
  "instructions",
  "messages",
  "system",
  "tools",
]);

/**
 * Reads a text that must be a JSON object. Bytes must be UTF-8. Throws ApiError 400. A duplicate key is refused: one reader
 * takes its first value and another its last, so the checked value and the sent text would differ.
 */
export function parseJsonObject(
  source: string | Uint8Array,
  outlined?: ReadonlySet<string>,
): { value: Record<string, unknown>; object: JsonObjectText; isOutline: boolean } {
  const { value, object, isOutline, hasLoneSurrogate } = parse(source, outlined);
  if (!isJsonObject(value)) throw invalidRequest("body must be a JSON object");
  if (object.duplicateKey !== undefined) {
    throw invalidRequest(`${shownKey(object.duplicateKey)} stands twice`);
  }
  if (hasLoneSurrogate) throw invalidRequest("invalid unicode");
  return { value, object, isOutline };
}

/** A request that was checked, with its text. */
export interface CheckedBody<Request> {
  readonly request: Request;
  readonly object: JsonObjectText;
}

/** A request with a prompt. */
export interface CheckedPrompt<Request> extends CheckedBody<Request> {
  /** The name of its session: `sessionNameOf`. The function retains the body, so a stream must not retain it. */
  readonly sessionName: () => string | undefined;
}

/**
 * Reads the body of a request with a prompt, and checks it. `check` gets the value or its outline (`lib/outline.ts`), and a
 * function that parses the whole value at its first call. Throws ApiError 400.
 */
export function checkPromptBody<Request>(
  body: Uint8Array,
  check: (value: JsonFields, whole: () => JsonFields) => Request,
): CheckedPrompt<Request> {
  const { value, object, isOutline } = parseJsonObject(body, PROMPT_MEMBERS);
  const whole = isOutline ? lazy(() => wholeValue(object)) : () => value;
  const sessionName = (): string | undefined => sessionNameOf(value, object.bytes);
  try {
    return { request: check(value, whole), object, sessionName };
  } catch (error) {
    if (!(error instanceof CutStringError)) throw error;
    return { request: check(whole(), whole), object, sessionName };
  }
}

function parse(source: string | Uint8Array, outlined?: ReadonlySet<string>): ParsedObject {
  try {
    return parseObject(source, outlined);
  } catch (error) {
    if (error instanceof CostlyJsonError) throw invalidRequest(`body ${error.message}`);
    // No cause: the parser's error quotes the body, which must not reach a log.
    throw invalidRequest("body is not valid JSON");
  }
}
