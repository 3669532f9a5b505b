import { ConnectionError, type UpstreamError } from "../providers/upstream.ts";
import { dialAdvice } from "./dialAdvice.ts";
import type { Probe } from "./probe.ts";

/** Why a route does not answer and what to do about it, in one line. A provider's own words in it are scrubbed. */
export function routeAdvice(probe: Probe, error: UpstreamError): string {
  const { status, fault, shown } = error;
  const code = status === undefined ? "" : ` (${status})`;
  switch (fault) {
    case "account":
      return accountAdvice(probe, error);
    case "missing":
      return missingAdvice(probe, error);
    case "limited":
      return `the provider's rate limit is reached${code}: try again later, or ask it for a higher one${quoted(error)}`;
    case "caller":
      return `the provider refuses the request${code}: ${error.words ?? wordless(probe)}`;
    case "unfit":
      return `the interface cannot say what was asked: ${shown?.message ?? "try another api"}`;
    case "excess":
    case "misfire":
    case "client":
    case "gateway":
    case "provider":
      return status === undefined || status === 200
        ? connectionAdvice(probe, error)
        : statusAdvice(probe, status) + quoted(error);
  }
}

function accountAdvice({ candidate }: Probe, error: UpstreamError): string {
  const { apiKey, headers, proxyUrl } = candidate.provider.config;
  const { status, words, accountFault } = error;
  if (status === 401 && apiKey === undefined && Object.keys(headers).length === 0) {
    return "the provider wants a key (401): set api_key";
  }
  if (accountFault === "key") return `the key is refused (${status}): check api_key`;
  if (accountFault === "empty") {
    return `the account is empty (${status}): top it up at the provider${quoted(error)}`;
  }
  const refusal = `the provider refuses (${status}): ${words ?? "check the key's rights there"}`;
  if (accountFault !== "country") return refusal;
  return `${refusal}; ${proxyUrl === undefined ? "set" : "change"} proxy, to reach it from a country that it serves`;
}

function missingAdvice({ api, candidate }: Probe, error: UpstreamError): string {
  if (error.isOfUnknownModel) {
    return `the provider does not know the model (404): check the route's model${quoted(error)}`;
  }
  const version = candidate.provider.config.kind === "gemini" ? "/v1beta" : "/v1";
  return api === "responses"
    ? `no such address, no such model, or no responses interface (404): check base_url (does it end in ${version}?) and the route's model, or serve it over chat${quoted(error)}`
    : `no such address, or no such model (404): check base_url (does it end in ${version}?) and the route's model${quoted(error)}`;
}

/** The provider's own words, where it has any. */
function quoted({ words }: UpstreamError): string {
  return words === undefined ? "" : `; it says: ${words}`;
}

/** A server that speaks TLS refuses plain HTTP with a 400 too, and not in the interface's form. */
function wordless(probe: Probe): string {
  return `it does not say why; check base_url${secureHint(probe)}`;
}

/** The one thing that an address without TLS may lack. */
function secureHint({ candidate }: Probe): string {
  const isPlain = candidate.provider.config.baseUrl.startsWith("http:");
  return isPlain ? ", which may have to begin with https://" : "";
}

function statusAdvice({ candidate }: Probe, status: number): string {
  const { proxyUrl } = candidate.provider.config;
  if (status >= 300 && status < 400) {
    return `base_url leads elsewhere (${status}), which is not followed: set the address that it leads to`;
  }
  if (status === 403)
    return "access is refused (403): check base_url, the key and the network's rules";
  if (status === 407 && proxyUrl !== undefined)
    return `the proxy ${new URL(proxyUrl).host} wants a name and a password (407): check proxy`;
  if (status === 405 || status === 410)
    return `there is no such interface (${status}): check base_url`;
  return status >= 500 || status === 408
    ? `the provider has a fault of its own (${status}): try again later`
    : `the provider answers with status ${status}: check base_url and kind`;
}

/** Words for an attempt that got no answer, or none that can be used. */
function connectionAdvice(probe: Probe, { outcome, cause }: UpstreamError): string {
  const { config } = probe.candidate.provider;
  const advice = cause instanceof ConnectionError ? dialAdvice(cause, config) : undefined;
  if (advice !== undefined) return advice;
  if (outcome === "timeout") {
    return `no answer within ${config.totalTimeoutMs / 1000} s: try again, and look whether the provider is overloaded`;
  }
  if (outcome === "closed") {
    return `the connection ended before the answer did: try again, and check base_url${secureHint(probe)}`;
  }
  return outcome === "protocol"
    ? `what answers speaks no proper HTTP/1.1: check base_url${secureHint(probe)}`
    : "what answers is not the interface that was asked for: check base_url, kind and api";
}
