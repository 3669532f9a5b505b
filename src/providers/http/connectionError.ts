import { errorCode } from "../../lib/systemError.ts";

/**
 * Why an exchange with a provider failed below HTTP's own statuses.
 * - `refused`, `dns`, `unreachable`: no connection came about
 * - `tls`: no connection whose certificate could be verified
 * - `proxy`: the proxy would not open the way
 * - `timeout`: dialling took longer than allowed
 * - `closed`: the connection ended before the answer did
 * - `protocol`: what came back is not the one, unambiguous HTTP/1.1 response that was asked for
 * - `request`: the request cannot be sent as it stands; nothing was dialled
 */
export type ConnectionErrorCode =
  | "refused"
  | "dns"
  | "unreachable"
  | "tls"
  | "proxy"
  | "timeout"
  | "closed"
  | "protocol"
  | "request";

/** The one error of the HTTP client. Its message never carries a header, a body or a credential. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
  readonly code: ConnectionErrorCode;

  constructor(code: ConnectionErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Translates what the system said about a failed dial; the original error becomes the cause. */
export function connectError(error: unknown): ConnectionError {
  const systemCode = errorCode(error) ?? "";
  const options = { cause: error };
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
