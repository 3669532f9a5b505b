import { peerName } from "./connections/clientSockets.ts";
import { canonicalIp } from "../config/address.ts";
import { isInNetworks } from "../config/network.ts";
import type { Network } from "../config/schema.ts";

/**
 * What the gateway uses of Bun's server: the address of a socket (null for a unix socket), and the idle time-out of a
 * connection.
 */
export interface ConnectionServer {
  requestIP(request: Request): { address: string; port: number } | null;
  timeout(request: Request, seconds: number): void;
}

/** Names the connection of a request; undefined on a unix socket, and after its end. */
export function peerOf(request: Request, server: ConnectionServer | null): string | undefined {
  const socket = server?.requestIP(request);
  return socket ? peerName(socket.address, socket.port) : undefined;
}

/** The address of a client on a unix socket. */
const LOCAL = "127.0.0.1";

/** An IPv6 address in brackets, with or without a port, or an IPv4 address with a port. */
const ADDRESS_WITH_PORT = /^(?:\[([^[\]]*)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/;

/**
 * The client's address. This is the address of the socket. If that is a trusted proxy, it is the last entry of
 * X-Forwarded-For that is not a trusted proxy, and the first entry if all are. The client can invent all entries before
 * that one. If that entry is not an address, the address of the socket counts.
 */
export function clientAddress(
  request: Request,
  server: ConnectionServer | null,
  trustedProxies: readonly Network[],
): string {
  const socketAddress = server?.requestIP(request)?.address ?? LOCAL;
  const address = canonicalIp(socketAddress) ?? socketAddress;
  if (!isInNetworks(address, trustedProxies)) return address;
  return forwardedAddress(request, trustedProxies) ?? address;
}

/** Reads from the end: the client can make the list long. Empty elements are ignored: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.1.2 */
function forwardedAddress(
  { headers }: Request,
  trustedProxies: readonly Network[],
): string | undefined {
  let nearest: string | undefined;
  for (const entry of (headers.get("x-forwarded-for") ?? "").split(",").toReversed()) {
    if (entry.trim() === "") continue;
    nearest = addressIn(entry.trim());
    if (nearest === undefined || !isInNetworks(nearest, trustedProxies)) break;
  }
  return nearest;
}

/** Some proxies write the client's port too. */
function addressIn(entry: string): string | undefined {
  const [, bracketed, beforePort] = ADDRESS_WITH_PORT.exec(entry) ?? [];
  return canonicalIp(bracketed ?? beforePort ?? entry);
}
