import { errorCode } from "../../lib/systemError.ts";
import { ProxyError, type ConnectionErrorCode } from "../../providers/upstream.ts";

/** The server behind a proxy, and the key of the config that has its address. */
interface ServerWords {
  readonly key: string;
  readonly who: string;
}

/**
 * Why the way through the proxy failed and what to do, in one line. Undefined: the failure is that of the server behind the
 * proxy.
 */
export function proxyAdvice(
  code: ConnectionErrorCode,
  cause: unknown,
  proxyUrl: string,
  server: ServerWords,
): string | undefined {
  const { host, protocol } = new URL(proxyUrl);
  switch (code) {
    case "refused":
      return `cannot connect, nothing listens at the proxy ${host}: check proxy and that it runs`;
    case "dns":
      // With socks5 this machine resolves both names.
      return protocol === "socks5:"
        ? `cannot connect, DNS does not know the proxy ${host} or the host in ${server.key}: check both and the DNS of this machine, or write socks5h:// so that the proxy resolves names`
        : `cannot connect, DNS does not know the proxy ${host}: check proxy and the DNS of this machine`;
    case "unreachable":
      return `cannot connect to the proxy ${host}: check proxy and the network`;
    case "proxy":
      return refusalAdvice(cause, new URL(proxyUrl), server);
    case "tls":
    case "timeout":
    case "closed":
    case "protocol":
    case "request":
    case "descriptors":
      return undefined;
  }
}

function refusalAdvice(
  cause: unknown,
  { host, username, password }: URL,
  { key, who }: ServerWords,
): string {
  const refusal = cause instanceof ProxyError ? cause.refusal : "protocol";
  switch (refusal) {
    case "login":
      return username === "" && password === ""
        ? `cannot connect, the proxy ${host} requires a user and a password: set them in proxy`
        : `cannot connect, the proxy ${host} refuses the user and the password: check proxy`;
    case "rules":
      return `cannot connect, the proxy ${host} does not allow connections to ${who}: check ${key} and the rules of the proxy`;
    case "target":
      return `cannot connect, the proxy ${host} cannot reach ${who}: check ${key} and the network of the proxy`;
    case "tls":
      return tlsAdvice(cause instanceof Error ? cause.cause : undefined, "proxy");
    case "protocol":
      return `cannot connect, the proxy ${host} closes the connection or speaks another protocol: check the scheme and the port in proxy`;
  }
}

/** OpenSSL's codes for a certificate outside of its dates. */
const dateErrors: ReadonlySet<string> = new Set(["CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID"]);
/** The runtime's code for a certificate of another host name. */
const nameError = "ERR_TLS_CERT_ALTNAME_INVALID";
/** Codes for a handshake that the server refuses or aborts. */
const handshakeErrors: ReadonlySet<string> = new Set(["EPROTO", "ECONNRESET", "EPIPE"]);
/** BoringSSL's message for bytes that are not TLS. */
const NO_TLS = /WRONG_VERSION_NUMBER|HTTP_REQUEST/;

/** Why a TLS handshake failed and what to do, in one line. `key` has the address of the server. */
export function tlsAdvice(cause: unknown, key: "base_url" | "proxy"): string {
  const [certificate, who] =
    key === "proxy"
      ? ["the certificate of the proxy", "the proxy"]
      : ["the certificate", "the server"];
  const code = errorCode(cause) ?? "";
  if (dateErrors.has(code))
    return `cannot connect, ${certificate} has expired or is not valid yet: check the clock of this machine and the ${key === "proxy" ? "proxy" : "provider"}`;
  if (code === nameError)
    return `cannot connect, ${certificate} is for another host name: use that name in ${key} (ca_file does not help)`;
  if (cause instanceof Error && NO_TLS.test(cause.message))
    return `cannot connect, ${who} does not speak TLS: check the port in ${key}, or use http://`;
  if (handshakeErrors.has(code))
    return `cannot connect, ${who} aborts the TLS handshake: check ${key} and its port`;
  return `cannot connect, ${certificate} is not trusted: check ${key}, or set ca_file`;
}
