import type { Probe } from "../gateway/probe.ts";
import { ConnectionError, type UpstreamError } from "../providers/upstream.ts";
import { dialAdvice } from "./dialAdvice.ts";

/** Why a route does not answer and what to do about it, in one line. A provider's own words in it are scrubbed. */
export function routeAdvice(probe: Probe, error: UpstreamError): string {
  const { status, fault, shown } = error;
  const code = status === undefined ? "" : ` (${status})`;
  switch (fault) {
    case "account":
      return accountAdvice(probe, error);
    case "missing":
      return probe.api === "responses"
        ? `the provider has no such model, or no responses interface${code}: check the route's model, or serve it over chat`
        : `the provider does not know the model${code}: check the route's model, and base_url`;
    case "limited":
      return `the provider's rate limit is reached${code}: try again later, or ask it for a higher one`;
    case "caller":
      return `the provider refuses the request${code}: ${shown?.message ?? "it does not say why"}`;
    case "unfit":
      return `the interface cannot say what was asked: ${shown?.message ?? "try another api"}`;
    case "misfire":
    case "client":
    case "gateway":
    case "provider":
      return status === undefined || status === 200
        ? connectionAdvice(probe, error)
        : statusAdvice(status);
  }
}

function accountAdvice({ candidate }: Probe, { status, providerCode }: UpstreamError): string {
  const { apiKey, headers } = candidate.provider.config;
  if (status === 401 && apiKey === undefined && Object.keys(headers).length === 0) {
    return "the provider wants a key (401): set api_key";
  }
  if (status === 401) return "the key is refused (401): check api_key";
  if (providerCode?.startsWith("API_KEY_")) return `the key is refused (${status}): check api_key`;
  if (status === 403) return "the key may not do this (403): check its rights at the provider";
  return `the account is empty (${status}): top it up at the provider`;
}

function statusAdvice(status: number): string {
  if (status >= 300 && status < 400) {
    return `base_url leads elsewhere (${status}), which is not followed: set the address that it leads to`;
  }
  if (status === 403)
    return "access is refused (403): check base_url, the key and the network's rules";
  if (status === 405 || status === 410)
    return `there is no such interface (${status}): check base_url`;
  return status >= 500 || status === 408
    ? `the provider has a fault of its own (${status}): try again later`
    : `the provider answers with status ${status}: check base_url and kind`;
}

/** Words for an attempt that got no answer, or none that can be used. */
function connectionAdvice({ candidate }: Probe, { outcome, cause }: UpstreamError): string {
  const { connectTimeoutMs, totalTimeoutMs } = candidate.provider.config;
  const advice = cause instanceof ConnectionError ? dialAdvice(cause, connectTimeoutMs) : undefined;
  if (advice !== undefined) return advice;
  if (outcome === "timeout") {
    return `no answer within ${totalTimeoutMs / 1000} s: try again, and look whether the provider is overloaded`;
  }
  return outcome === "closed"
    ? "the connection ended before the answer did: try again, and check base_url"
    : "what answers is not the interface that was asked for: check base_url, kind and api";
}
