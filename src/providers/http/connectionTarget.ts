import type { TLSOptions } from "bun";
import { isIP } from "node:net";

/** The server of a connection and the way to it. */
export interface ConnectionTarget {
  /** A name or an address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  readonly isSecure: boolean;
  /** PEM text that replaces the built-in certificate authorities. */
  readonly ca: string | undefined;
  readonly proxy: ConnectionProxy | undefined;
  /** DNS, TCP, proxy and TLS together. */
  readonly timeoutMs: number;
}

export interface ConnectionProxy {
  readonly host: string;
  readonly port: number;
  /** Value of the proxy-authorization header. */
  readonly authorization: string | undefined;
}

/** The connection options of a client. */
export interface TargetOptions {
  /** `http://user:pass@host:port`. https targets use CONNECT, http targets the absolute form. */
  readonly proxyUrl?: string | undefined;
  /** PEM text that replaces the built-in certificate authorities. */
  readonly ca?: string | undefined;
  /** DNS, TCP, proxy and TLS together. */
  readonly connectTimeoutMs: number;
}

/** The target of a base URL. */
export function connectionTarget(url: URL, options: TargetOptions): ConnectionTarget {
  const isSecure = url.protocol === "https:";
  return {
    host: withoutBrackets(url.hostname),
    port: Number(url.port || (isSecure ? 443 : 80)),
    isSecure,
    ca: options.ca,
    proxy: options.proxyUrl === undefined ? undefined : connectionProxy(new URL(options.proxyUrl)),
    timeoutMs: options.connectTimeoutMs,
  };
}

function connectionProxy(url: URL): ConnectionProxy {
  const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return {
    host: withoutBrackets(url.hostname),
    port: Number(url.port || 80),
    authorization:
      credentials === ":" ? undefined : `Basic ${Buffer.from(credentials).toString("base64")}`,
  };
}

function withoutBrackets(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

/** Bun verifies the certificate and its host before anything is written. */
export function tlsOptions({ host, ca, proxy }: ConnectionTarget): TLSOptions {
  // SNI must not have an address (RFC 6066, section 3). A direct connection still verifies the certificate against
  // the address; one through a proxy knows no other name than this.
  const serverName = isIP(host) !== 0 && proxy === undefined ? "" : host;
  // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise turn off the verification.
  return { serverName, rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) };
}

export function connectRequest({ host, port, proxy }: ConnectionTarget): string {
  const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const authorization =
    proxy?.authorization === undefined ? "" : `Proxy-Authorization: ${proxy.authorization}\r\n`;
  return `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${authorization}\r\n`;
}
