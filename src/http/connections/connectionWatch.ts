import type { App } from "../../app.ts";
import { isLoopback } from "../../config/address.ts";
import { isInNetworks, networkOfClient } from "../../config/network.ts";
import { descriptorsMax, openDescriptors } from "../../lib/systemError.ts";
import { openClientSockets, type ClientSocket, type ClientSockets } from "./clientSockets.ts";

/** The part of the descriptors that stays free of idle clients, for connections to providers and files. */
const RESERVE_PART = 1 / 4;
/** The times between two counts of the descriptors: while few are used, and otherwise. */
const LOOK_EVERY_MS = 500;
const BUSY_LOOK_EVERY_MS = 50;
/** Looking at each connection takes at most a tenth of the thread, and happens once their number has grown by a tenth. */
const REST_FACTOR = 9;
const GROWTH = 1.1;
/** One log line reports all connections that are closed in this time. */
const TELL_EVERY_MS = 60_000;

/**
 * Closes idle connections of clients that have too many, and of all clients before no descriptor is left for
 * providers. A connection with a request in flight is never closed. Does nothing where the system does not list its
 * sockets. Returns a function that stops the watch.
 */
export async function watchConnections(
  app: App,
  ports: ReadonlySet<number>,
  descriptors = descriptorsMax(),
): Promise<() => void> {
  const sockets = descriptors === undefined ? undefined : await openClientSockets(descriptors);
  if (sockets === undefined || descriptors === undefined || ports.size === 0)
    return () => undefined;
  const watch = new ConnectionWatch(app, sockets, ports, descriptors);
  let timer: Timer | undefined;
  const look = (): void => {
    timer = setTimeout(look, watch.look()).unref();
  };
  look();
  return () => clearTimeout(timer);
}

/** Looks at the connections when it is told to. */
export class ConnectionWatch {
  readonly #app: App;
  readonly #sockets: Pick<ClientSockets, "list" | "shutDown">;
  readonly #ports: ReadonlySet<number>;
  readonly #descriptors: number;
  /** The descriptors that may be used while clients have idle connections. */
  readonly #most: number;
  /** The descriptors in use when the connections were last looked at, or the fewest since then. */
  #looked = 0;
  /** Connections that are closed and not reported yet. */
  #closed = 0;
  #toldMs = -Infinity;

  /** `descriptors`: how many the process may have. */
  constructor(
    app: App,
    sockets: Pick<ClientSockets, "list" | "shutDown">,
    ports: ReadonlySet<number>,
    descriptors: number,
  ) {
    this.#app = app;
    this.#sockets = sockets;
    this.#ports = ports;
    this.#descriptors = descriptors;
    this.#most = Math.floor(descriptors * (1 - RESERVE_PART));
  }

  /** Closes connections above the limits. Returns the time until the next look. */
  look(): number {
    let used = openDescriptors() ?? this.#descriptors;
    const most = this.#mostOfClient();
    this.#looked = Math.min(this.#looked, used);
    if (used <= Math.min(this.#most, Math.max(most, this.#looked * GROWTH)))
      return used > this.#most / 2 ? BUSY_LOOK_EVERY_MS : LOOK_EVERY_MS;
    const startedMs = performance.now();
    const clients = this.#clients(used);
    for (const client of clients)
      if (!client.isShared) used -= this.#close(client, client.count - most);
    used -= this.#makeRoom(clients, used - this.#most);
    this.#looked = used;
    this.#tell();
    return Math.max(BUSY_LOOK_EVERY_MS, REST_FACTOR * (performance.now() - startedMs));
  }

  /** The most connections of one client: half of what all may use. */
  #mostOfClient(): number {
    const { connectionsPerAddress } = this.#app.gateway.current.config.limits;
    const half = Math.floor(this.#most / 2);
    return connectionsPerAddress === 0 ? half : Math.min(connectionsPerAddress, half);
  }

  /** Closes connections of the clients with the most first. Returns how many. */
  #makeRoom(clients: readonly Client[], needed: number): number {
    let closed = 0;
    for (const client of clients.toSorted((one, other) => other.count - one.count)) {
      if (closed >= needed) break;
      closed += this.#close(client, needed - closed);
    }
    return closed;
  }

  /** Closes up to `count` idle connections, the longest idle first. Returns how many were closed. */
  #close(client: Client, count: number): number {
    if (count <= 0) return 0;
    client.idle.sort((one, other) => other.idleMs - one.idleMs);
    const closed = client.idle.splice(0, count);
    for (const socket of closed) this.#sockets.shutDown(socket);
    client.count -= closed.length;
    this.#closed += closed.length;
    return closed.length;
  }

  #clients(used: number): readonly Client[] {
    const { trustedProxies } = this.#app.gateway.current.config.limits;
    const busy = new Set([...this.#app.requests.inFlight].map((request) => request.peer));
    const clients = new Map<string, Client>();
    for (const socket of this.#sockets.list(this.#ports, used)) {
      const { address, peer } = socket;
      const name = networkOfClient(address);
      const isShared = isLoopback(address) || isInNetworks(address, trustedProxies);
      const client = clients.get(name) ?? { name, count: 0, idle: [], isShared };
      clients.set(name, client);
      client.count += 1;
      const isIdle = !busy.has(peer) && !socket.isSending && !socket.isReceiving;
      if (isIdle) client.idle.push(socket);
    }
    return [...clients.values()];
  }

  #tell(): void {
    const nowMs = this.#app.gateway.clock.monotonicMs();
    if (this.#closed === 0 || nowMs - this.#toldMs < TELL_EVERY_MS) return;
    this.#app.gateway.log.warn("idle_connections_closed", { count: this.#closed });
    this.#toldMs = nowMs;
    this.#closed = 0;
  }
}

/** The connections of one address, or of one /64 network of IPv6. */
interface Client {
  readonly name: string;
  /** A proxy in front, or this machine: many clients may be behind it. */
  readonly isShared: boolean;
  count: number;
  /** Without a request in flight and without unread bytes on either side. */
  idle: ClientSocket[];
}
