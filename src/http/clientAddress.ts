import { canonicalIp } from "../config/address.ts";

/** Who can tell the peer of a request: Bun's server. Null for a unix socket. */
export interface AddressSource {
  requestIP(request: Request): { address: string } | null;
}

/** A peer on a unix socket is on this machine. */
const LOCAL = "127.0.0.1";

/** An address in brackets, as one of IPv6 needs them before a port, or one of IPv4 with its port. */
const BESIDE_PORT = /^(?:\[([^[\]]*)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/;

/**
 * The client's address: the socket's, or, where that is a trusted proxy, the nearest address of its
 * X-Forwarded-For that is not one itself. What stands before that could be anybody's invention; so could what
 * stands before an entry that is no address: then it is the socket's after all.
 */
export function clientAddress(
  request: Request,
  source: AddressSource | null,
  trustedProxies: readonly string[],
): string {
  const peer = source?.requestIP(request)?.address ?? LOCAL;
  const address = canonicalIp(peer) ?? peer;
  if (!trustedProxies.includes(address)) return address;
  const forwarded = (request.headers.get("x-forwarded-for") ?? "")
    .split(",")
    .map((entry) => entry.trim())
    // Empty ones are none: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.1.2
    .filter((entry) => entry !== "")
    .map(addressIn);
  const nearest = forwarded.findLast(
    (entry) => entry === undefined || !trustedProxies.includes(entry),
  );
  return nearest ?? address;
}

/** Some proxies write the port of their client too. */
function addressIn(entry: string): string | undefined {
  const [, bracketed, beforePort] = BESIDE_PORT.exec(entry) ?? [];
  return canonicalIp(bracketed ?? beforePort ?? entry);
}
