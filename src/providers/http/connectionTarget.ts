import type { TLSOptions } from "bun";
import { isIP } from "node:net";

/**
 * The silence after which the system probes the other side. Networks forget a silent connection without a word, home
 * routers after 60 s, clouds after 120 to 350 s, and an answer may be thought about for longer.
 */
export const PROBE_AFTER_MS = 30_000;

/** The server of a connection and the way to it. */
export interface ConnectionTarget {
  /** A name or an address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  readonly isSecure: boolean;
  /** PEM text that replaces the built-in certificate authorities. */
  readonly ca: string | undefined;
  readonly proxy: ConnectionProxy | undefined;
  /** The time for DNS, TCP, proxy and TLS together. */
  readonly timeoutMs: number;
}

export interface ConnectionProxy {
  /** `https`: TLS to the proxy. `socks5h`: the proxy resolves the name of the target. */
  readonly kind: "http" | "https" | "socks5" | "socks5h";
  /** A name or an address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  readonly login: { readonly user: string; readonly password: string } | undefined;
}

/** A target that is reached through a tunnel of its proxy. */
export type TunnelTarget = ConnectionTarget & { readonly proxy: ConnectionProxy };

export interface TargetOptions {
  /** `http://user:password@host:port`, or with https, socks5 or socks5h. */
  readonly proxyUrl?: string | undefined;
  /** PEM text that replaces the built-in certificate authorities. A proxy may have a certificate of either. */
  readonly ca?: string | undefined;
  /** The time for DNS, TCP, proxy and TLS together. */
  readonly connectTimeoutMs: number;
}

export function connectionTarget(url: URL, options: TargetOptions): ConnectionTarget {
  const isSecure = url.protocol === "https:";
  return {
    host: withoutBrackets(url.hostname),
    port: Number(url.port || (isSecure ? 443 : 80)),
    isSecure,
    ca: options.ca,
    proxy: options.proxyUrl === undefined ? undefined : connectionProxy(options.proxyUrl),
    timeoutMs: options.connectTimeoutMs,
  };
}

const PROXY_PORTS: Readonly<Record<ConnectionProxy["kind"], number>> = {
  http: 80,
  https: 443,
  socks5: 1080,
  socks5h: 1080,
};

/** The parts of a proxy's URL, which the config has checked. */
export function connectionProxy(text: string): ConnectionProxy {
  const url = new URL(text);
  const kind = url.protocol.slice(0, -1) as ConnectionProxy["kind"];
  const user = decodeURIComponent(url.username);
  const password = decodeURIComponent(url.password);
  return {
    kind,
    host: withoutBrackets(url.hostname),
    port: Number(url.port || PROXY_PORTS[kind]),
    login: user === "" && password === "" ? undefined : { user, password },
  };
}

function withoutBrackets(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

/**
 * Whether an HTTP proxy gets the requests themselves, in the absolute form. It does for http targets; for all others
 * it opens a tunnel.
 */
export function isForwarded({ isSecure, proxy }: ConnectionTarget): boolean {
  return !isSecure && (proxy?.kind === "http" || proxy?.kind === "https");
}

/** Whether a tunnel must be opened before the first request. */
export function isTunnelled(target: ConnectionTarget): target is TunnelTarget {
  return target.proxy !== undefined && !isForwarded(target);
}

export type NearestServer = Pick<ConnectionTarget, "host" | "port" | "isSecure" | "ca">;

/** The server at the other end of a connection without a tunnel. */
export function nearestServer(target: ConnectionTarget): NearestServer {
  const { proxy, ca } = target;
  return proxy === undefined
    ? target
    : {
        host: proxy.host,
        port: proxy.port,
        isSecure: proxy.kind === "https",
        ca: proxyAuthorities(ca),
      };
}

/** The authorities for the certificate of a proxy: the built-in ones, and the private one if there is one. */
export function proxyAuthorities(ca: string | undefined): string | undefined {
  // Loaded only if an authority is configured.
  return ca && [...process.getBuiltinModule("node:tls").rootCertificates, ca].join("\n");
}

/** The certificate and its host are verified before anything is written. */
export function tlsOptions({ host, ca }: Pick<ConnectionTarget, "host" | "ca">): TLSOptions {
  // SNI must not have an address (RFC 6066, section 3). The certificate is still verified against the address.
  const serverName = isIP(host) === 0 ? host : "";
  // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise turn off the verification.
  return { serverName, rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) };
}

/** The value of the header `proxy-authorization`. */
export function proxyAuthorization({ login }: ConnectionProxy): string | undefined {
  if (login === undefined) return undefined;
  return `Basic ${Buffer.from(`${login.user}:${login.password}`).toString("base64")}`;
}
