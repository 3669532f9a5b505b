import type { Receipt, RequestOutcome } from "../billing/meter.ts";
import { ApiError, allProvidersUnavailable, serviceUnavailable } from "../contract/errors.ts";
import { allowsFigure, WEB_SEARCH_NAME } from "../contract/extras.ts";
import { soldFigures } from "../contract/figureParts.ts";
import { chargedTier, isSold, tierField, type AskedTier } from "../contract/serviceTier.ts";
import { totalTokens } from "../contract/usage.ts";
import { formatRoubles } from "../lib/money.ts";
import { UpstreamError } from "../providers/upstream.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { LogFields } from "../telemetry/log.ts";
import { serviceOf } from "./interfaces.ts";
import { pricesFor } from "./soldPrices.ts";
import type { AdmittedScope, Checked } from "./requestScope.ts";

/** Settles a request without an answer. Returns the client's error. */
export async function settleFailure(
  scope: AdmittedScope,
  error: unknown,
  outcome: RequestOutcome,
): Promise<ApiError> {
  try {
    await settleRequest(scope, outcome);
  } catch (uncommitted) {
    // `settleRequest` throws ApiError only.
    return uncommitted as ApiError;
  }
  if (error instanceof ApiError) return error;
  if (scope.gateway.inFlight.isAborting) return serviceUnavailable(error);
  return error instanceof UpstreamError ? allProvidersUnavailable() : serviceUnavailable(error);
}

/**
 * Settles the meter of a request and adds the receipt to its log line. Throws only ApiError: 502 if the settlement cannot
 * be committed. No complete answer may reach the client then.
 */
export async function settleRequest(
  scope: AdmittedScope,
  outcome: RequestOutcome,
): Promise<Receipt> {
  try {
    const receipt = await scope.admitted.meter.settle(outcome);
    logReceipt(scope, receipt);
    return receipt;
  } catch (error) {
    logUncommitted(scope);
    scope.addLogFields({ outcome: "failed" });
    throw serviceUnavailable(error);
  }
}

/**
 * The part of an outcome that names the provider, the model with the prices that are charged, and the service tier.
 * `services`: those that the answer names.
 */
export function servedBy(
  scope: AdmittedScope,
  candidate: Candidate,
  services: readonly string[] | undefined,
): Pick<RequestOutcome, "provider" | "sold" | "service"> {
  const { model, provider, route } = candidate;
  const prices = pricesFor(scope, model);
  const service = chargedTier(prices, services, sentTier(scope.checked, candidate));
  const sold = { model: model.id, prices, costs: route.costs ?? prices.vendor };
  return { provider: provider.id, sold, service };
}

/** The tier that the route was asked for. A translation may have no field for it, and the config may drop the field. */
function sentTier({ endpoint, serviceTier }: Checked, candidate: Candidate): AskedTier {
  if (serviceTier === "auto" || serviceTier === "standard") return serviceTier;
  const { kind, dropFields } = candidate.provider.config;
  const field = tierField(serviceTier);
  if (dropFields.includes(field)) return "auto";
  if (serviceOf(endpoint, candidate) === "native") return serviceTier;
  if (endpoint === "messages" || kind === "gemini") return "auto";
  return kind === "anthropic" && field === "service_tier" ? "auto" : serviceTier;
}

/** Corrects the token rate by the real usage, and adds the receipt to the log line. */
export function logReceipt(scope: AdmittedScope, receipt: Receipt): void {
  scope.permit.correctTokens(totalTokens(receipt.usage));
  scope.addLogFields(receiptFields(receipt));
}

/** Returns the tokens to the token rate: a request that could not be settled is not charged. */
export function logUncommitted(scope: AdmittedScope): void {
  scope.permit.correctTokens(0);
}

/**
 * Reports what an answer used and the price of its model does not cover: `services`, and figures without a price of their
 * own. The log line counts the web searches.
 */
export function tellUnpriced(
  scope: AdmittedScope,
  candidate: Candidate,
  { usage }: Receipt,
  services: readonly string[] = [],
): void {
  const { requestId, snapshot, gateway } = scope;
  const { unpriced } = gateway;
  const prices = pricesFor(scope, candidate.model);
  for (const service of services)
    if (!isSold(prices, service)) unpriced.served(candidate, service, requestId);
  for (const { name, field } of soldFigures) {
    if (usage[name] === 0 || prices.sells[name]) continue;
    const isSearch = name === "webSearches" || name === "webSearchPreviews";
    if (isSearch) scope.addLogFields({ unpriced_searches: usage[name] });
    // The operator gives it away.
    if (allowsFigure(snapshot.config.api.allowedTools, name)) continue;
    unpriced.served(candidate, isSearch ? WEB_SEARCH_NAME : field, requestId);
  }
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
