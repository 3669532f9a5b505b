import { setImmediate } from "node:timers/promises";
import type { App } from "../../app.ts";
import { descriptorsMax, openDescriptors } from "../../lib/systemError.ts";
import { openClientSockets } from "./clientSockets.ts";

/** The time for connections that are being made, by TCP and by TLS, and for the turns in which the server accepts them. */
const CONNECTING_MS = 100;
/** A client that always sends does not keep a server open. */
const WAIT_MAX_MS = 1000;

/**
 * Resolves at a moment at which closing the listener and the idle connections loses no request that has arrived: no client
 * waits to be accepted, and no connection without a request in flight has unread bytes. The caller closes in the same turn.
 * From the call on, no new connection is made to the port: the system would reset those that are not accepted yet. Where the
 * system does not tell its sockets, and on a unix socket (no port), it only takes what arrives in a tenth of a second.
 */
export async function quietMoment(app: App, port: number | undefined): Promise<void> {
  const most = descriptorsMax();
  const sockets =
    port === undefined || most === undefined ? undefined : await openClientSockets(most);
  if (port === undefined || most === undefined || sockets === undefined) {
    await Bun.sleep(CONNECTING_MS);
    await setImmediate();
    return;
  }
  const ports = new Set([port]);
  const used = (): number => openDescriptors() ?? most;
  const listeners = sockets.listeners(ports, used());
  for (const listener of listeners) listener.holdBack();
  await Bun.sleep(CONNECTING_MS);
  const hasArrivals = (): boolean => {
    if (listeners.some((listener) => listener.hasWaiting())) return true;
    const busy = new Set([...app.requests.inFlight].map(({ peer }) => peer));
    return sockets
      .list(ports, used())
      .some(({ isReceiving, peer }) => isReceiving && !busy.has(peer));
  };
  const endsAtMs = performance.now() + WAIT_MAX_MS;
  while (hasArrivals() && performance.now() < endsAtMs) await setImmediate();
}
