import type { ProviderConfig } from "../config/schema.ts";
import type { ConnectionError } from "../providers/upstream.ts";
import { errorCode } from "../lib/errorCode.ts";

/** How a provider is reached, and within what time. */
export type Way = Pick<ProviderConfig, "proxyUrl" | "connectTimeoutMs">;

/** What a certificate's own dates refuse; the names are OpenSSL's. */
const datesRefused: ReadonlySet<string> = new Set(["CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID"]);
/** What the runtime says of a certificate that was made out to others. */
const nameRefused = "ERR_TLS_CERT_ALTNAME_INVALID";
/** The other end refuses whatever TLS it was offered, or hung up on it. */
const noHandshake: ReadonlySet<string> = new Set(["EPROTO", "ECONNRESET", "EPIPE"]);
/** What BoringSSL says of bytes that are none of TLS. */
const NO_TLS = /WRONG_VERSION_NUMBER|HTTP_REQUEST/;

/** Why no connection to a provider came about, and what to do about it, in one line; undefined where the error tells of something else. */
export function dialAdvice(error: ConnectionError, way: Way): string | undefined {
  // A proxy is dialled in the provider's place, and knows its name and its port alone.
  const proxy = way.proxyUrl === undefined ? undefined : new URL(way.proxyUrl).host;
  switch (error.code) {
    case "refused":
      return proxy === undefined
        ? "cannot connect, nothing listens there: check base_url, and whether the provider runs"
        : `cannot connect, nothing listens at the proxy ${proxy}: check proxy, and whether it runs`;
    case "dns":
      return proxy === undefined
        ? "cannot connect, the name in base_url is not known: check it, and this machine's DNS"
        : `cannot connect, the name of the proxy ${proxy} is not known: check proxy, and this machine's DNS`;
    case "unreachable":
      return proxy === undefined
        ? "cannot connect: check base_url and the network"
        : `cannot connect to the proxy ${proxy}: check proxy and the network`;
    case "tls":
      return tlsAdvice(error.cause);
    case "proxy":
      return `cannot connect, the proxy ${proxy} does not open the way: check proxy, and base_url`;
    case "timeout": {
      const withinS = `within ${way.connectTimeoutMs / 1000} s`;
      return proxy === undefined
        ? `cannot connect ${withinS}: check base_url and the network`
        : `cannot connect ${withinS} through the proxy ${proxy}: check proxy, base_url and the network`;
    }
    case "closed":
    case "protocol":
    case "request":
      return undefined;
  }
}

function tlsAdvice(cause: unknown): string {
  const code = errorCode(cause) ?? "";
  if (datesRefused.has(code))
    return "cannot connect, the certificate has expired or is not valid yet: check this machine's clock, and the provider";
  if (code === nameRefused)
    return "cannot connect, the certificate is for another name, which no ca_file mends: base_url must have the name that stands in it";
  if (cause instanceof Error && NO_TLS.test(cause.message))
    return "cannot connect, no TLS is spoken there: check the port in base_url, or begin it with http://";
  if (noHandshake.has(code))
    return "cannot connect, the other end breaks the TLS handshake off: check base_url and its port";
  return "cannot connect, the certificate is not trusted: check base_url, or set ca_file";
}
