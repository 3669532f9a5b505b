import { ConnectionError, type UpstreamError } from "../../providers/upstream.ts";
import type { Probe } from "../../gateway/routeProbe.ts";
import type { ProviderConfig } from "../../config/schema.ts";
import { proxyAdvice, tlsAdvice } from "./proxyAdvice.ts";

/** Why a route failed and what to do, in one line. A provider's message in it contains no secrets. */
export function routeAdvice(probe: Probe, error: UpstreamError): string {
  const { status, fault, clientError } = error;
  const code = status === undefined ? "" : ` (${status})`;
  switch (fault) {
    case "account":
      return keyAdvice(probe) ?? accountAdvice(probe, error);
    case "keyExpired":
      return "the provider refused the key for its age, and takes the new one: try again";
    case "forbidden":
      return error.providerMessage === undefined
        ? statusAdvice(probe, status ?? 403)
        : accountAdvice(probe, error);
    case "notFound":
      return notFoundAdvice(probe, error);
    case "modelQuota":
      return `the quota of this model at the provider is used up${code}: raise it there${quoted(error)}`;
    case "operator":
      return `the provider wants something of your organization${code}: do what it says${quoted(error)}`;
    case "tooLarge":
      return `the provider refuses even a short request as too large${code}: check base_url and headers${quoted(error)}`;
    case "rateLimited":
      return `the rate limit of the provider is reached${code}: try again later, or ask the provider for a higher limit${quoted(error)}`;
    case "caller":
      return `the provider refuses the request${code}: ${error.providerMessage ?? noReasonAdvice(probe)}`;
    case "unsupported":
      return `this interface does not support the request: ${clientError?.message ?? "try another api"}`;
    case "excessive":
    case "isolated":
    case "client":
    case "gateway":
    case "provider":
      return status === undefined || status === 200
        ? answerAdvice(probe, error)
        : statusAdvice(probe, status) + quoted(error);
  }
}

/** Why there is no key; undefined if there is one. */
function keyAdvice({ candidate }: Probe): string | undefined {
  const { key, config } = candidate.provider;
  if (key?.problem === undefined) return undefined;
  const from =
    config.issuer?.kind === "command" ? "api_key_command" : "api_key, scope and token_url";
  return `no key: ${key.problem}; check ${from}`;
}

function accountAdvice({ candidate }: Probe, error: UpstreamError): string {
  const { apiKey, issuer, headers, proxyUrl } = candidate.provider.config;
  const { status, providerMessage, accountFault } = error;
  const isKeyless = apiKey === undefined && issuer === undefined;
  if (status === 401 && isKeyless && Object.keys(headers).length === 0) {
    return "the provider requires a key (401): set api_key";
  }
  if (accountFault === "key") {
    const what = issuer?.kind === "command" ? "what api_key_command writes" : "api_key";
    return `the provider refuses the key (${status}): check ${what}`;
  }
  if (accountFault === "empty") {
    return `the account at the provider is empty (${status}): add money there${quoted(error)}`;
  }
  const refusal = `the provider refuses (${status}): ${providerMessage ?? "check the permissions of the key"}`;
  if (accountFault !== "country") return refusal;
  return `${refusal}; ${proxyUrl === undefined ? "set" : "change"} proxy to reach it from a country that it serves`;
}

function notFoundAdvice({ api, candidate }: Probe, error: UpstreamError): string {
  if (error.isUnknownModel) {
    return `the provider does not know the model (404): check model of the route${quoted(error)}`;
  }
  const version = candidate.provider.config.kind === "gemini" ? "/v1beta" : "/v1";
  const [cause, end] =
    api === "responses"
      ? ["wrong address, unknown model, or no responses interface", ", or use api = chat"]
      : ["wrong address or unknown model", ""];
  return `${cause} (404): check base_url (does it end in ${version}?) and model of the route${end}${quoted(error)}`;
}

function quoted({ providerMessage }: UpstreamError): string {
  return providerMessage === undefined ? "" : `; it says: ${providerMessage}`;
}

/** A TLS server answers plain HTTP with a 400 that is not in the interface's form. */
function noReasonAdvice(probe: Probe): string {
  return `it gives no reason; check base_url${httpsHint(probe)}`;
}

function httpsHint({ candidate }: Probe): string {
  const isPlain = candidate.provider.config.baseUrl.startsWith("http:");
  return isPlain ? ", which may have to start with https://" : "";
}

function statusAdvice({ candidate }: Probe, status: number): string {
  const { proxyUrl } = candidate.provider.config;
  if (status >= 300 && status < 400) {
    return `base_url redirects (${status}), and redirects are not followed: use the target address`;
  }
  if (status === 403)
    return "access is refused (403): check base_url, the key and the rules of the network";
  if (status === 407 && proxyUrl !== undefined)
    return `the proxy ${new URL(proxyUrl).host} requires a user and a password (407): check proxy`;
  if (status === 405 || status === 410)
    return `the provider does not have this interface (${status}): check base_url`;
  return status >= 500 || status === 408
    ? `the provider failed (${status}): try again later`
    : `the provider answers with status ${status}: check base_url and kind`;
}

/** For an attempt without a usable answer. */
function answerAdvice(probe: Probe, { outcome, cause }: UpstreamError): string {
  const { config } = probe.candidate.provider;
  const advice = cause instanceof ConnectionError ? connectAdvice(cause, config) : undefined;
  if (advice !== undefined) return advice;
  if (outcome === "timeout") {
    return `no answer within ${config.totalTimeoutMs / 1000} s: try again, and check if the provider is overloaded`;
  }
  if (outcome === "closed") {
    return `the connection closed before the answer ended: try again, and check base_url${httpsHint(probe)}`;
  }
  return outcome === "protocol"
    ? `the server does not speak valid HTTP/1.1: check base_url${httpsHint(probe)}`
    : "the answer does not follow the expected interface: check base_url, kind and api";
}

/** Why the connection failed and what to do, in one line. Undefined: the error is not about connecting. */
export function connectAdvice(
  error: ConnectionError,
  { proxyUrl, connectTimeoutMs }: Pick<ProviderConfig, "proxyUrl" | "connectTimeoutMs">,
): string | undefined {
  const { code, cause } = error;
  const server = { key: "base_url", who: "the provider" };
  const ofProxy = proxyUrl === undefined ? undefined : proxyAdvice(code, cause, proxyUrl, server);
  if (ofProxy !== undefined) return ofProxy;
  switch (code) {
    case "refused":
      return "cannot connect, nothing listens there: check base_url and that the provider runs";
    case "dns":
      return "cannot connect, DNS does not know the host in base_url: check base_url and the DNS of this machine";
    case "unreachable":
      return "cannot connect: check base_url and the network";
    case "tls":
      return tlsAdvice(cause, "base_url");
    case "timeout": {
      const withinS = `within ${connectTimeoutMs / 1000} s`;
      return proxyUrl === undefined
        ? `cannot connect ${withinS}: check base_url and the network`
        : `cannot connect ${withinS} through the proxy ${new URL(proxyUrl).host}: check proxy, base_url and the network`;
    }
    case "descriptors":
      return "cannot connect, this process may open no further file: raise the limit of open files (`ulimit -n`)";
    case "proxy":
    case "closed":
    case "protocol":
    case "request":
      return undefined;
  }
}
