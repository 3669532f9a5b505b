import type { Meter, RequestOutcome, Receipt } from "../billing/meter.ts";
import {
  ApiError,
  aboveRateLimit,
  allProvidersUnavailable,
  invalidRequest,
  serviceUnavailable,
  rateLimitExceeded,
} from "../contract/errors.ts";
import type { EncodedRequest } from "../providers/provider.ts";
import { UpstreamError, upstreamErrorOf, type UpstreamExchange } from "../providers/upstream.ts";
import type { AttemptFailure, AttemptListener } from "../routing/attempts.ts";
import { streamTimeoutMs, type Candidate } from "../routing/candidates.ts";
import type { Admission } from "./admission/admit.ts";
import { modelHeader, type StreamChunk } from "./answer.ts";
import type { Gateway, RequestContext } from "./gateway.ts";
import { namesWebSearch, WEB_SEARCH_NAME } from "../contract/extras.ts";
import { totalTokens } from "../contract/usage.ts";
import { formatRoubles } from "../lib/money.ts";
import { WriteError, type AttemptRecord } from "../store/store.ts";
import type { EventOf } from "../telemetry/events.ts";
import { type LogFields, errorClass } from "../telemetry/log.ts";

/** A request whose money is held, and its candidates. All endpoints use it. */
export interface AdmittedRequest {
  readonly gateway: Gateway;
  readonly context: RequestContext;
  readonly admission: Admission;
  readonly candidates: readonly Candidate[];
  /** Encodes the request for the provider of this candidate. */
  encode(candidate: Candidate): EncodedRequest;
  /** The client's error if the failure is the caller's fault. No other route is tried then. */
  callerFault(error: UpstreamError): ApiError | undefined;
  /** The end of a stream that failed after the 200 and before any content. */
  streamFailure(error: ApiError): StreamChunk;
}

/** The 400 or 429 with the provider's words, if the provider refused the request itself. */
export function callerFault({ clientError }: UpstreamError): ApiError | undefined {
  if (!clientError) return undefined;
  const { message, extra, isRateLimit } = clientError;
  return isRateLimit === true ? aboveRateLimit(message, extra) : invalidRequest(message, extra);
}

/** The client's error for what an attempt threw, if the caller is at fault. */
export function refusalOf(
  admittedRequest: Pick<AdmittedRequest, "callerFault">,
  thrown: unknown,
): ApiError | undefined {
  const error = upstreamErrorOf(thrown);
  return error && admittedRequest.callerFault(error);
}

/** The headers of an answer that this candidate gives. They name the model if the request may get another one's. */
export function answerHeaders(
  { candidates }: AdmittedRequest,
  { model }: Candidate,
): Readonly<Record<string, string>> {
  const hasFallbacks = candidates.some((candidate) => candidate.model !== model);
  return hasFallbacks ? modelHeader(model.id) : {};
}

/** Sends the request to a candidate. The caller removes the exchange from `inFlight.exchanges` when it has ended. */
export function sendTo(
  admittedRequest: AdmittedRequest,
  candidate: Candidate,
  stream: boolean,
): UpstreamExchange {
  const { requestId, span } = admittedRequest.context;
  const encoded = admittedRequest.encode(candidate);
  const { config, upstream } = candidate.provider;
  const trace = span?.startAttempt({ provider: config, model: candidate.route.model, stream });
  const request = trace ? { ...encoded, headers: { ...encoded.headers, ...trace } } : encoded;
  const endsAfterMs = stream ? streamTimeoutMs(candidate) : config.totalTimeoutMs;
  const exchange = upstream.send({ ...request, stream, requestId, endsAfterMs });
  admittedRequest.gateway.inFlight.exchanges.add(exchange);
  // A request whose money is not secured cannot be charged, so the provider must not be used for it.
  admittedRequest.admission.meter.secured?.catch(() =>
    exchange.abort(new UpstreamError("gateway", "database")),
  );
  return exchange;
}

/** Records the attempts of one request. A stream retains it (memory rules: docs/architecture.md). */
export class AttemptRecorder implements AttemptListener {
  readonly #gateway: Gateway;
  readonly #context: RequestContext;
  readonly #meter: Meter;

  constructor({ gateway, context, admission }: AdmittedRequest) {
    this.#gateway = gateway;
    this.#context = context;
    this.#meter = admission.meter;
  }

