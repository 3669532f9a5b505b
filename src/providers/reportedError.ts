import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { parseUntrusted } from "../lib/untrustedJson.ts";

/** What is kept of a code. */
export const CODE_CHARS_MAX = 64;

/** What a provider says of an error, in any of the forms that are known. */
export interface ReportedError {
  message?: string | undefined;
  /** What stands in the place of a message. It may begin with a name that the client chose, so it is shown, and never searched. */
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
export function readReportedError(text: string): ReportedError {
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
    ...detailsOf(error["details"]),
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
function detailsOf(details: unknown): Pick<ReportedError, "reason" | "retrySeconds"> {
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
