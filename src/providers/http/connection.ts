import type { Socket, SocketHandler } from "bun";
import { ConnectionError, connectError } from "./connectionError.ts";
import { connectRequest, tlsOptions, type ConnectionTarget } from "./connectionTarget.ts";
import { ResponseDecoder } from "./responseDecoder.ts";

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

type Stage = "connecting" | "proxy request" | "handshake" | "open" | "closed";

/**
 * The connect timeout counts this many timer steps. If the whole process stands still, that is only one step; in the
 * other steps arrived data is read and the remaining round trips happen.
 */
const CONNECT_STEPS = 10;

/** One TCP or TLS connection, opened by its constructor. The owner gets no calls after `destroy` or `close`. */
export class Connection {
  owner: ConnectionOwner;
  /** It has carried a complete exchange. */
  isReused = false;
  /** On the monotonic clock. */
  idleSinceMs = 0;
  readonly #target: ConnectionTarget;
  #stage: Stage = "connecting";
  #socket: Socket<Connection> | undefined;
  #connectTimer: ReturnType<typeof setTimeout> | undefined;
  #proxyDecoder: ResponseDecoder | undefined;
  /** What the system did not take yet. */
  #unsent: Uint8Array[] = [];
  #isClosedInOrder = false;
  #isPaused = false;

  constructor(target: ConnectionTarget, owner: ConnectionOwner) {
    this.#target = target;
    this.owner = owner;
    this.#startConnectTimer(CONNECT_STEPS);
    this.#connect();
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
    const writtenBytes = this.#socket?.write(message) ?? -1;
    if (writtenBytes < Buffer.byteLength(message)) {
      // On -1 the socket is closed, and its close event is on its way.
      this.#unsent = [Buffer.from(message).subarray(Math.max(writtenBytes, 0))];
    }
  }

  #sendUnsent(): void {
    for (let piece = this.#unsent[0]; piece !== undefined; piece = this.#unsent[0]) {
      const writtenBytes = Math.max(this.#socket?.write(piece) ?? -1, 0);
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
      this.#socket?.pause();
    }
  }

  resume(): void {
    if (this.#isPaused) {
      this.#isPaused = false;
      this.#socket?.resume();
    }
  }

  /** Closes at once at any stage. Unsent data is lost. */
  destroy(): void {
    if (this.#markClosed()) this.#socket?.terminate();
  }

  /** Closes in order. Only for connections without an exchange. */
  close(): void {
    if (this.#markClosed()) {
      // Not `end`: over TLS it waits for the other side, which may never answer.
      this.#socket?.close();
    }
  }

  /** False if it was closed before. */
  #markClosed(): boolean {
    const wasOpen = this.#stage !== "closed";
    this.#stage = "closed";
    this.#unsent = [];
    clearTimeout(this.#connectTimer);
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

  #connect(): void {
    const { proxy, isSecure } = this.#target;
    const { host, port } = proxy ?? this.#target;
    const direct = isSecure && proxy === undefined ? { tls: tlsOptions(this.#target) } : {};
    const options = { hostname: host, port, data: this, socket: SOCKET_HANDLERS, ...direct };
    // An invalid certificate authority throws; other errors reject.
    Promise.try(() => Bun.connect<Connection>(options)).catch((error: unknown) => {
      this.#fail(connectError(error));
    });
  }

  #ready(): void {
    this.#stage = "open";
    clearTimeout(this.#connectTimer);
    this.owner.opened(this);
  }

  /** With TLS this is before the handshake. */
  onOpen(socket: Socket<Connection>): void {
    if (this.#stage === "closed") {
      // Bun 1.4.5 cannot cancel a connect, so a late socket is closed here.
      socket.terminate();
      return;
    }
    if (this.#stage !== "connecting") return;
    this.#socket = socket;
    if (!this.#target.isSecure) {
      this.#ready();
    } else if (this.#target.proxy === undefined) {
      this.#stage = "handshake";
    } else {
      this.#stage = "proxy request";
      this.#proxyDecoder = new ResponseDecoder({ isBodyless: true });
      this.write(connectRequest(this.#target));
    }
  }

  onHandshake(socket: Socket<Connection>, hasSucceeded: boolean, problem: Error | null): void {
    if (this.#stage !== "handshake" || socket !== this.#socket) return;
    if (hasSucceeded && socket.authorized && problem === null) {
      this.#ready();
    } else {
      const options = { cause: problem };
      this.#fail(new ConnectionError("tls", "the certificate could not be verified", options));
    }
  }

  onData(socket: Socket<Connection>, bytes: Buffer): void {
    // The socket below a tunnelled TLS connection also reports its encrypted bytes.
    if (socket !== this.#socket) return;
    if (this.#stage === "open") {
      this.owner.received(this, bytes);
    } else if (this.#stage === "proxy request" && this.#proxyDecoder !== undefined) {
      this.#readProxyAnswer(socket, this.#proxyDecoder, bytes);
    }
  }

  #readProxyAnswer(socket: Socket<Connection>, decoder: ResponseDecoder, bytes: Buffer): void {
    decoder.push(bytes);
    const status = decoder.head?.status;
    const hasSucceeded = status !== undefined && status < 300 && !decoder.hasSurplus;
    if (decoder.violation !== undefined || (status !== undefined && !hasSucceeded)) {
      const answer = status === undefined ? "no HTTP response" : `status ${status}`;
      this.#fail(new ConnectionError("proxy", `the proxy answered the CONNECT with ${answer}`));
    } else if (hasSucceeded) {
      this.#proxyDecoder = undefined;
      this.#stage = "handshake";
      const upgrade = { tls: tlsOptions(this.#target), data: this, socket: SOCKET_HANDLERS };
      [, this.#socket] = socket.upgradeTLS<Connection>(upgrade);
    }
  }

  onDrain(socket: Socket<Connection>): void {
    if (socket === this.#socket) this.#sendUnsent();
  }

  onEnd(socket: Socket<Connection>): void {
    this.#isClosedInOrder ||= socket === this.#socket;
  }

  onClose(socket: Socket<Connection>, error: Error | undefined): void {
    if (socket !== this.#socket) return;
    if (this.#stage === "handshake") {
      this.#fail(new ConnectionError("tls", "the TLS handshake failed", { cause: error }));
    } else if (this.#stage === "proxy request") {
      this.#fail(new ConnectionError("proxy", "the proxy closed the connection", { cause: error }));
    } else if (this.#isClosedInOrder && error === undefined) {
      this.#fail(undefined);
    } else {
      this.#fail(new ConnectionError("closed", "the connection was reset", { cause: error }));
    }
  }
}

/** One object for all sockets. The connection is the socket's data. */
const SOCKET_HANDLERS: SocketHandler<Connection> = {
  open: (socket) => socket.data.onOpen(socket),
  handshake: (socket, hasSucceeded, problem) =>
    socket.data.onHandshake(socket, hasSucceeded, problem),
  data: (socket, bytes) => socket.data.onData(socket, bytes),
  drain: (socket) => socket.data.onDrain(socket),
  end: (socket) => socket.data.onEnd(socket),
  close: (socket, error) => socket.data.onClose(socket, error),
  // The close event follows and carries the failure; without this handler Bun prints the error.
  error: () => {},
};
