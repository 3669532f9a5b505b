import { canonicalIp } from "../config/address.ts";

/** Who can tell the peer of a request: Bun's server. Null for a unix socket. */
export interface AddressSource {
  requestIP(request: Request): { address: string } | null;
}

/** A peer on a unix socket is on this machine. */
const LOCAL = "127.0.0.1";

/**
 * The client's address: the socket's, or, where that is a trusted proxy, the nearest address of its
 * X-Forwarded-For that is not one itself. What stands before that could be anybody's invention.
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
    .map((entry) => canonicalIp(entry.trim()));
  const nearest = forwarded
    .toReversed()
    .find((entry) => entry !== undefined && !trustedProxies.includes(entry));
  return nearest ?? address;
}
