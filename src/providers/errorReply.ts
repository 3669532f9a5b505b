import { CONTEXT_OVERFLOW_CODE, isContextOverflow } from "./contextOverflow.ts";
import { redactSecrets, type Secrets } from "./secrets.ts";
import { isEmptyAccountMessage, refusalOf } from "./refusalWords.ts";
import { CODE_CHARS_MAX, readReportedError, type ReportedError } from "./reportedError.ts";
import { UpstreamError, type UpstreamFault } from "./upstreamError.ts";

const BAD_REQUEST_STATUS = 400;
const CALLER_STATUSES = [BAD_REQUEST_STATUS, 409, 422];
/** The provider, or a proxy before it, refuses the size of this request. Another route may take it. */
const SIZE_STATUSES = [413, 414, 431];
/**
 * A request above the tokens of a minute: OpenAI's 429 and Groq's 413. It is a rate limit, but no time makes the request fit,
 * and it says nothing about the requests of others: https://console.groq.com/docs/rate-limits
 */
const ABOVE_RATE_SENTENCE = /^Request too large for\b/;
const TOKENS_PER_MINUTE = /\bper min|\bTPM\b/;
const RATE_CODE = "rate_limit_exceeded";
/** The request did not arrive in time. Its size, or what the caller put into it, decides that. */
const REQUEST_TIMEOUT_STATUS = 408;
/**
 * At OpenAI the caller's own server (a tool of the type `mcp`) could not be reached; at others the model failed at
 * this request. The route is healthy, and another route may answer.
 */
const FAILED_DEPENDENCY_STATUS = 424;
/** With a time to retry after it is no empty account: OpenRouter uses it as a limit on all open requests together. */
const PAYMENT_STATUS = 402;
const RETRY_AFTER_SECONDS_MAX = 60;

/**
 * Alibaba uses `insufficient_quota` for the rate limit of a model, and another code for an empty account:
 * https://www.alibabacloud.com/help/en/model-studio/error-code#token-limit. Its sentences tell them apart, or the
 * `request_id` beside its errors.
 */
const RATE_LIMIT_SENTENCE =
  /^(?:Allocated quota exceeded|You exceeded your current quota\b.{1,256}\b(?:per (?:minute|second)|aliyun\.com|alibabacloud\.com))\b/s;
const QUOTA_SENTENCE = /^You exceeded your current quota\b/;

/**
 * A 403 may refuse the account. But some providers moderate with it, a firewall may refuse one prompt with it, and a
 * client may name an object that is not the operator's. Words of the account decide (refusalWords.ts). A word of the
 * request makes it an isolated failure. A word of the model alone is the provider's fault. Any other 403 is `forbidden`:
 * an isolated failure, until another account meets it too (routing/routeHealth.ts). Anthropic answers a refused country with
 * "Request not allowed".
 */
const ROUTE_WORD = /model|\brequests?\b/i;
const REQUEST_WORD =
  /moderat|flagg|polic|guideline|safety|violat|harm|content|prompt|\b(?:input|message|parameter|value|field|type|role|name|file|image|tool|keyword)s?\b/i;

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
  const found = faultOf(status, error);
  const isLimited =
    status === PAYMENT_STATUS &&
    found === "account" &&
    headerRetryMs !== undefined &&
    !isEmptyAccountMessage(error);
  const fault = isLimited ? "rateLimited" : found;
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
  const message = redactSecrets(error.words ?? "", secrets);
  return {
    retryAfterMs: retryAfterMs(error.retrySeconds),
    providerCode: error.code,
    accountFault:
      fault === "account" ? refusalOf(status ?? BAD_REQUEST_STATUS, error)?.means : undefined,
    providerMessage: message || redactSecrets(codeOf(error), secrets) || undefined,
    clientError: isTold(fault) ? clientErrorOf(error, status, message, secrets) : undefined,
  };
}

/** Whether the client may get the provider's words. */
function isTold(fault: UpstreamFault): boolean {
  return fault === "caller" || fault === "tooLarge";
}

function clientErrorOf(
  error: ReportedError,
  status: number | undefined,
  message: string,
  secrets: Secrets,
) {
  const { param } = error;
  const code = isContextOverflow(error) ? CONTEXT_OVERFLOW_CODE : error.code;
  return {
    message: message || "invalid request",
    isRateLimit: isAboveRate(status, error),
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

/** Whether this one request has more tokens than the provider takes in a minute. */
export function isAboveRate(
  status: number | undefined,
  { code, message = "" }: ReportedError,
): boolean {
  if (status === 413 && code === RATE_CODE) return true;
  if (!ABOVE_RATE_SENTENCE.test(message)) return false;
  return status === 429 || code === RATE_CODE || TOKENS_PER_MINUTE.test(message);
}

/** The fault of an error with this status. */
export function faultOf(status: number, error: ReportedError): UpstreamFault {
  // Before the messages: the caller's own server can write the message of this status.
  if (status === FAILED_DEPENDENCY_STATUS) return "isolated";
  if (status === 429 && isRateLimitAsQuota(error)) return "rateLimited";
  const refusal = refusalOf(status, error);
  if (refusal) return refusal.fault;
  if (status === 403) return faultOfForbidden(error);
  if (status === 429) return isAboveRate(status, error) ? "tooLarge" : "rateLimited";
  if (CALLER_STATUSES.includes(status)) return "caller";
  if (SIZE_STATUSES.includes(status)) return "tooLarge";
  if (status === REQUEST_TIMEOUT_STATUS) return "isolated";
  return status === 404 ? "notFound" : "provider";
}

function faultOfForbidden(error: ReportedError): UpstreamFault {
  if (error.isInForm !== true) return "forbidden";
  const { code, type, message, reason } = error;
  if (matchesAny(REQUEST_WORD, code, type, message)) return "isolated";
  // Google's reasons name rules for all requests, such as those of a network.
  const isOfRoute = matchesAny(ROUTE_WORD, code, type, message) || matchesAny(REQUEST_WORD, reason);
  return isOfRoute ? "provider" : "forbidden";
}

function matchesAny(subject: RegExp, ...texts: readonly (string | undefined)[]): boolean {
  return texts.some((text) => subject.test(text ?? ""));
}

/** Replaces a missing message. A number says nothing, so the first code with a letter counts. */
function codeOf({ reason, code }: ReportedError): string {
  return [reason, code].find((word) => /[a-z]/i.test(word ?? "")) ?? "";
}

function isRateLimitAsQuota({ message = "", hasRequestId }: ReportedError): boolean {
  if (RATE_LIMIT_SENTENCE.test(message)) return true;
  return hasRequestId === true && QUOTA_SENTENCE.test(message);
}

/** Accepts whole seconds only, and at most a minute. */
function retryAfterMs(seconds: string | undefined): number | undefined {
  if (seconds === undefined || !/^\d{1,9}$/.test(seconds)) return undefined;
  return Math.min(Math.max(Number(seconds), 1), RETRY_AFTER_SECONDS_MAX) * 1000;
}