  attempted(
    record: AttemptRecord,
    candidate: Candidate,
    failure: AttemptFailure | undefined,
  ): void {
    this.#meter.attempted(record);
    this.#context.span?.endAttempt(record);
    logAttempt(this.#gateway, this.#context, candidate, record, failure);
  }
}

/** Whether no further route may be tried, for a reason that is not the client's. */
export function mustStop({ gateway, admission }: AdmittedRequest): boolean {
  return gateway.inFlight.isAborting || admission.meter.couldNotSecure;
}

/** Settles a request without an answer. Returns the client's error. */
export async function settleFailure(
  admittedRequest: AdmittedRequest,
  error: unknown,
  outcome: RequestOutcome,
): Promise<ApiError> {
  try {
    await settleRequest(admittedRequest.context, admittedRequest.admission, outcome);
  } catch (uncommitted) {
    // `settleRequest` throws ApiError only.
    return uncommitted as ApiError;
  }
  if (error instanceof ApiError) return error;
  if (admittedRequest.gateway.inFlight.isAborting) return serviceUnavailable(error);
  return error instanceof UpstreamError ? allProvidersUnavailable() : serviceUnavailable(error);
}

/**
 * Settles the meter of a request and adds the receipt to its log line. Throws only ApiError: 502 if the settlement cannot
 * be committed, 429 if a command took the money before it was secured. No complete answer may reach
 * the client then.
 */
export async function settleRequest(
  context: RequestContext,
  admission: Admission,
  outcome: RequestOutcome,
): Promise<Receipt> {
  try {
    const receipt = await admission.meter.settle(outcome);
    logReceipt(context, receipt);
    return receipt;
  } catch (error) {
    logUncommitted(context);
    context.addLogFields({ outcome: "failed" });
    // A debit took the money in the same moment. The client's next try gets an exact answer.
    const isInsufficient = error instanceof WriteError && error.failure === "insufficient";
    throw isInsufficient ? rateLimitExceeded() : serviceUnavailable(error);
  }
}

/** The part of an outcome that names the provider and the operator's price, and the model that is charged. */
export function servedBy({
  model,
  provider,
  route,
}: Candidate): Pick<RequestOutcome, "provider" | "operatorPrice" | "sold"> {
  const sold = { model: model.id, price: model.price };
  return { provider: provider.id, operatorPrice: route.operatorPrice, sold };
}

/** Corrects the token rate by the real usage, and adds the receipt to the log line. */
export function logReceipt(context: RequestContext, receipt: Receipt): void {
  context.permit.correctTokens(totalTokens(receipt.usage));
  context.addLogFields(receiptFields(receipt));
}

/** Returns the tokens to the token rate: a request that could not be settled is not charged. */
export function logUncommitted(context: RequestContext): void {
  context.permit.correctTokens(0);
}

/**
 * Tells of what an answer was served with that the price of its model is not for: `services`, and web searches without a
 * price, which are counted in the log line.
 */
export function tellUnpriced(
  { unpriced }: Pick<Gateway, "unpriced">,
  context: RequestContext,
  candidate: Candidate,
  { usage: { webSearches } }: Receipt,
  services: readonly string[] = [],
): void {
  const { requestId, snapshot } = context;
  for (const service of services) unpriced.served(candidate, service, requestId);
  if (webSearches === 0 || candidate.model.sells.webSearches) return;
  context.addLogFields({ unpriced_searches: webSearches });
  // The operator gives them away.
  if (namesWebSearch(snapshot.config.api.allowedTools)) return;
  unpriced.served(candidate, WEB_SEARCH_NAME, requestId);
}

function receiptFields(receipt: Receipt): LogFields {
  const fields: LogFields = {
    outcome: receipt.status,
    prompt_tokens: receipt.usage.promptTokens,
    completion_tokens: receipt.usage.completionTokens,
    cost_rub: receipt.chargeRub,
    attempts: receipt.attempts.length,
  };
  if (receipt.provider !== undefined) fields.provider = receipt.provider;
  if (receipt.estimated) fields.estimated = true;
  if (receipt.writeOff > 0n) fields.write_off_rub = formatRoubles(receipt.writeOff);
  if (receipt.firstByteMs !== undefined) fields.first_byte_ms = receipt.firstByteMs;
  return fields;
}

/**
 * Logs an attempt that ended: as an error if the operator must act (`operatorEvent`), as a warning
 * if it failed otherwise, at debug level if it succeeded, the caller was at fault, or the client disconnected.
 */
function logAttempt(
  gateway: Gateway,
  context: RequestContext,
  candidate: Candidate,
  attempt: AttemptRecord,
  failure: AttemptFailure | undefined,
): void {
  const { log } = gateway;
  if (!failure && !log.isDebug) return;
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
    case "provider":
    case "rateLimited":
    case "tooLarge":
    case "unsupported":
      return undefined;
  }
}
