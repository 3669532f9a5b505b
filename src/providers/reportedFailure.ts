import { isGiven, isJsonObject, type JsonFields } from "../lib/json.ts";
import { readChatUsage, readResponsesUsage, type Usage } from "../contract/usage.ts";
import { parseUntrusted } from "../lib/untrustedJson.ts";
import {
  faultOf,
  isAboveRate,
  isContextOverflow,
  isEmptyAccount,
  refusalOf,
} from "./errorReply.ts";
import { CONTEXT_OVERFLOW_CODE } from "./errorTable.ts";
import { AnswerError, parseAnswerJson } from "./provider.ts";
import { reportedErrorOf, type ReportedError } from "./reportedError.ts";
import type { UpstreamFault } from "./upstreamError.ts";

/**
 * Codes in lower case for a wrong request: those of https://platform.openai.com/docs/api-reference/responses/object,
 * and those with which others end a chat.
 */
const CALLER_CODES = new Set([
  "invalid_prompt",
  CONTEXT_OVERFLOW_CODE,
  "content_policy_violation",
  "invalid_image",
  "invalid_image_format",
  "invalid_base64_image",
  "invalid_image_url",
  "invalid_image_mode",
  "image_too_large",
  "image_too_small",
  "image_parse_error",
  "image_content_policy_violation",
  "image_file_too_large",
  "image_file_not_found",
  "unsupported_image_media_type",
  "empty_image_file",
  "failed_to_download_image",
  // Azure's: https://learn.microsoft.com/en-us/azure/ai-foundry/openai/concepts/content-filter
  "content_filter",
  // Alibaba's: https://www.alibabacloud.com/help/en/model-studio/error-code
  "data_inspection_failed",
  // Groq's: https://console.groq.com/docs/tool-use/local-tool-calling and .../structured-outputs
  "tool_use_failed",
  "json_validate_failed",
  // llama.cpp's, at first with a 500: https://github.com/ggml-org/llama.cpp/pull/15780
  "exceed_context_size_error",
]);

/** The status that belongs to an error type: https://platform.claude.com/docs/en/api/errors */
const STATUSES: ReadonlyMap<unknown, number> = new Map([
  ["authentication_error", 401],
  ["permission_error", 403],
  ["not_found_error", 404],
  ["request_too_large", 413],
  ["rate_limit_error", 429],
]);

/** Looked up by code, then by type. */
const FAULTS: ReadonlyMap<unknown, UpstreamFault> = new Map<unknown, UpstreamFault>([
  ["server_error", "provider"],
  ["vector_store_timeout", "provider"],
  ["rate_limit_exceeded", "rateLimited"],
  // The caller's own server, named by a tool of the type `mcp`.
  ["external_connector_error", "isolated"],
  ["http_error", "isolated"],
]);

/**
 * Types that many different errors have: only a status or a code says more. vLLM used the second with status 400 for
 * everything that broke a stream:
 * https://github.com/vllm-project/vllm/blob/v0.10.0/vllm/entrypoints/openai/serving_chat.py
 */
const REQUEST_TYPE = "invalid_request_error";
const VLLM_TYPE = "badrequesterror";
const BAD_REQUEST_STATUS = 400;

/**
 * The provider reports an error in an answer with status 200. `error` may repeat a prompt, so it must not be logged.
 */
export class ReportedFailure extends AnswerError {
  override readonly name = "ReportedFailure";
  override readonly fault: UpstreamFault;
  override readonly outcome = "reported failure";
  readonly error: ReportedError;
  /** The request itself ended the answer, so the provider may charge it. A failed response is not charged. */
  readonly isOfRequest: boolean;
  /** The usage that the provider reports with the error. */
  readonly usage: Usage | undefined;

  constructor(
    fault: UpstreamFault,
    error: ReportedError,
    isOfRequest: boolean,
    usage: Usage | undefined,
  ) {
    super("the provider reports a failure");
    this.fault = fault;
    this.error = error;
    this.isOfRequest = isOfRequest;
    this.usage = usage;
  }
}

