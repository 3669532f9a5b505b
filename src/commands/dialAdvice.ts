import type { ConnectionError } from "../providers/upstream.ts";
import { errorCode } from "../lib/errorCode.ts";

/** What a certificate's own dates refuse; the names are OpenSSL's. */
const datesRefused: ReadonlySet<string> = new Set(["CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID"]);

/**
 * Why no connection to a provider came about within `connectTimeoutMs`, and what to do about it, in one line;
 * undefined where the error tells of something else.
 */
export function dialAdvice(error: ConnectionError, connectTimeoutMs: number): string | undefined {
  switch (error.code) {
    case "refused":
      return "cannot connect, nothing listens there: check base_url, and whether the provider runs";
    case "dns":
      return "cannot connect, the name in base_url is not known: check it, and this machine's DNS";
    case "unreachable":
      return "cannot connect: check base_url and the network";
    case "tls":
      return datesRefused.has(errorCode(error.cause) ?? "")
        ? "cannot connect, the certificate has expired or is not valid yet: check this machine's clock, and the provider"
        : "cannot connect, the certificate is not trusted: check base_url, or set ca_file";
    case "proxy":
      return "cannot connect, the proxy does not open the way: check proxy";
    case "timeout":
      return `cannot connect within ${connectTimeoutMs / 1000} s: check base_url and the network`;
    case "closed":
    case "protocol":
    case "request":
      return undefined;
  }
}
