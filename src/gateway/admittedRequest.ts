import type { RequestOutcome, Receipt } from "../billing/meter.ts";
import {
  ApiError,
  allProvidersUnavailable,
  serviceUnavailable,
  rateLimitExceeded,
} from "../contract/errors.ts";
import type { EncodedRequest } from "../providers/provider.ts";
import { UpstreamError, type UpstreamExchange } from "../providers/upstream.ts";
import {
  dispatch,
  type AttemptListener,
  type EndAttempt,
  type DispatchResult,
  type AttemptFailure,
} from "../routing/dispatch.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { Admission } from "./admission/admit.ts";
import type { StreamChunk } from "./answer.ts";
import type { Gateway, RequestContext } from "./gateway.ts";
import { totalTokens } from "../contract/usage.ts";
import { formatRoubles } from "../lib/money.ts";
import { WriteError, type AttemptRecord } from "../store/store.ts";
import { type LogFields, errorClass } from "../telemetry/log.ts";

/** One admitted request and the routes that can serve it: what both endpoints have in common. */
export interface AdmittedRequest {
  readonly gateway: Gateway;
  readonly context: RequestContext;
  readonly admission: Admission;
  readonly candidates: readonly Candidate[];
  /** The request in the words of this route's provider. */
  encode(candidate: Candidate): EncodedRequest;
  /** The failure of an attempt that is the caller's own, as the client sees it: no other route is tried. */
  callerFault(error: UpstreamError): ApiError | undefined;
  /** How a stream ends that failed after its 200 had left, and before any content. */
  streamFailure(error: ApiError): StreamChunk;
}

/** Sends the request to a route; the exchange is among the gateway's traffic until it is taken out. */
export function sendTo(
  admittedRequest: AdmittedRequest,
  candidate: Candidate,
  stream: boolean,
): UpstreamExchange {
  const { requestId } = admittedRequest.context;
  const exchange = candidate.provider.upstream.send({
    ...admittedRequest.encode(candidate),
    stream,
    requestId,
  });
  admittedRequest.gateway.inFlight.exchanges.add(exchange);
  // A request that is not in the books costs nobody anything, so it must not cost the operator either.
  admittedRequest.admission.meter.opened.catch(() =>
    exchange.abort(new UpstreamError("gateway", "store")),
  );
  return exchange;
}

/** Lets the routes try in their order; see `dispatch`. */
export function tryRoutes<Answer>(
  admittedRequest: AdmittedRequest,
  isAbandoned: () => boolean,
  attempt: (candidate: Candidate, ended: EndAttempt) => Promise<Answer>,
): Promise<DispatchResult<Answer>> {
  const { gateway, admission } = admittedRequest;
  return dispatch({
    candidates: admittedRequest.candidates,
    health: gateway.health,
    retryBudget: gateway.retryBudget,
    clock: gateway.clock,
    random: gateway.random,
    exchangesInFlight: () => gateway.inFlight.exchanges.size,
    attempt,
    attempted: attemptRecorder(admittedRequest),
    callerFault: (error) => admittedRequest.callerFault(error),
    isAbandoned: () => gateway.inFlight.isAborting || admission.meter.couldNotOpen || isAbandoned(),
  });
}

/** A function of its own, for a stream keeps what it returns (of closures: gateway.ts). */
function attemptRecorder({ gateway, context, admission }: AdmittedRequest): AttemptListener {
  return (record, candidate, failure) => {
    admission.meter.attempted(record);
    logAttempt(gateway, context, candidate, record, failure);
  };
}

/** Ends a request that got no answer, and says what its client is told. */
export async function settleFailure(
  admittedRequest: AdmittedRequest,
  error: unknown,
  ending: RequestOutcome,
): Promise<ApiError> {
  try {
    await settleRequest(admittedRequest.context, admittedRequest.admission, ending);
  } catch (unwritten) {
    // `settleRequest` throws nothing else.
    return unwritten as ApiError;
  }
  if (error instanceof ApiError) return error;
  if (admittedRequest.gateway.inFlight.isAborting) return serviceUnavailable(error);
  return error instanceof UpstreamError ? allProvidersUnavailable() : serviceUnavailable(error);
}

/**
 * Finishes the meter of a request and tells the visit's log line. Throws ApiError and nothing else: when the ending
 * cannot be committed (502), or when the request could not be opened because its money was gone (429): then nothing that
 * looks whole may reach the client.
 */
export async function settleRequest(
  context: RequestContext,
  admission: Admission,
  ending: RequestOutcome,
): Promise<Receipt> {
  try {
    const receipt = await admission.meter.settle(ending);
    logReceipt(context, receipt);
    return receipt;
  } catch (error) {
    logUncommitted(context);
    context.addLogFields({ outcome: "failed" });
    // Its money went to somebody else in that very moment: the next try is told whether any is left.
    const isInsufficient = error instanceof WriteError && error.failure === "insufficient";
    throw isInsufficient ? rateLimitExceeded() : serviceUnavailable(error);
  }
}

/** Of an ending: whose answer is billed, and what it costs the operator there. */
export function servedBy({
  provider,
  route,
}: Candidate): Pick<RequestOutcome, "provider" | "operatorPrice"> {
  return { provider: provider.id, operatorPrice: route.operatorPrice };
}

/** The token rate gets what was really used, and the log line what was charged. */
export function logReceipt(context: RequestContext, receipt: Receipt): void {
  context.permit.correctTokens(totalTokens(receipt.usage));
  context.addLogFields(receiptFields(receipt));
}

/** An answer whose end could not be written is not charged, so neither is the token rate. */
export function logUncommitted(context: RequestContext): void {
  context.permit.correctTokens(0);
}

/** What the log line of a request says of its end. */
function receiptFields(receipt: Receipt): LogFields {
  return {
    outcome: receipt.status,
    prompt_tokens: receipt.usage.promptTokens,
    completion_tokens: receipt.usage.completionTokens,
    cost_rub: formatRoubles(receipt.charge),
    attempts: receipt.attempts.length,
    ...(receipt.provider === undefined ? {} : { provider: receipt.provider }),
    ...(receipt.estimated ? { estimated: true } : {}),
    ...(receipt.writeOff > 0n ? { write_off_rub: formatRoubles(receipt.writeOff) } : {}),
    ...(receipt.firstByteMs === undefined ? {} : { first_byte_ms: receipt.firstByteMs }),
  };
}

/**
 * Tells the operator of an attempt at a route that is over: loudly of one that failed because their own account is
 * refused, or for an address or a model that the provider does not know, and only who asks for it (`level = "debug"`) of
 * one that went well, failed by its caller, or was left by its client.
 */
function logAttempt(
  gateway: Gateway,
  context: RequestContext,
  candidate: Candidate,
  attempt: AttemptRecord,
  failure: AttemptFailure | undefined,
): void {
  const { log } = gateway;
  const fields: LogFields = {
    request_id: context.requestId,
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
