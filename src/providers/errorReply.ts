import { isJsonObject } from "../lib/json.ts";
import { scrub, type Secrets } from "./scrub.ts";
import { UpstreamError, type UpstreamFault } from "./upstreamError.ts";

const CALLER_STATUSES = [400, 409, 413, 422];
const ACCOUNT_STATUSES = [401, 402];
const RETRY_AFTER_SECONDS_MAX = 60;
const CODE_CHARS_MAX = 64;

/**
 * How providers say with a 400 or a 429 that the operator's account is empty: by these values of `code`
 * or `type`, and in these sentences where there is neither. Their free text is never searched, for it
 * repeats what the client sent: any client could then have the provider put aside for everybody.
 */
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
const EMPTY_ACCOUNT_SENTENCE =
  /^(?:Your credit balance is too low|You have reached your specified (?:\w+ )?API usage limits|This organization has been disabled)\b/;

/**
 * A 403 may be a refused account, but some providers moderate with it as well, and a firewall before one
 * refuses a single prompt with it. Only what speaks of the account, in a code or as the beginning of
 * its message, is held against the provider: else one client's prompt would put it aside for everybody.
 */
const ACCOUNT_CODE = /api_?key|account|permission|billing|quota|balance|credit|country|region/i;
const ACCOUNT_SENTENCE =
  /^(?:sorry, )?(?:(?:your|this|the|invalid|incorrect|insufficient|unsupported) )?(?:newly created )?(?:api[ _-]?key|account|organization|team|permissions?|billing|credits?|balance|country|region)\b|^you (?:have insufficient|do not have|don't have) permission/i;

/** The error of an answer whose status is not 200; `text` is the beginning of its body. */
export function errorOfReply(
  status: number,
  retryAfter: string | undefined,
  text: string,
  secrets: Secrets,
): UpstreamError {
  const error = errorObject(text);
  const fault = faultOf(status, error);
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

function faultOf(status: number, error: ReportedError): UpstreamFault {
  if (ACCOUNT_STATUSES.includes(status)) return "account";
  if (status === 403) return speaksOfAccount(error) ? "account" : "provider";
  if ((status === 400 || status === 429) && saysAccountIsEmpty(status, error)) return "account";
  if (CALLER_STATUSES.includes(status)) return "caller";
  if (status === 404) return "missing";
  return status === 429 ? "limited" : "provider";
}

function saysAccountIsEmpty(status: number, { code, type, message }: ReportedError): boolean {
  if ([code, type].some((word) => EMPTY_ACCOUNT_CODES.has(word?.toLowerCase() ?? ""))) return true;
  return status === 400 && EMPTY_ACCOUNT_SENTENCE.test(message ?? "");
}

function speaksOfAccount({ code, type, message }: ReportedError): boolean {
  return (
    [code, type].some((word) => ACCOUNT_CODE.test(word ?? "")) ||
    ACCOUNT_SENTENCE.test(message ?? "")
  );
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
