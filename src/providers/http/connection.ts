import type { Socket, SocketHandler } from "bun";
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import { isQuiet } from "../../lib/libc.ts";
import { ConnectionError, connectError, handshakeError } from "./connectionError.ts";
import {
  isTunnelled,
  nearestServer,
  PROBE_AFTER_MS,
  tlsOptions,
  type ConnectionTarget,
  type NearestServer,
  type TunnelTarget,
} from "./connectionTarget.ts";

/** The user of a connection: an exchange, or the pool while the connection is idle. */
export interface ConnectionOwner {
  /** The connection is ready for a request. */
  opened(connection: Connection): void;
  /** One network read. The owner may keep and change the bytes. */
  received(connection: Connection, bytes: Buffer): void;
  /** The connection closed by itself. Without a failure the other side closed it in order. */
  closed(connection: Connection, failure: ConnectionError | undefined): void;
}

/** Text, which is sent as UTF-8, or bytes in pieces. */
export type Message = string | readonly Uint8Array[];

type Stage = "connecting" | "handshake" | "open" | "closed";

/**
 * The connect timeout counts this many timer steps. If the whole process stands still, that is only one step; in the
 * other steps arrived data is read and the remaining round trips happen.
 */
const CONNECT_STEPS = 10;

/** A session is not offered for longer, so that certificates are verified at least so often. */
const SESSION_MS_MAX = 60 * 60_000;

/** Shortens a TLS handshake: the server proves that it is the one whose certificate was verified. */
interface TlsSession {
  readonly ticket: Buffer;
  /** When the certificate was verified, on the monotonic clock. */
  readonly verifiedAtMs: number;
}

/** The newest session of each target, for connections without a proxy. */
const sessions = new WeakMap<ConnectionTarget, TlsSession>();

/**
 * One TCP or TLS connection, with or without a proxy, opened by its constructor. The owner gets no calls after `destroy` or
 * `close`.
 */
export class Connection implements WireEvents {
  owner: ConnectionOwner;
  /** The connection has carried a complete exchange. */
  isReused = false;
  /** When the connection became idle, on the monotonic clock. */
  idleSinceMs = 0;
  /** When the connection became ready, on the monotonic clock. */
  openedAtMs = 0;
  readonly #target: ConnectionTarget;
  #stage: Stage = "connecting";
  #wire: Wire | undefined;
  /** Ends a tunnel that is not open yet. */
  #tunnelling: AbortController | undefined;
  #connectTimer: ReturnType<typeof setTimeout> | undefined;
  /** Bytes that the system did not take yet. */
  #unsent: Uint8Array[] = [];
  #isClosedInOrder = false;
  #isPaused = false;
  #verifiedAtMs = 0;

  constructor(target: ConnectionTarget, owner: ConnectionOwner) {
    this.#target = target;
    this.owner = owner;
    this.#startConnectTimer(CONNECT_STEPS);
    if (isTunnelled(target)) void this.#openTunnel(target);
    else void this.#connect();
  }

  /** The system says that nothing has arrived that was not read, and that the other side has not closed. */
  get isQuiet(): boolean {
    const descriptor = this.#wire?.fd;
    return this.isOpen && descriptor !== undefined && isQuiet(descriptor);
  }

  get isOpen(): boolean {
    return this.#stage === "open";
  }

  /** The system has not taken all written bytes yet. */
  get isSending(): boolean {
    return this.#unsent.length > 0;
  }

  /** Sends everything at the speed of the other side. One write at a time. */
  write(message: Message): void {
    if (typeof message !== "string") {
      this.#unsent = [...message];
      this.#sendUnsent();
      return;
    }
    const writtenBytes = this.#wire?.write(message) ?? -1;
    if (writtenBytes < Buffer.byteLength(message)) {
      // On -1 the socket is closed, and its close event is on its way.
      this.#unsent = [Buffer.from(message).subarray(Math.max(writtenBytes, 0))];
    }
  }

  #sendUnsent(): void {
    for (let piece = this.#unsent[0]; piece !== undefined; piece = this.#unsent[0]) {
      const writtenBytes = Math.max(this.#wire?.write(piece) ?? -1, 0);
      if (writtenBytes < piece.length) {
        this.#unsent[0] = piece.subarray(writtenBytes);
        return;
      }
      this.#unsent.shift();
    }
  }

