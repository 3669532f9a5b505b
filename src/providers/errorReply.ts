import { redactSecrets, type Secrets } from "./secrets.ts";
import { UpstreamError, type AccountFault, type UpstreamFault } from "./upstreamError.ts";
import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { parseUntrusted } from "../lib/untrustedJson.ts";

const CALLER_STATUSES = [400, 409, 413, 422];
/**
 * At OpenAI the caller's own server (a tool of the type `mcp`) could not be reached; at others the model failed at
 * this request. The route is healthy, and another route may answer.
 */
const FAILED_DEPENDENCY_STATUS = 424;
const ACCOUNT_STATUSES = [401, 402];
/** With a time to retry after it is no empty account: OpenRouter uses it as a limit on all open requests together. */
const PAYMENT_STATUS = 402;
const RETRY_AFTER_SECONDS_MAX = 60;

/** Values of `code` or `type` for an empty account, with any status. */
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
 * Messages of SiliconFlow and OpenAI for an empty account. Only a whole message counts, because a longer one can
 * repeat a client's text, and any client could then put the provider in cooldown. A code with spaces counts too, such
 * as DeepSeek's "Insufficient Balance", whose type and code say nothing
 * (https://api-docs.deepseek.com/quick_start/error_codes, https://github.com/Aider-AI/aider/issues/4851).
 */
const EMPTY_ACCOUNT_MESSAGES = new Set([
  "sorry, your account balance is insufficient",
  "billing hard limit has been reached",
]);
/**
 * A 400 or 429 that begins with one of these refuses the account, for its limit or its country. Only the beginning of
 * a message counts, for the same reason.
 */
const REFUSED_ACCOUNT_SENTENCE =
  /^(?:You have reached your specified (?:\w+ )?API usage limits|This organization has been disabled|User location is not supported for|Gemini API free tier is not available in)\b/;
/** xAI answers a wrong key with 400. The fixed end of the sentence shows that no client's text follows the key. */
const WRONG_KEY_SENTENCE =
  /^Incorrect API key provided: \S{1,128} You can obtain an API key from https:\/\/[a-z.]{1,64}$/;
/** An empty and a locked account: https://docs.z.ai/api-reference/api-code */
const ZHIPU_EMPTY_CODE = "1113";
const ZHIPU_LOCKED_CODE = "1112";

/**
 * Alibaba uses `insufficient_quota` for the rate limit of a model, and another code for an empty account:
 * https://www.alibabacloud.com/help/en/model-studio/error-code#token-limit. Its sentences tell them apart, or the
 * `request_id` beside its errors.
 */
const RATE_LIMIT_SENTENCE =
  /^(?:Allocated quota exceeded|You exceeded your current quota\b.{1,256}\b(?:per (?:minute|second)|aliyun\.com|alibabacloud\.com))\b/s;
const QUOTA_SENTENCE = /^You exceeded your current quota\b/;

/** Beginnings of messages for an empty account, and for a refused country (also with 403). */
const EMPTY_ACCOUNT_SENTENCE =
  /^(?:Your credit balance is too low|Your prepayment credits are depleted|Your team \S{1,64} has either used all available credits or reached its monthly spending limit)\b/;
const COUNTRY_CODE = /country|region/i;
const COUNTRY_SENTENCE =
  /^(?:User location is not supported for|Gemini API free tier is not available in|(?:this |your )?country)\b/i;

/**
 * Google's reasons for a refused key or project, with any status; a wrong key is a 400:
 * https://ai.google.dev/gemini-api/docs/troubleshooting and
 * https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto
 */
const ACCOUNT_REASON =
  /^(?:API_KEY_\w+|(?:SERVICE|BILLING)_DISABLED|CONSUMER_(?:INVALID|SUSPENDED)|USER_PROJECT_DENIED|ACCOUNT_STATE_INVALID)$/;

/**
 * A 403 usually refuses the account. But some providers moderate with it, and a firewall may refuse one prompt with
 * it. A code or a beginning that names the account, or no known word at all, is the account's fault. A word of the
 * request makes it an isolated failure, because one client's prompts must not put the route in cooldown for all. A
 * word of the model alone, or a body not in the interface's form, is the provider's fault.
 */
const ACCOUNT_CODE = /api_?key|account|permission|billing|quota|balance|credit|country|region/i;
const ACCOUNT_SENTENCE =
  /^(?:sorry, )?(?:(?:your|this|the|invalid|incorrect|insufficient|unsupported) )?(?:newly created )?(?:api[ _-]?key|account|organization(?! must be verified to\b)|team|permissions?|billing|credits?|balance|country|region)\b|^you (?:have insufficient|do not have|don't have) permission(?! to access the file\b)|^method doesn't allow unregistered callers\b/i;
/** Not caused by one request: Anthropic answers a refused country with "Request not allowed". */
const ROUTE_WORD = /model|\brequests?\b/i;
const REQUEST_WORD =
  /moderat|flagg|polic|guideline|safety|violat|harm|content|prompt|must be verified to|\b(?:input|message|parameter|value|field|type|role|name|file|image|tool|keyword)s?\b/i;

/**
 * The `retry-after` of a response head in seconds. OpenAI and Azure have a header in milliseconds too:
 * https://github.com/openai/openai-node/blob/master/src/client.ts
 */
export function retryAfterOf(head: {
  header(name: string): string | undefined;
}): string | undefined {
  const seconds = head.header("retry-after");
  const milliseconds = head.header("retry-after-ms") ?? "";
  if (seconds !== undefined || !/^\d{1,12}(?:\.\d{1,9})?$/.test(milliseconds)) return seconds;
  return String(Math.ceil(Number(milliseconds) / 1000));
}

/** The error of an answer whose status is not 200. `text` is the beginning of its body. */
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

/** The fault of an error with this status. */
export function faultOf(status: number, error: ReportedError): UpstreamFault {
  if (ACCOUNT_STATUSES.includes(status)) return "account";
  if (status < 500 && ACCOUNT_REASON.test(error.reason ?? "")) return "account";
  // Before the messages: the caller's own server can write the message of this status.
  if (status === FAILED_DEPENDENCY_STATUS) return "isolated";
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
  // Google's reasons name rules for all requests, such as those of a network.
  const isOfRoute = matchesAny(ROUTE_WORD, code, type, message) || matchesAny(REQUEST_WORD, reason);
  return isOfRoute ? "provider" : "account";
}

function matchesAny(subject: RegExp, ...texts: readonly (string | undefined)[]): boolean {
  return texts.some((text) => subject.test(text ?? ""));
}

/** Replaces a missing message. A number says nothing, so the first code with a letter counts. */
function codeOf({ reason, code }: ReportedError): string {
  return [reason, code].find((word) => /[a-z]/i.test(word ?? "")) ?? "";
}

/** Undefined if only the provider's message tells. */
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

/** True if the code, the type or the whole message says that the operator's account is empty. */
export function isEmptyAccount(error: ReportedError): boolean {
  const isCode = [error.code, error.type].some((word) =>
    EMPTY_ACCOUNT_CODES.has(word?.toLowerCase() ?? ""),
  );
  return isCode || isEmptyAccountMessage(error);
}

/** Ignores letter case and final punctuation. */
function isEmptyAccountMessage({ message, detail }: ReportedError): boolean {
  const sentence = (message || detail || "").trim().toLowerCase().replace(/[.!]$/, "");
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

/** Accepts whole seconds only, and at most a minute. */
function retryAfterMs(seconds: string | undefined): number | undefined {
  if (seconds === undefined || !/^\d{1,9}$/.test(seconds)) return undefined;
  return Math.min(Math.max(Number(seconds), 1), RETRY_AFTER_SECONDS_MAX) * 1000;
}

const CODE_CHARS_MAX = 64;

/** The fields of a provider's error in any known form. */
export interface ReportedError {
  message?: string | undefined;
  /**
   * A text in place of a message. It may begin with a name that the client chose, so only the whole text is compared.
   */
  detail?: string | undefined;
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

/** Never throws; empty if the body has no known error. */
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

/** Reads an object that has an `error` or is one. */
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

/** Most errors have the status as their code; Groq has `status_code` besides. */
function statusOf({ status_code, code, status }: JsonFields): number | undefined {
  const found = [status_code, code, status].find((value) => /^[45]\d\d$/.test(textOf(value) ?? ""));
  return found === undefined ? undefined : Number(found);
}

/**
 * FastAPI servers send `detail` instead of a message: a text, or a list of problems of which the first counts
 * (https://fastapi.tiangolo.com/tutorial/handling-errors/). Mistral puts it under `message`.
 */
function detailOf({ message, detail: beside }: Readonly<Record<string, unknown>>) {
  const detail = (isJsonObject(message) ? message["detail"] : beside) ?? message;
  const first: unknown = Array.isArray(detail) ? detail[0] : detail;
  if (!isJsonObject(first)) return textOf(first);
  const { loc, msg } = first;
  const problem = textOf(msg);
  const path = Array.isArray(loc) ? loc.filter((step) => textOf(step) !== undefined).join(".") : "";
  return problem === undefined || path === "" ? problem : `${path}: ${problem}`;
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
