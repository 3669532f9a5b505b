import {
  aboveRate,
  CONTEXT_OVERFLOW_CODE,
  contextCodes,
  contextSentences,
  emptyAccount,
  emptyMessages,
  refusals,
  statusFaults,
  type ErrorRow,
} from "./errorTable.ts";
import { redactSecrets, type Secrets } from "./secrets.ts";
import { CODE_CHARS_MAX, readReportedError, type ReportedError } from "./reportedError.ts";
import { UpstreamError, type UpstreamFault } from "./upstreamError.ts";

const BAD_REQUEST_STATUS = 400;
/**
 * A 402 with a time to retry after is no empty account: OpenRouter uses it as a limit on all open requests together.
 */
const PAYMENT_STATUS = 402;
const RETRY_AFTER_SECONDS_MAX = 60;

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
    !emptyMessages.has(wholeMessage(error));
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
  if (status === aboveRate.status && code === aboveRate.code) return true;
  if (!aboveRate.sentence.test(message)) return false;
  return status === 429 || code === aboveRate.code || aboveRate.unit.test(message);
}

/** The fault of an error with this status. */
export function faultOf(status: number, error: ReportedError): UpstreamFault {
  const row = refusalOf(status, error) ?? firstRow(statusFaults, status, error);
  return row?.fault ?? "provider";
}

/** The first row for an error with this status. Undefined if the error refuses this request only, or does not tell. */
export function refusalOf(status: number, error: ReportedError): ErrorRow | undefined {
  return firstRow(refusals, status, error);
}

/** True if the code, the type or the whole message says that the operator's account is empty. */
export function isEmptyAccount(error: ReportedError): boolean {
  return firstRow(emptyAccount, 0, error) !== undefined;
}

/** The first row that matches by all of its fields. */
function firstRow(
  rows: readonly ErrorRow[],
  status: number,
  error: ReportedError,
): ErrorRow | undefined {
  const { message = "", reason = "" } = error;
  const whole = wholeMessage(error);
  const codes = [error.code, error.type].map((word) => word?.toLowerCase() ?? "");
  const said = [error.code, error.type, message];
  return rows.find((row) => {
    const { statuses, codes: known, messages, sentence, speaksOf } = row;
    if (statuses === undefined ? status >= 500 : statuses !== "any" && !statuses.includes(status))
      return false;
    if (row.isOutOfForm && error.isInForm === true) return false;
    if (row.hasRequestId && error.hasRequestId !== true) return false;
    if (known && !codes.some((word) => isAmong(known, word))) return false;
    if (messages && !messages.has(whole)) return false;
    if (sentence && !sentence.test(message)) return false;
    if (speaksOf && !said.some((text) => speaksOf.test(text ?? ""))) return false;
    return !row.reason || row.reason.test(reason);
  });
}

function isAmong(known: ReadonlySet<string> | RegExp, word: string): boolean {
  return known instanceof RegExp ? known.test(word) : known.has(word);
}

function wholeMessage({ message, words }: ReportedError): string {
  return (message || words || "").trim().toLowerCase().replace(/[.!]$/, "");
}

/**
 * What may come before the sentence: a status, names of errors, and words of a server, each with a colon. What a
 * provider quotes of the client's text comes later.
 */
const BEFORE = String.raw`^\W{0,8}(?:[^:\n]{1,80}: ){0,3}`;
const SENTENCES = Object.values(contextSentences).flat();
const OVERFLOW = new RegExp(`${BEFORE}(?:${SENTENCES.map(({ source }) => source).join("|")})`, "i");

/** A limit on tokens in a time. Its sentences may look like those of a full context. */
const RATE =
  /\bper (?:second|min(?:ute)?|hour|day)\b|\brate[ _-]?limit|\btp[md]\b|throttl|too many requests/i;

/** Whether the provider says that the prompt is longer than the model's context. */
export function isContextOverflow({ code, type, message, words }: ReportedError): boolean {
  if ([code, type].some((word) => contextCodes.has(word?.toLowerCase() ?? ""))) return true;
  return [message, words].some(
    (text) => text !== undefined && OVERFLOW.test(text) && !RATE.test(text),
  );
}

/** Replaces a missing message. A number says nothing, so the first code with a letter counts. */
function codeOf({ reason, code }: ReportedError): string {
  return [reason, code].find((word) => /[a-z]/i.test(word ?? "")) ?? "";
}

/** Accepts whole seconds only, and at most a minute. */
function retryAfterMs(seconds: string | undefined): number | undefined {
  if (seconds === undefined || !/^\d{1,9}$/.test(seconds)) return undefined;
  return Math.min(Math.max(Number(seconds), 1), RETRY_AFTER_SECONDS_MAX) * 1000;
}
