import { errorCode, hasFreeDescriptor } from "../../lib/systemError.ts";

/** Why an exchange failed below the HTTP status. Texts are Markdown of one line. */
export const connectionErrors = {
  refused: "Nothing accepts connections at the address.",
  dns: "The host name is not known.",
  unreachable: "The network does not lead to the address.",
  tls: "The TLS handshake failed, or the certificate is not valid.",
  proxy: "The proxy did not open a connection to the provider, or its certificate is not valid.",
  timeout: "A timeout of the provider's config passed.",
  closed: "The connection ended before the answer did.",
  protocol: "The response is not valid HTTP/1.1.",
  request: "The request could not be written, for example because of a header value.",
  descriptors:
    "The gateway has no file descriptor for a connection. It is the gateway's fault, not the provider's.",
} as const;
export type ConnectionErrorCode = keyof typeof connectionErrors;

/** The only error of the HTTP client. Its message never has a header, a body or a credential. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
  readonly code: ConnectionErrorCode;

  constructor(code: ConnectionErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * Why a proxy opens no tunnel. No text of the proxy is kept.
 * - `login`: it wants a user and a password, or refuses those that it got
 * - `rules`: it does not allow connections to the target
 * - `target`: it cannot reach the target
 * - `tls`: the handshake with the proxy failed, or its certificate is not valid; the cause says why
 * - `protocol`: it closed the connection, or speaks another protocol
 */
export type ProxyRefusal = "login" | "rules" | "target" | "tls" | "protocol";

/** The cause of each ConnectionError of the code `proxy`. */
export class ProxyError extends Error {
  override readonly name = "ProxyError";
  readonly refusal: ProxyRefusal;

  constructor(refusal: ProxyRefusal, options?: ErrorOptions) {
    super(`the proxy opened no tunnel: ${refusal}`, options);
    this.refusal = refusal;
  }
}

export function proxyError(refusal: ProxyRefusal, options?: ErrorOptions): ConnectionError {
  const cause = new ProxyError(refusal, options);
  return new ConnectionError("proxy", cause.message, { cause });
}

/** The TLS handshake with the target or the proxy failed. */
export function handshakeError(peer: "target" | "proxy", cause: unknown): ConnectionError {
  return peer === "proxy"
    ? proxyError("tls", { cause })
    : new ConnectionError("tls", "the TLS handshake failed", { cause });
}

/** Converts the system's error of a failed connect. The original error is the cause. */
export function connectError(error: unknown): ConnectionError {
  if (error instanceof ConnectionError) return error;
  const systemCode = errorCode(error) ?? "";
  const options = { cause: error };
  // Bun 1.4.5 reports a connection for which the process has no descriptor as refused.
  if (!hasFreeDescriptor())
    return new ConnectionError(
      "descriptors",
      "the process may open no further connection",
      options,
    );
  if (systemCode === "ECONNREFUSED") {
    return new ConnectionError("refused", "the connection was refused", options);
  }
  if (systemCode === "ETIMEDOUT") {
    return new ConnectionError("timeout", "the connection timed out", options);
  }
  if (/^(ENOTFOUND|ENODATA|EAI_|DNS_)/.test(systemCode)) {
    return new ConnectionError("dns", "the host name could not be resolved", options);
  }
  if (systemCode === "ERR_BORINGSSL") {
    return new ConnectionError("tls", "the certificate authority cannot be used", options);
  }
  return new ConnectionError("unreachable", "the connection could not be made", options);
}
