import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { parseUntrusted } from "../lib/untrustedJson.ts";

/** The longest code, type or parameter. */
export const CODE_CHARS_MAX = 64;

/** The fields of a provider's error in any known form. */
export interface ReportedError {
  /** The text where the interfaces have it. Its beginning is the provider's own, so it may decide the fault. */
  message?: string | undefined;
  /**
   * The words of the provider, found in any of the places of `WORDS`. The client gets them. They may begin with a name
   * that the client chose, so only the whole text is compared.
   */
  words?: string | undefined;
  code?: string | undefined;
  type?: string | undefined;
  param?: string | undefined;
  /** Google's reason, such as `API_KEY_INVALID`. */
  reason?: string | undefined;
  /** Google's time to retry after, in whole seconds; it sends no header. */
  retrySeconds?: string | undefined;
  /** The status that the error names itself. It decides the fault in an answer with status 200. */
  status?: number | undefined;
  /** The error is under `error`, as the interfaces have it. Proxies before a provider use other forms. */
  isInForm?: boolean;
  /** The provider's own request id is beside the error. */
  hasRequestId?: boolean;
}

/**
 * Where errors have their words, in order of preference. A dot leads into an object. The value is a text, JSON in a text, an
 * object with words of its own, or a list of these, of which the first with words counts.
 */
const WORDS: readonly string[] = [
  // An object with a message in all interfaces; a text at xAI and Ollama, a list of texts at Hugging Face.
  "error",
  // Mistral puts FastAPI's `detail` under it.
  "message",
  // https://fastapi.tiangolo.com/tutorial/handling-errors/ and https://www.rfc-editor.org/rfc/rfc9457
  "detail",
  // Cloudflare: https://developers.cloudflare.com/fundamentals/api/reference/errors/
  "errors",
  // AWS
  "Message",
  "Error",
  // Proxies and gateways of many kinds; `error_msg` is Baidu's.
  "msg",
  "error_msg",
  "errorMessage",
  "error_message",
  "errorMsg",
  "err_msg",
  "errmsg",
  // https://datatracker.ietf.org/doc/html/rfc6749#section-5.2
  "error_description",
  // MiniMax
  "base_resp.status_msg",
  "status_msg",
  // Apigee
  "fault.faultstring",
  // OpenRouter has the error of the provider that it asked as JSON in a text:
  // https://openrouter.ai/docs/api-reference/errors
  "metadata.raw",
  // Azure
  "innererror",
  // Google: https://cloud.google.com/apis/design/errors#error_details
  "details.fieldViolations.description",
  "details",
  "title",
  "description",
  "reason",
];
const WORD_PATHS = WORDS.map((path) => path.split("."));
/** How deep words may be inside each other. */
const DEPTH_MAX = 6;

/** Whole messages that do not say what is wrong. The next words are added to them. */
const SAYS_NOTHING =
  /^(?:(?:http )?(?:error )?[45]\d\d\W*)?(?:(?:an? |the )?(?:unknown |internal |upstream |provider )?(?:api )?error(?: occurred)?|(?:provider|upstream) returned (?:an )?error|bad[ _]?request(?:[ _]?error)?|invalid[ _]request(?:[ _]error)?|(?:request |validation )?failed|request validation failed|validation error|unprocessable (?:entity|content)|(?:payload|content|request entity) too large|request contains an invalid argument|invalid argument|something went wrong)?[.!]?$/i;

