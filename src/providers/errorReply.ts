import { redactSecrets, type Secrets } from "./scrub.ts";
import { UpstreamError, type AccountFault, type UpstreamFault } from "./upstreamError.ts";
import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { parseUntrusted } from "../lib/untrustedJson.ts";

const CALLER_STATUSES = [400, 409, 413, 422];
/**
 * With OpenAI a server of the caller's own that could not be reached, which a tool of the type `mcp` names; with others
 * the model that failed at this request. The route is no worse for either, and another one may do better.
 */
const FAILED_BESIDE_STATUS = 424;
const ACCOUNT_STATUSES = [401, 402];
/** With a time to come back at it is no empty account: OpenRouter says so of what all open requests may cost together. */
const PAYMENT_STATUS = 402;
const RETRY_AFTER_SECONDS_MAX = 60;

/** Values of `code` or `type` with which providers say that the operator's account is empty, with any status. */
const EMPTY_ACCOUNT_CODES = new Set([
  "insufficient_quota",
  "insufficient_balance",
  "insufficient_credits",
  "insufficient_funds",
  "billing_error",
  "billing_hard_limit_reached",
  "billing_not_active",
  "exceeded_current_quota_error",
  "arrearage",
]);
/**
 * Messages that say the same. They count only as the whole message: longer text can repeat what a client sent, and any
 * client could then put the provider aside for all others. The messages that equal a code in words count too, such as
 * "Insufficient Balance" of DeepSeek (https://api-docs.deepseek.com/quick_start/error_codes), whose type and code say
 * nothing (https://github.com/Aider-AI/aider/issues/4851). The other two are SiliconFlow's and OpenAI's.
 */
const EMPTY_ACCOUNT_MESSAGES = new Set([
  "sorry, your account balance is insufficient",
  "billing hard limit has been reached",
]);
/**
 * Sentences with which a 400 or a 429 says that the account is refused, for its limit or its country too. They count
 * only at the beginning of the message, for the same reason.
 */
const REFUSED_ACCOUNT_SENTENCE =
  /^(?:You have reached your specified (?:\w+ )?API usage limits|This organization has been disabled|User location is not supported for|Gemini API free tier is not available in)\b/;
/** The same of xAI, which has a 400 for a wrong key. Its end tells that nothing of a caller's stands behind the key. */
const WRONG_KEY_SENTENCE =
  /^Incorrect API key provided: \S{1,128} You can obtain an API key from https:\/\/[a-z.]{1,64}$/;
/** Zhipu's numbers for an empty account and for a locked one: https://docs.z.ai/api-reference/api-code */
const ZHIPU_EMPTY_CODE = "1113";
const ZHIPU_LOCKED_CODE = "1112";

/**
 * Alibaba says `insufficient_quota` where one model's rate limit is reached, and has a code of its own for an empty
 * account: https://www.alibabacloud.com/help/en/model-studio/error-code#token-limit. Its sentences tell, and where it
 * leaves all but OpenAI's own away, the `request_id` that it puts beside each error.
 */
const RATE_LIMIT_SENTENCE =
  /^(?:Allocated quota exceeded|You exceeded your current quota\b.{1,256}\b(?:per (?:minute|second)|aliyun\.com|alibabacloud\.com))\b/s;
const QUOTA_SENTENCE = /^You exceeded your current quota\b/;

/** The sentences that say that there is no money, and which of all speak of the country of the caller, also with a 403. */
const EMPTY_ACCOUNT_SENTENCE =
  /^(?:Your credit balance is too low|Your prepayment credits are depleted|Your team \S{1,64} has either used all available credits or reached its monthly spending limit)\b/;
const COUNTRY_CODE = /country|region/i;
const COUNTRY_SENTENCE =
  /^(?:User location is not supported for|Gemini API free tier is not available in|(?:this |your )?country)\b/i;

/**
 * How Google says that the operator's key or project is refused, whatever the status: a wrong key is a 400 there.
 * These reasons are its own words, and no client's: https://ai.google.dev/gemini-api/docs/troubleshooting and
 * https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto
 */
