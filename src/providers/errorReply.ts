import { isJsonObject } from "../lib/json.ts";
import { scrub, type Secrets } from "./scrub.ts";
import { UpstreamError, type UpstreamFault } from "./upstreamError.ts";

const CALLER_STATUSES = [400, 409, 413, 422];
const ACCOUNT_STATUSES = [401, 402, 403];
const RETRY_AFTER_SECONDS_MAX = 60;
const CODE_CHARS_MAX = 64;
/** Providers say by very different statuses that the operator's account is empty. */
const EMPTY_ACCOUNT =
  /insufficient[ _](balance|quota|funds|credits?)|credit balance is too low|billing_hard_limit|exceeded your current quota/i;

/** The error of an answer whose status is not 200; `text` is the beginning of its body. */
export function errorOfReply(
  status: number,
  retryAfter: string | undefined,
  text: string,
  secrets: Secrets,
): UpstreamError {
  const error = errorObject(text);
  const fault = faultOf(status, `${error.code ?? ""} ${error.type ?? ""} ${error.message ?? ""}`);
  return new UpstreamError(fault, `status ${status}`, {
    status,
    retryAfterMs: retryAfterMs(retryAfter),
    providerCode: error.code,
    shown:
      fault === "caller"
        ? {
            message: scrub(error.message ?? "", secrets) || "invalid request",
            extra: {
              ...(error.code === undefined ? {} : { code: scrub(error.code, secrets) }),
              ...(error.param === undefined ? {} : { param: scrub(error.param, secrets) }),
            },
          }
        : undefined,
  });
}

function faultOf(status: number, words: string): UpstreamFault {
  if (ACCOUNT_STATUSES.includes(status)) return "account";
  if ((status === 400 || status === 429) && EMPTY_ACCOUNT.test(words)) return "account";
  if (CALLER_STATUSES.includes(status)) return "caller";
  if (status === 404) return "missing";
  return status === 429 ? "limited" : "provider";
}

/** Only whole seconds are believed, and at most a minute of them. */
function retryAfterMs(header: string | undefined): number | undefined {
  if (header === undefined || !/^\d{1,9}$/.test(header)) return undefined;
  return Math.min(Math.max(Number(header), 1), RETRY_AFTER_SECONDS_MAX) * 1000;
}

interface ReportedError {
  message?: string | undefined;
  code?: string | undefined;
  type?: string | undefined;
  param?: string | undefined;
}

function errorObject(text: string): ReportedError {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return {};
  }
  const body: unknown = Array.isArray(value) ? value[0] : value;
  if (!isJsonObject(body)) return {};
  const error = body["error"] ?? body;
  if (typeof error === "string") return { message: error };
  if (!isJsonObject(error)) return {};
  return {
    message: textOf(error["message"]),
    code: textOf(error["code"])?.slice(0, CODE_CHARS_MAX),
    type: textOf(error["type"])?.slice(0, CODE_CHARS_MAX),
    param: textOf(error["param"])?.slice(0, CODE_CHARS_MAX),
  };
}

function textOf(value: unknown): string | undefined {
  if (typeof value === "number") return String(value);
  return typeof value === "string" ? value : undefined;
}