/** A longer body that is no JSON is no message. */
const TEXT_CHARS_MAX = 4096;
const MARKUP = /^\s*<[a-z!?/]/i;
/** The beginning of JSON; a whole one is parsed. */
const JSON_START = /^\s*[[{]/;
/** Some servers answer a stream with an event, whatever the status. */
const EVENT = /^\s*(?:event:[^\n]*\n)?data:(?=\s*\{)/;

/** Never throws; empty if the body has no known error. */
export function readReportedError(text: string): ReportedError {
  const value = parsed(text.replace(EVENT, ""));
  const body: unknown = Array.isArray(value) ? value[0] : value;
  if (isJsonObject(body)) return reportedErrorOf(body);
  const isMessage = value === undefined && text.length <= TEXT_CHARS_MAX && /\p{L}/u.test(text);
  return isMessage && !JSON_START.test(text) ? { words: wordsIn(text, 0) } : {};
}

/** Reads an object that has an `error` or is one. */
export function reportedErrorOf(body: JsonFields): ReportedError {
  const error = body["error"] ?? body;
  const words = wordsIn(body, 0);
  if (typeof error === "string") return { message: error, isInForm: true, words };
  if (!isJsonObject(error)) return { words };
  return {
    isInForm: error !== body,
    hasRequestId: error !== body && body["request_id"] !== undefined,
    message: textOf(error["message"]),
    words,
    code: textOf(error["code"]),
    type: textOf(error["type"])?.slice(0, CODE_CHARS_MAX),
    param: textOf(error["param"]),
    status: statusOf(error) ?? statusOf(body),
    ...errorDetailsOf(error["details"]),
  };
}

/** Most errors have the status as their code; Groq has `status_code` besides. */
function statusOf({ status_code, code, status }: JsonFields): number | undefined {
  const found = [status_code, code, status].find((value) => /^[45]\d\d$/.test(textOf(value) ?? ""));
  return found === undefined ? undefined : Number(found);
}

/** The words in a value; those of a text are the text, unless it is JSON or a page. */
function wordsIn(value: unknown, depth: number): string | undefined {
  if (depth > DEPTH_MAX) return undefined;
  if (typeof value === "string") {
    const nested = JSON_START.test(value) ? parsed(value) : undefined;
    const words = nested === undefined ? undefined : wordsIn(nested, depth + 1);
    return words ?? (MARKUP.test(value) ? undefined : value.trim() || undefined);
  }
  if (Array.isArray(value)) return firstOf(value, (item) => wordsIn(item, depth + 1));
  if (!isJsonObject(value)) return undefined;
  return problemIn(value) ?? wordsOfObject(value, depth);
}

function wordsOfObject(value: JsonFields, depth: number): string | undefined {
  let vague: string | undefined;
  for (const path of WORD_PATHS) {
    const words = wordsAt(value, path, depth);
    if (words === undefined) continue;
    if (!SAYS_NOTHING.test(words)) return vague === undefined ? words : `${vague}: ${words}`;
    vague ??= words;
  }
  return vague;
}

function wordsAt(value: unknown, path: readonly string[], depth: number): string | undefined {
  const [name, ...rest] = path;
  if (name === undefined) return wordsIn(value, depth + 1);
  if (Array.isArray(value)) return firstOf(value, (item) => wordsAt(item, path, depth));
  return isJsonObject(value) ? wordsAt(value[name], rest, depth) : undefined;
}

/** FastAPI's problem with a field: https://fastapi.tiangolo.com/tutorial/handling-errors/ */
function problemIn({ loc, msg }: JsonFields): string | undefined {
  const problem = textOf(msg);
  if (problem === undefined || !Array.isArray(loc)) return undefined;
  const path = loc.filter((step) => textOf(step) !== undefined).join(".");
  return path === "" ? problem : `${path}: ${problem}`;
}

function firstOf<Found>(
  list: readonly unknown[],
  find: (item: unknown) => Found | undefined,
): Found | undefined {
  for (const item of list) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Undefined if the text is no JSON, or too costly to parse. */
function parsed(text: string): unknown {
  try {
    return parseUntrusted(text);
  } catch {
    return undefined;
  }
}

/**
 * Google's ErrorInfo with a reason and RetryInfo with a delay such as "34.07s":
 * https://cloud.google.com/apis/design/errors#error_details
 */
function errorDetailsOf(details: unknown): Pick<ReportedError, "reason" | "retrySeconds"> {
  const found: Pick<ReportedError, "reason" | "retrySeconds"> = {};
  for (const detail of Array.isArray(details) ? (details as unknown[]) : []) {
    if (!isJsonObject(detail)) continue;
    found.reason ??= textOf(detail["reason"]);
    const [, seconds] = /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(textOf(detail["retryDelay"]) ?? "") ?? [];
    if (seconds !== undefined) found.retrySeconds ??= String(Math.ceil(Number(seconds)));
  }
  return found;
}

function textOf(value: unknown): string | undefined {
  if (typeof value === "number") return String(value);
  return typeof value === "string" ? value : undefined;
}
