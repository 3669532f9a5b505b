import { isIP } from "node:net";

/** The address of a listener. A unix path is absolute. With port 0 the system chooses the port. */
export type Listen =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** The longest path of a unix socket (macOS: 104 bytes with the closing zero). */
const SOCKET_PATH_BYTES_MAX = 103;

/** `"host:port"`, `"[::1]:port"` or `"unix:/path"`; undefined for any other form. */
export function parseListen(text: string): Listen | undefined {
  if (text.startsWith("unix:")) {
    const path = text.slice("unix:".length);
    return path !== "" && !path.includes("\0") ? { kind: "unix", path } : undefined;
  }
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  if (match === null) return undefined;
  const [, ipv6, name, digits] = match;
  const port = Number(digits);
  const host = ipv6 ?? name ?? "";
  const valid = ipv6 === undefined ? isHostName(host) : isIP(ipv6) === 6;
  return valid && port <= 65_535 ? { kind: "tcp", host, port } : undefined;
}

/** Whether the absolute path of a unix socket is short enough. */
export function fitsSocketPath(path: string): boolean {
  return Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX;
}

/** Whether an address or name is of this machine only. */
export function isLoopback(host: string): boolean {
  const bare = bareHost(host);
  if (bare === "localhost" || bare.endsWith(".localhost") || bare === "::1") return true;
  return isIP(bare) === 4 && bare.startsWith("127.");
}

/** Whether two hosts cannot listen on the same port: 0.0.0.0 is every IPv4 address, :: every address. */
export function hostsOverlap(one: string, other: string): boolean {
  const hosts = [bareHost(one), bareHost(other)];
  if (hosts[0] === hosts[1] || hosts.includes("::")) return true;
  return hosts.includes("0.0.0.0") && !hosts.some((host) => isIP(host) === 6);
}

/**
 * Whether an address or name belongs to this machine or a private network: the private ranges
 * (https://www.rfc-editor.org/rfc/rfc1918, rfc4193, and rfc6598 for overlay networks), names without a dot, and the
 * private top-level domains.
 */
export function isPrivate(host: string): boolean {
  const bare = bareHost(host);
  if (isLoopback(bare)) return true;
  if (isIP(bare) === 4) return isPrivateIpv4(bare);
  if (isIP(bare) === 6) return /^f[cd]/.test(bare);
  return !bare.includes(".") || /\.(?:local|internal|lan|home\.arpa)$/.test(bare);
}

/** An IP address in its shortest form, with IPv4-mapped IPv6 as IPv4; undefined for other text. */
export function canonicalIp(text: string): string | undefined {
  const family = isIP(text);
  if (family === 4) return text;
  if (family !== 6 || text.includes("%")) return undefined;
  const short = withoutBrackets(new URL(`http://[${text}]`).hostname);
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(short);
  if (mapped === null) return short;
  const [high, low] = [Number.parseInt(mapped[1] ?? "", 16), Number.parseInt(mapped[2] ?? "", 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

function isPrivateIpv4(address: string): boolean {
  const [first = 0, second = 0] = address.split(".").map(Number);
  if (first === 10) return true;
  if (first === 172) return second >= 16 && second <= 31;
  if (first === 192) return second === 168;
  return first === 100 && second >= 64 && second <= 127;
}

function isHostName(host: string): boolean {
  if (/^[\d.]+$/.test(host)) return isIP(host) === 4;
  return host.length <= 253 && /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(host);
}

/**
 * The URL by which a program of this machine reaches a listener. A listener at every address also listens at the
 * loopback address. A unix socket is reached by its path, and the host in the URL does not count.
 */
export function localOrigin(listen: Listen, scheme: "http" | "https" = "http"): string {
  if (listen.kind === "unix") return `${scheme}://localhost`;
  const bare = bareHost(listen.host);
  const host = bare === "0.0.0.0" ? "127.0.0.1" : bare === "::" ? "::1" : bare;
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${listen.port}`;
}

/** A host without brackets, in lower case. */
export function bareHost(host: string): string {
  const bare = withoutBrackets(host).toLowerCase();
  return canonicalIp(bare) ?? bare;
}

function withoutBrackets(host: string): string {
  return host.startsWith("[") ? host.slice(1, -1) : host;
}
