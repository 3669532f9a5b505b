import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { parseUntrusted } from "../lib/untrustedJson.ts";

/** Of a code, a type or a parameter. */
export const CODE_CHARS_MAX = 64;

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