  /** Stops reading. The sender waits once the system's buffers are full. */
  pause(): void {
    if (!this.#isPaused) {
      this.#isPaused = true;
      this.#wire?.pause();
    }
  }

  resume(): void {
    if (this.#isPaused) {
      this.#isPaused = false;
      this.#wire?.resume();
    }
  }

  /** Closes at once at any stage. Unsent data is lost. */
  destroy(): void {
    if (this.#markClosed()) this.#wire?.terminate();
  }

  /** Closes in order. Only for connections without an exchange. */
  close(): void {
    if (this.#markClosed()) {
      // Not `end`: over TLS it waits for the other side, which may never answer.
      this.#wire?.close();
    }
  }

  /** False if it was closed before. */
  #markClosed(): boolean {
    const wasOpen = this.#stage !== "closed";
    this.#stage = "closed";
    this.#unsent = [];
    this.#tunnelling?.abort();
    this.#stopConnectTimer();
    return wasOpen;
  }

  #fail(failure: ConnectionError | undefined): void {
    if (this.#stage !== "closed") {
      this.destroy();
      this.owner.closed(this, failure);
    }
  }

  #startConnectTimer(stepsLeft: number): void {
    this.#connectTimer = setTimeout(() => {
      if (stepsLeft > 1) this.#startConnectTimer(stepsLeft - 1);
      else this.#fail(new ConnectionError("timeout", "the connection was not ready in time"));
    }, this.#target.timeoutMs / CONNECT_STEPS);
  }

  /** A stopped timer takes memory too. */
  #stopConnectTimer(): void {
    clearTimeout(this.#connectTimer);
    this.#connectTimer = undefined;
  }

  async #connect(): Promise<void> {
    const server = nearestServer(this.#target);
    try {
      await this.#dial(server, server.host);
    } catch (error) {
      const failure = connectError(error);
      const isUnreached = failure.code === "refused" || failure.code === "unreachable";
      if (!isUnreached || !(await this.#dialAnew(server))) this.#fail(failure);
    }
  }

  /** An invalid certificate authority throws; other errors reject. */
  async #dial({ host, port, isSecure, ca }: NearestServer, hostname: string): Promise<void> {
    const tls = isSecure ? { tls: tlsOptions({ host, ca }) } : {};
    await Bun.connect<Connection>({ hostname, port, data: this, socket: SOCKET_HANDLERS, ...tls });
  }

  /** Bun 1.4.5 keeps the addresses of a name for 30 s, also those that refuse. A server that was moved has others. */
  async #dialAnew(server: NearestServer): Promise<boolean> {
    if (isIP(server.host) !== 0 || this.#stage === "closed") return false;
    const addresses = await lookup(server.host, { all: true }).catch(() => []);
    for (const { address } of addresses) {
      try {
        await this.#dial(server, address);
        return true;
      } catch {
        // The first error is told: it is that of the name.
      }
    }
    return false;
  }

  async #openTunnel(target: TunnelTarget): Promise<void> {
    const { signal } = (this.#tunnelling = new AbortController());
    try {
      // Loaded on demand, because most gateways need no proxy.
      const { openTunnel } = await import("./tunnel.ts");
      this.#wire = wireOf(await openTunnel(target, signal), this);
    } catch (error) {
      this.#fail(connectError(error));
      return;
    }
    if (this.#stage === "closed") this.#wire.terminate();
    else this.#ready();
  }

  #ready(): void {
    this.#stage = "open";
    this.openedAtMs = performance.now();
    this.#stopConnectTimer();
    this.owner.opened(this);
  }

  /** With TLS this is before the handshake. */
  onOpen(socket: Socket<Connection>): void {
    if (this.#stage === "closed") {
      // Bun 1.4.5 cannot cancel a connect, so a late socket is closed here.
      socket.terminate();
      return;
    }
    this.#wire = socket;
    socket.setKeepAlive(true, PROBE_AFTER_MS);
    if (nearestServer(this.#target).isSecure) {
      this.#stage = "handshake";
      this.#offerSession(socket);
    } else {
      this.#ready();
    }
  }

  #offerSession(socket: Socket<Connection>): void {
    const session = sessions.get(this.#target);
    const nowMs = performance.now();
    this.#verifiedAtMs = nowMs;
    if (session === undefined || nowMs - session.verifiedAtMs > SESSION_MS_MAX) return;
    this.#verifiedAtMs = session.verifiedAtMs;
    socket.setSession(session.ticket);
  }

  onHandshake(socket: Socket<Connection>, isVerified: boolean, problem: Error | null): void {
    if (this.#stage !== "handshake") return;
    if (!isVerified || problem !== null) {
      this.#failHandshake(problem);
      return;
    }
    if (!socket.isSessionReused()) this.#verifiedAtMs = performance.now();
    this.#ready();
  }

  /** Comes after the handshake, and more than once. */
  onSession(ticket: Buffer): void {
    if (this.#stage !== "open") return;
    sessions.set(this.#target, { ticket, verifiedAtMs: this.#verifiedAtMs });
  }

  /** The handshake is with the nearest server: with a proxy that gets the requests themselves, it is the proxy's. */
  #failHandshake(cause: Error | null | undefined): void {
    const isProxy = this.#target.proxy !== undefined;
    this.#fail(handshakeError(isProxy ? "proxy" : "target", cause));
  }

  onData(bytes: Buffer): void {
    if (this.#stage === "open") this.owner.received(this, bytes);
  }

  onDrain(): void {
    this.#sendUnsent();
  }

  onEnd(): void {
    this.#isClosedInOrder = true;
  }

  onClose(error: Error | undefined): void {
    if (this.#stage === "handshake") this.#failHandshake(error);
    else if (this.#isClosedInOrder && error === undefined) this.#fail(undefined);
    else this.#fail(new ConnectionError("closed", "the connection was reset", { cause: error }));
  }
}

/** The types of Bun 1.4.5 do not have `session`. `node:tls` uses it, too. */
interface Handlers extends SocketHandler<Connection> {
  session(socket: Socket<Connection>, ticket: Buffer): void;
}

/** One object for all sockets. The connection is the socket's data. */
const SOCKET_HANDLERS: Handlers = {
  open: (socket) => socket.data.onOpen(socket),
  handshake: (socket, hasSucceeded, problem) =>
    socket.data.onHandshake(socket, hasSucceeded && socket.authorized, problem),
  session: (socket, ticket) => socket.data.onSession(ticket),
  data: (socket, bytes) => socket.data.onData(bytes),
  drain: (socket) => socket.data.onDrain(),
  end: (socket) => socket.data.onEnd(),
  close: (socket, error) => socket.data.onClose(error),
  // The close event follows and carries the failure; without this handler Bun prints the error.
  error: () => {},
};

/** What a connection uses of its socket. A socket of Bun is a `Wire`. */
interface Wire {
  /** The descriptor of the socket. A tunnel has none. */
  readonly fd?: number;
  /** Returns the bytes that were taken: fewer than given, or -1, if the socket is full or closed. */
  write(data: string | Uint8Array): number;
  pause(): unknown;
  resume(): unknown;
  terminate(): void;
  /** Closes in order. */
  close(): void;
}

interface WireEvents {
  onData(bytes: Buffer): void;
  /** The wire can take more bytes. */
  onDrain(): void;
  /** The other side ended the connection in order. */
  onEnd(): void;
  onClose(error: Error | undefined): void;
}

/** A stream takes pieces of this size at most, because it keeps each piece until it is sent. */
const PIECE_BYTES_MAX = 65_536;

/** A tunnel as the wire of a connection. */
function wireOf(tunnel: Duplex, events: WireEvents): Wire {
  let failure: Error | undefined;
  tunnel.on("data", (bytes: Buffer) => events.onData(bytes));
  tunnel.on("drain", () => events.onDrain());
  tunnel.once("end", () => events.onEnd());
  tunnel.on("error", (error) => {
    failure = error;
  });
  tunnel.once("close", () => events.onClose(failure));
  const end = (): void => void tunnel.destroy();
  return {
    write(data) {
      if (tunnel.destroyed) return -1;
      const bytes = typeof data === "string" ? Buffer.from(data) : data;
      let taken = 0;
      while (taken < bytes.length && !tunnel.writableNeedDrain) {
        const piece = bytes.subarray(taken, taken + PIECE_BYTES_MAX);
        tunnel.write(piece);
        taken += piece.length;
      }
      return taken;
    },
    pause: () => tunnel.pause(),
    resume: () => tunnel.resume(),
    terminate: end,
    close: end,
  };
}
