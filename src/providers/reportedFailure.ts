import { isJsonObject, type JsonFields } from "../lib/json.ts";
import { isEmptyAccountCode } from "./errorReply.ts";
import { AnswerError } from "./provider.ts";
import type { UpstreamFault } from "./upstreamError.ts";

/** What is wrong with a request, by the codes of https://platform.openai.com/docs/api-reference/responses/object. */
const CALLERS_CODES = [
  "invalid_prompt",
  "context_length_exceeded",
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
];

/** Whose fault a failure is, by its code or else by its type. */
const FAULTS: ReadonlyMap<unknown, UpstreamFault> = new Map<unknown, UpstreamFault>([
  ...CALLERS_CODES.map((code) => [code, "caller"] as const),
  ["server_error", "provider"],
  ["vector_store_timeout", "provider"],
  // Also said of a single request that is larger than the limit of a minute: without a time it puts nothing aside.
  ["rate_limit_exceeded", "limited"],
  // A server of the caller's own, which a tool of the type `mcp` names.
  ["external_connector_error", "misfire"],
  ["http_error", "misfire"],
  // Another route may take what this one does not.
  ["invalid_request_error", "misfire"],
]);

/**
 * A provider of the responses interface reports in an answer with status 200 that it failed. Its words in `report` may
 * repeat a prompt: they are for no log.
 */
export class ReportedFailure extends AnswerError {
  override readonly name = "ReportedFailure";
  override readonly fault: UpstreamFault;
  override readonly outcome = "reported failure";
  readonly report: JsonFields;

  constructor(fault: UpstreamFault, report: JsonFields) {
    super("the provider reports a failure");
    this.fault = fault;
    this.report = report;
  }
}

/**
 * The failure that an `error` event reports, or a response that failed. A client can bring about most of them as often
 * as it likes, so only what speaks of the provider counts against it; and of a mere event what speaks of nothing known.
 */
export function reportedFailureOf(holder: JsonFields): ReportedFailure {
  const report = isJsonObject(holder["error"]) ? holder["error"] : holder;
  const words = [report["code"], report["type"]];
  if (words.some((word) => typeof word === "string" && isEmptyAccountCode(word)))
    return new ReportedFailure("account", report);
  const fault = words.map((word) => FAULTS.get(word)).find((found) => found !== undefined);
  const otherwise = holder["status"] === "failed" ? "misfire" : "provider";
  return new ReportedFailure(fault ?? otherwise, report);
}