/**
 * The failure in an `error` object, an `error` event or a failed response. A client can cause most of them at will,
 * so the health of the route learns only of those that name the provider, and of an unknown plain `error`.
 */
export function reportedFailureOf(holder: JsonFields): ReportedFailure {
  const error = { ...reportedErrorOf(holder), isInForm: true };
  const codes = [error.code, error.type].map((word) => word?.toLowerCase() ?? "");
  const speaksOfRequest = codes.includes(REQUEST_TYPE);
  const isFailedResponse = holder["status"] === "failed";
  // Another route may accept the request.
  const isIsolated = speaksOfRequest || codes.includes(VLLM_TYPE) || isFailedResponse;
  const fault = knownFaultOf(error, codes) ?? faultOfUnknown(error, isIsolated);
  const isOfRequest =
    fault === "caller" || fault === "tooLarge" || (fault === "isolated" && speaksOfRequest);
  const { usage } = holder;
  const reported = readChatUsage(usage) ?? readResponsesUsage(usage);
  return new ReportedFailure(fault, error, isOfRequest && !isFailedResponse, reported);
}

function knownFaultOf(error: ReportedError, codes: readonly string[]): UpstreamFault | undefined {
  if (codes.some((word) => CALLER_CODES.has(word))) return "caller";
  const named = codes.map((word) => FAULTS.get(word)).find((found) => found !== undefined);
  // The caller's own server failed, and the status is that server's.
  if (named === "isolated") return named;
  const status = error.status ?? STATUSES.get(error.type);
  if (isAboveRate(status, error)) return "tooLarge";
  if (status !== undefined) {
    const fault = faultOf(status, error);
    // vLLM's type and status alone say too little.
    const isVague = status === BAD_REQUEST_STATUS && !codes.includes(REQUEST_TYPE);
    return isVague && fault === "caller" ? faultOfUnknown(error, true) : fault;
  }
  if (codes.includes(REQUEST_TYPE) || codes.includes(VLLM_TYPE))
    return refusalOf(BAD_REQUEST_STATUS, error)?.fault ?? named;
  return isEmptyAccount(error) ? "account" : named;
}

/**
 * The fault of an error without a telling status, code or type. A full context is the caller's fault. A client whose
 * own text looks like these words only spares the route a failure.
 */
function faultOfUnknown(error: ReportedError, isIsolated: boolean): UpstreamFault {
  if (isContextOverflow(error)) return "caller";
  return isIsolated ? "isolated" : "provider";
}

/**
 * The failure in an answer, or in the list that Google sends; undefined if there is none. vLLM, SGLang and Mistral have an
 * `object` that says so, and the error's fields beside it.
 */
export function reportedFailureIn(value: unknown): ReportedFailure | undefined {
  const holder: unknown = Array.isArray(value) ? value[0] : value;
  if (!isJsonObject(holder)) return undefined;
  const { error, object } = holder;
  const isError = object === "error" || isGiven(error);
  return isError ? reportedFailureOf(holder) : undefined;
}

export function reportedFailureInText(text: string): ReportedFailure | undefined {
  try {
    return reportedFailureIn(parseUntrusted(text));
  } catch {
    return undefined;
  }
}

/** The failure in the data of an `error` event. Some servers send only the inner error. */
export function reportedFailureOfText(text: string): AnswerError {
  const value = parseAnswerJson(text);
  return reportedFailureOf(isJsonObject(value) ? value : { error: value });
}

/**
 * The object of an answer or an event, parsed as by parseAnswerJson. Throws AnswerError for anything else, and
 * ReportedFailure for an `error`.
 */
export function parseAnswer(
  text: string,
  parse?: (text: string) => unknown,
): Record<string, unknown> {
  const value = parseAnswerJson(text, parse);
  const failure = reportedFailureIn(value);
  if (failure) throw failure;
  if (!isJsonObject(value)) throw new AnswerError("the answer is not a JSON object");
  return value;
}
