import type { AttemptFailure } from "../routing/dispatch.ts";
import type { Candidate } from "../routing/order.ts";
import type { AttemptRecord } from "../store/store.ts";
import { errorClass, type LogFields } from "../telemetry/log.ts";
import type { Gateway, Visit } from "./gateway.ts";

/**
 * Tells the operator of an attempt at a route that is over: loudly of one that failed because their own account is
 * refused, or for an address or a model that the provider does not know, and only who asks for it (`level = "debug"`) of
 * one that went well, failed by its caller, or was left by its client.
 */
export function logAttempt(
  gateway: Gateway,
  visit: Visit,
  candidate: Candidate,
  attempt: AttemptRecord,
  failure: AttemptFailure | undefined,
): void {
  const { log } = gateway;
  const fields: LogFields = {
    request_id: visit.requestId,
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
  if (error.fault === "account") {
    log.error(
      "the provider refuses the API key, the account or the country: run `tollgate check --live` to see why, fix it, then reload (SIGHUP) to use the provider again at once",
      fields,
    );
  } else if (error.fault === "missing") {
    log.error(
      "the provider answers 404: check its base_url and the model name of the route",
      fields,
    );
  } else {
    log.warn("attempt failed", fields);
  }
}
