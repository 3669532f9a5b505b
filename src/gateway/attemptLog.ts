import type { AttemptFailure, AttemptListener } from "../routing/attempts.ts";
import { streamTimeoutMs, type Candidate } from "../routing/candidates.ts";
import {
  UpstreamError,
  type UpstreamExchange,
  type UpstreamRequest,
} from "../providers/upstream.ts";
import type { AttemptRecord } from "../store/store.ts";
import type { EventOf } from "../telemetry/events.ts";
import { type LogFields, errorClass } from "../telemetry/log.ts";
import { modelHeader } from "./answer.ts";
import type { AdmittedScope } from "./requestScope.ts";

/** The options of a request to a provider. `headers`: those of the encoded request. */
export function sendOptions(
  { requestId, span }: AdmittedScope,
  candidate: Candidate,
  stream: boolean,
  headers: UpstreamRequest["headers"],
): Omit<UpstreamRequest, "path" | "body"> {
  const { config } = candidate.provider;
  const endsAfterMs = stream ? streamTimeoutMs(candidate) : config.totalTimeoutMs;
  const trace = span?.startAttempt({ provider: config, model: candidate.route.model, stream });
  const sent = trace ? { ...headers, ...trace } : headers;
  return { stream, requestId, endsAfterMs, ...(sent && { headers: sent }) };
}

/** The exchange has begun. The caller removes it from `inFlight.exchanges` when it has ended. */
export function exchangeBegan(
  { gateway, admitted }: AdmittedScope,
  exchange: UpstreamExchange,
): void {
  gateway.inFlight.exchanges.add(exchange);
  // A request without its money cannot be charged, so the provider must not be used for it.
  admitted.meter.secured?.catch(() => exchange.abort(new UpstreamError("gateway", "database")));
}

/** Whether the gateway stops or cannot charge the request, so that no further route may be tried. */
export function mustStop({ gateway, admitted }: AdmittedScope): boolean {
  return gateway.inFlight.isAborting || admitted.meter.secured !== undefined;
}

/** The headers of an answer that this candidate gives. They name the model if the request may get another one's. */
export function answerHeaders(
  { checked }: AdmittedScope,
  { model }: Candidate,
): Readonly<Record<string, string>> {
  const hasFallbacks = checked.candidates.some((candidate) => candidate.model !== model);
  return hasFallbacks ? modelHeader(model.id) : {};
}

export function attemptListener(scope: AdmittedScope): AttemptListener {
  return {
    attempted(record, candidate, failure) {
      scope.admitted.meter.attempted(record);
      scope.span?.endAttempt(record);
      logAttempt(scope, candidate, record, failure);
    },
  };
}

/**
 * Logs an attempt that ended: as an error if the operator must act (`operatorEvent`), as a warning
 * if it failed otherwise, at debug level if it succeeded, the caller was at fault, or the client disconnected.
 */
function logAttempt(
  { gateway, requestId }: AdmittedScope,
  candidate: Candidate,
  attempt: AttemptRecord,
  failure: AttemptFailure | undefined,
): void {
  const { log } = gateway;
  if (!failure && !log.isDebug) return;
  const fields: LogFields = {
    request_id: requestId,
    provider: candidate.provider.id,
    model: candidate.route.model,
    outcome: attempt.outcome,
    ...(attempt.status === null ? {} : { status: attempt.status }),
  };
  if (!failure || failure.error.fault === "client")
    return log.debug("attempt ended", { ...fields, duration_ms: attempt.durationMs });
  const { error, cooldownMs } = failure;
  if (error.cause !== undefined) fields.error = errorClass(error.cause);
  if (cooldownMs > 0) fields.cooldown_ms = cooldownMs;
  const event = operatorEvent(failure);
  if (event) log.error(event, fields);
  else log.warn("attempt_failed", fields);
}

/** The event of a failure that needs the operator. */
export function operatorEvent({
  error: { fault, outcome },
  cooldownMs,
}: AttemptFailure): EventOf<"error"> | undefined {
  switch (fault) {
    case "account":
      return "provider_refused";
    case "forbidden":
      return cooldownMs > 0 ? "provider_refused" : undefined;
    case "operator":
      return "organization_refused";
    case "modelQuota":
      return "model_quota_used_up";
    case "notFound":
      return "route_answers_404";
    case "gateway":
      return outcome === "descriptors" ? "descriptors_exhausted" : undefined;
    case "caller":
    case "client":
    case "excessive":
    case "isolated":
    case "keyExpired":
    case "provider":
    case "rateLimited":
    case "tooLarge":
    case "unsupported":
      return undefined;
  }
}
