import type { TLSOptions } from "bun";
import { isIP } from "node:net";

/** Where a connection leads and by which way. */
export interface ConnectionTarget {
  /** Name or address, an IPv6 address without brackets. */
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

/** What of the options of a client concerns its connections. */
export interface TargetOptions {
  /** `http://user:pass@host:port`. https targets are reached by CONNECT, http ones by absolute-form. */
  readonly proxyUrl?: string | undefined;
  /** PEM text that replaces the built-in certificate authorities. */
  readonly ca?: string | undefined;
  /** DNS, TCP, proxy and TLS together. */
  readonly connectTimeoutMs: number;
}

/** The target of a base URL. Throws TypeError if the proxy is not reached by plain HTTP. */
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
  if (url.protocol !== "http:") throw new TypeError("a proxy must have an http: URL");
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

/** TLS with the certificate verified, its host included, by Bun before anything can be written. */
export function tlsOptions({ host, ca, proxy }: ConnectionTarget): TLSOptions {
  // SNI must not carry an address (RFC 6066, section 3). A direct dial verifies the certificate against
  // the dialled address even so; a connection through a proxy knows no other name than this one.
  const serverName = isIP(host) !== 0 && proxy === undefined ? "" : host;
  // Said outright, because NODE_TLS_REJECT_UNAUTHORIZED=0 would else turn the verification off.
  return { serverName, rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) };
}

/** The request that asks a proxy for a tunnel to the target. */
export function connectRequest({ host, port, proxy }: ConnectionTarget): string {
  const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const authorization =
    proxy?.authorization === undefined ? "" : `Proxy-Authorization: ${proxy.authorization}\r\n`;
  return `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${authorization}\r\n`;
}