const ACCOUNT_REASON =
  /^(?:API_KEY_\w+|(?:SERVICE|BILLING)_DISABLED|CONSUMER_(?:INVALID|SUSPENDED)|USER_PROJECT_DENIED|ACCOUNT_STATE_INVALID)$/;

/**
 * A 403 is a refused account, but some providers moderate with it as well, and a firewall before one refuses a single
 * prompt with it. What speaks of the account, in a code or as the beginning of its message, is held against the
 * provider; so is what speaks of nothing. What speaks of the request anywhere is nobody's fault, however often it
 * comes: else one client's prompts would put the route aside for everybody. What speaks of a model alone, or is no
 * error in the interface's form, is the route's.
 */
const ACCOUNT_CODE = /api_?key|account|permission|billing|quota|balance|credit|country|region/i;
const ACCOUNT_SENTENCE =
  /^(?:sorry, )?(?:(?:your|this|the|invalid|incorrect|insufficient|unsupported) )?(?:newly created )?(?:api[ _-]?key|account|organization(?! must be verified to\b)|team|permissions?|billing|credits?|balance|country|region)\b|^you (?:have insufficient|do not have|don't have) permission(?! to access the file\b)|^method doesn't allow unregistered callers\b/i;
/** What no request by itself brings about: a country that is shut out hears "Request not allowed" from Anthropic. */
const ROUTE_WORD = /model|\brequests?\b/i;
const REQUEST_WORD =
  /moderat|flagg|polic|guideline|safety|violat|harm|content|prompt|must be verified to|\b(?:input|message|parameter|value|field|type|role|name|file|image|tool|keyword)s?\b/i;

/**
 * The seconds for which the head of an answer asks to be left alone, as errorOfReply takes them. Azure, and OpenAI, have
 * milliseconds too: https://github.com/openai/openai-node/blob/master/src/client.ts
 */
export function retryAfterOf(head: {
  header(name: string): string | undefined;
}): string | undefined {
  const seconds = head.header("retry-after");
  const milliseconds = head.header("retry-after-ms") ?? "";
  if (seconds !== undefined || !/^\d{1,12}(?:\.\d{1,9})?$/.test(milliseconds)) return seconds;
  return String(Math.ceil(Number(milliseconds) / 1000));
}

/** The error of an answer whose status is not 200; `text` is the beginning of its body. */
export function errorOfReply(
  status: number,
  retryAfter: string | undefined,
  text: string,
  secrets: Secrets,
): UpstreamError {
  const error = readReportedError(text);
  const headerRetryMs = retryAfterMs(retryAfter);
  const isLimited =
    status === PAYMENT_STATUS && headerRetryMs !== undefined && !isEmptyAccountMessage(error);
  const fault = isLimited ? "rateLimited" : faultOf(status, error);
  return new UpstreamError(fault, `status ${status}`, {
    ...detailsOf(fault, status, error, secrets),
    status,
    retryAfterMs: headerRetryMs ?? retryAfterMs(error.retrySeconds),
  });
}

/** The details of an UpstreamError from what the provider reports, without secrets. */
export function detailsOf(
  fault: UpstreamFault,
  status: number | undefined,
  error: ReportedError,
  secrets: Secrets,
) {
  const message = redactSecrets(error.message || (error.detail ?? ""), secrets);
  return {
    retryAfterMs: retryAfterMs(error.retrySeconds),
    providerCode: error.code,
    accountFault: fault === "account" ? accountFaultOf(status, error) : undefined,
    providerMessage: message || redactSecrets(codeOf(error), secrets) || undefined,
    clientError: fault === "caller" ? clientErrorOf(error, message, secrets) : undefined,
  };
}

function clientErrorOf({ code, param }: ReportedError, message: string, secrets: Secrets) {
  return {
    message: message || "invalid request",
    extra: {
      ...(code === undefined ? {} : { code: shortCode(code, secrets) }),
      ...(param === undefined ? {} : { param: shortCode(param, secrets) }),
    },
  };
}

/** Masks before it cuts: half of a secret would not be recognized. */
function shortCode(code: string, secrets: Secrets): string {
  return redactSecrets(code, secrets).slice(0, CODE_CHARS_MAX);
}

/** Whose fault an error is that came with this status. */
export function faultOf(status: number, error: ReportedError): UpstreamFault {
  if (ACCOUNT_STATUSES.includes(status)) return "account";
  if (status < 500 && ACCOUNT_REASON.test(error.reason ?? "")) return "account";
  // The caller's own server can write the message of this status.
  if (status === FAILED_BESIDE_STATUS) return "isolated";
  if (status === 429 && isRateLimitAsQuota(error)) return "rateLimited";
  if (isEmptyAccount(error)) return "account";
  if (status === 403) return faultOfForbidden(error);
  if (status === 429 && [ZHIPU_EMPTY_CODE, ZHIPU_LOCKED_CODE].includes(error.code ?? "")) {
    return "account";
  }
  if ((status === 400 || status === 429) && isAccountRefused(error)) return "account";
  if (CALLER_STATUSES.includes(status)) return "caller";
  if (status === 404) return "notFound";
  return status === 429 ? "rateLimited" : "provider";
}

function faultOfForbidden(error: ReportedError): UpstreamFault {
  if (mentionsAccount(error)) return "account";
  if (error.isInForm !== true) return "provider";
  const { code, type, message, reason } = error;
  if (matchesAny(REQUEST_WORD, code, type, message)) return "isolated";
  // Google's reasons speak of rules that hold for each request, such as those of a network.
  const isOfRoute = matchesAny(ROUTE_WORD, code, type, message) || matchesAny(REQUEST_WORD, reason);
  return isOfRoute ? "provider" : "account";
}

function matchesAny(subject: RegExp, ...words: readonly (string | undefined)[]): boolean {
  return words.some((word) => subject.test(word ?? ""));
}

/** What stands in for the sentence where there is none: the first code with a letter in it, for a number says nothing. */
function codeOf({ reason, code }: ReportedError): string {
  return [reason, code].find((word) => /[a-z]/i.test(word ?? "")) ?? "";
}

/** What is wrong with the operator's account; undefined where only the provider's own words tell. */
function accountFaultOf(
  status: number | undefined,
  error: ReportedError,
): AccountFault | undefined {
  const { code, message, reason } = error;
  if (status === 401 || reason?.startsWith("API_KEY_")) return "key";
  if (WRONG_KEY_SENTENCE.test(message ?? "")) return "key";
  if (status === PAYMENT_STATUS || isEmptyAccount(error)) return "empty";
  if (code === ZHIPU_EMPTY_CODE || EMPTY_ACCOUNT_SENTENCE.test(message ?? "")) return "empty";
  const isCountry = COUNTRY_CODE.test(code ?? "") || COUNTRY_SENTENCE.test(message ?? "");
  return isCountry ? "country" : undefined;
}

/** Whether the code, the type or the whole message says that the operator's account has no money. */
export function isEmptyAccount(error: ReportedError): boolean {
  const isCode = [error.code, error.type].some((word) =>
    EMPTY_ACCOUNT_CODES.has(word?.toLowerCase() ?? ""),
  );
  return isCode || isEmptyAccountMessage(error);
}

/** Letter case and final punctuation do not matter. */
function isEmptyAccountMessage({ message, detail }: ReportedError): boolean {
  const words = (message || detail || "").trim().toLowerCase();
  const sentence = words.replace(/[.!]$/, "");
  return (
    EMPTY_ACCOUNT_MESSAGES.has(sentence) || EMPTY_ACCOUNT_CODES.has(sentence.replaceAll(" ", "_"))
  );
}

function isRateLimitAsQuota({ message = "", hasRequestId }: ReportedError): boolean {
  if (RATE_LIMIT_SENTENCE.test(message)) return true;
  return hasRequestId === true && QUOTA_SENTENCE.test(message);
}

function isAccountRefused({ message }: ReportedError): boolean {
  return [REFUSED_ACCOUNT_SENTENCE, EMPTY_ACCOUNT_SENTENCE, WRONG_KEY_SENTENCE].some((sentence) =>
    sentence.test(message ?? ""),
  );
}

function mentionsAccount({ code, type, message }: ReportedError): boolean {
  return (
    [code, type].some((word) => ACCOUNT_CODE.test(word ?? "")) ||
    ACCOUNT_SENTENCE.test(message ?? "")
  );
}

/** Only whole seconds are believed, and at most a minute of them. */
function retryAfterMs(seconds: string | undefined): number | undefined {
  if (seconds === undefined || !/^\d{1,9}$/.test(seconds)) return undefined;
  return Math.min(Math.max(Number(seconds), 1), RETRY_AFTER_SECONDS_MAX) * 1000;
}

/** What is kept of a code. */
const CODE_CHARS_MAX = 64;

/** What a provider says of an error, in any of the forms that are known. */
export interface ReportedError {
  message?: string | undefined;
  /** The text in place of a message. It can begin with a name that the client chose: only the whole text is ever compared. */
  detail?: string | undefined;
  code?: string | undefined;
  type?: string | undefined;
  param?: string | undefined;
  /** Google's own word for what is wrong, such as `API_KEY_INVALID`. */
  reason?: string | undefined;
  /** Whole seconds after which Google asks to be called again; it sends no header. */
  retrySeconds?: string | undefined;
  /** The HTTP status that it gives itself: in an answer whose own is 200 it tells whose fault the error is. */
  status?: number | undefined;
  /** It stands under `error`, as the interfaces have it; what stands in front of a provider has forms of its own. */
  isInForm?: boolean;
  /** The provider tells its own id of the request beside the error. */
  hasRequestId?: boolean;
}

/** Of the body of an answer, or of its beginning; nothing where that says nothing. Never throws. */
function readReportedError(text: string): ReportedError {
  let value: unknown;
  try {
    value = parseUntrusted(text);
  } catch {
    return {};
  }
  const body: unknown = Array.isArray(value) ? value[0] : value;
  return isJsonObject(body) ? reportedErrorOf(body) : {};
}

/** Of what has an `error`, or is one. */
export function reportedErrorOf(body: JsonFields): ReportedError {
  const error = body["error"] ?? body;
  if (typeof error === "string") return { message: error, isInForm: true };
  if (!isJsonObject(error)) return { detail: detailOf(body) };
  return {
    isInForm: error !== body,
    hasRequestId: error !== body && body["request_id"] !== undefined,
    message: textOf(error["message"]),
    code: textOf(error["code"]),
    type: textOf(error["type"])?.slice(0, CODE_CHARS_MAX),
    param: textOf(error["param"]),
    status: statusOf(error) ?? statusOf(body),
    detail: detailOf(error) || detailOf(body),
    ...errorDetailsOf(error["details"]),
  };
}

/** Most have it as their code; Groq has `status_code` beside a code of its own. */
function statusOf({ status_code, code, status }: JsonFields): number | undefined {
  const found = [status_code, code, status].find((value) => /^[45]\d\d$/.test(textOf(value) ?? ""));
  return found === undefined ? undefined : Number(found);
}

/**
 * What servers made with FastAPI say instead of a message, a text or a list of what is wrong with which field, of which
 * the first counts: https://fastapi.tiangolo.com/tutorial/handling-errors/. Mistral puts it, or that list, under `message`.
 */
function detailOf({ message, detail: beside }: Readonly<Record<string, unknown>>) {
  const detail = (isJsonObject(message) ? message["detail"] : beside) ?? message;
  const first: unknown = Array.isArray(detail) ? detail[0] : detail;
  if (!isJsonObject(first)) return textOf(first);
  const { loc, msg } = first;
  const words = textOf(msg);
  const place = Array.isArray(loc)
    ? loc.filter((step) => textOf(step) !== undefined).join(".")
    : "";
  return words === undefined || place === "" ? words : `${place}: ${words}`;
}

/**
 * What Google adds to an error, each in an object of its own: an ErrorInfo with the reason, a RetryInfo with a
 * delay such as "34.07s": https://cloud.google.com/apis/design/errors#error_details
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
