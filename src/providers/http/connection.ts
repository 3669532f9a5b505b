import type { Socket, SocketHandler } from "bun";
import { ConnectionError, connectError } from "./connectionError.ts";
import { connectRequest, tlsOptions, type ConnectionTarget } from "./connectionTarget.ts";
import { ResponseDecoder } from "./responseDecoder.ts";

/** Whoever has the connection at the moment: an exchange, or the pool while it is idle. */
export interface ConnectionOwner {
  /** The connection is ready for a request. */
  opened(connection: Connection): void;
  /** One network read. The bytes are the owner's to keep and to change. */
  received(connection: Connection, bytes: Buffer): void;
  /** The connection is gone, by itself. No failure: the other side closed it in good order. */
  closed(connection: Connection, failure: ConnectionError | undefined): void;
}

/** What is written at once: text, which is sent as UTF-8, or bytes in pieces. */
export type Message = string | readonly Uint8Array[];

type Stage = "dialling" | "asking the proxy" | "handshake" | "open" | "closed";

/**
 * A dial's time is counted in so many steps. A standstill of the whole process, be it long, is one of them; in the
 * others what came meanwhile is read, and the round trips that a dial still needs are made.
 */
const DIAL_STEPS = 10;

/**
 * One TCP or TLS connection, dialled on construction. After `destroy` and `close` the owner hears nothing more.
 */
export class Connection {
  owner: ConnectionOwner;
  /** It has carried a whole exchange already. */
  isReused = false;
  /** When it became idle, on the monotonic clock. */
  idleSinceMs = 0;
  readonly #target: ConnectionTarget;
  #stage: Stage = "dialling";
  #socket: Socket<Connection> | undefined;
  #dialTimer: ReturnType<typeof setTimeout> | undefined;
  #proxyDecoder: ResponseDecoder | undefined;
  /** Behind what the system has taken so far. */
  #unsent: Uint8Array[] = [];
  #isClosedInOrder = false;
  #isPaused = false;

  constructor(target: ConnectionTarget, owner: ConnectionOwner) {
    this.#target = target;
    this.owner = owner;
    this.#countDown(DIAL_STEPS);
    this.#dial();
  }

  get isOpen(): boolean {
    return this.#stage === "open";
  }

  /** Part of what was written has not been taken by the system yet. */
  get isSending(): boolean {
    return this.#unsent.length > 0;
  }

  /** Sends everything, at the pace of the other side. Once at a time. */
  write(message: Message): void {
    if (typeof message !== "string") {
      this.#unsent = [...message];
      this.#sendOn();
      return;
    }
    const writtenBytes = this.#socket?.write(message) ?? -1;
    if (writtenBytes < Buffer.byteLength(message)) {
      // On -1 the socket is closed, and its close event is on its way.
      this.#unsent = [Buffer.from(message).subarray(Math.max(writtenBytes, 0))];
    }
  }

  #sendOn(): void {
    for (let piece = this.#unsent[0]; piece !== undefined; piece = this.#unsent[0]) {
      const writtenBytes = Math.max(this.#socket?.write(piece) ?? -1, 0);
      if (writtenBytes < piece.length) {
        this.#unsent[0] = piece.subarray(writtenBytes);
        return;
      }
      this.#unsent.shift();
    }
  }

  /** Stops reading, so that the other side has to wait once the system's buffers are full. */
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

  /** Closes at once, at any stage; what was not sent is lost. */
  destroy(): void {
    if (this.#leave()) this.#socket?.terminate();
  }

  /** Closes in good order. For connections on which nothing is under way. */
  close(): void {
    if (this.#leave()) {
      // Not `end`: over TLS it waits for the other side, which may never answer.
      this.#socket?.close();
    }
  }

  /** False if it was closed before. */
  #leave(): boolean {
    const wasOpen = this.#stage !== "closed";
    this.#stage = "closed";
    this.#unsent = [];
    clearTimeout(this.#dialTimer);
    return wasOpen;
  }

  #fail(failure: ConnectionError | undefined): void {
    if (this.#stage !== "closed") {
      this.destroy();
      this.owner.closed(this, failure);
    }
  }

  #countDown(stepsLeft: number): void {
    this.#dialTimer = setTimeout(() => {
      if (stepsLeft > 1) this.#countDown(stepsLeft - 1);
      else this.#fail(new ConnectionError("timeout", "the connection was not ready in time"));
    }, this.#target.timeoutMs / DIAL_STEPS);
  }

  #dial(): void {
    const { proxy, isSecure } = this.#target;
    const { host, port } = proxy ?? this.#target;
    const direct = isSecure && proxy === undefined ? { tls: tlsOptions(this.#target) } : {};
    const options = { hostname: host, port, data: this, socket: SOCKET_HANDLERS, ...direct };
    // An unusable certificate authority is thrown, all else rejects.
    Promise.try(() => Bun.connect<Connection>(options)).catch((error: unknown) => {
      this.#fail(connectError(error));
    });
  }

  #ready(): void {
    this.#stage = "open";
    clearTimeout(this.#dialTimer);
    this.owner.opened(this);
  }

  /** A socket came about. With TLS this is before the handshake. */
  onOpen(socket: Socket<Connection>): void {
    if (this.#stage === "closed") {
      // A dial cannot be called off in Bun 1.4.5; what came of one that was given up is closed here.
      socket.terminate();
      return;
    }
    if (this.#stage !== "dialling") return;
    this.#socket = socket;
    if (!this.#target.isSecure) {
      this.#ready();
    } else if (this.#target.proxy === undefined) {
      this.#stage = "handshake";
    } else {
      this.#stage = "asking the proxy";
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
    // The socket below a tunnelled TLS connection goes on reporting its encrypted bytes.
    if (socket !== this.#socket) return;
    if (this.#stage === "open") {
      this.owner.received(this, bytes);
    } else if (this.#stage === "asking the proxy" && this.#proxyDecoder !== undefined) {
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
    if (socket === this.#socket) this.#sendOn();
  }

  onEnd(socket: Socket<Connection>): void {
    this.#isClosedInOrder ||= socket === this.#socket;
  }

  onClose(socket: Socket<Connection>, error: Error | undefined): void {
    if (socket !== this.#socket) return;
    if (this.#stage === "handshake") {
      this.#fail(new ConnectionError("tls", "the TLS handshake failed", { cause: error }));
    } else if (this.#stage === "asking the proxy") {
      this.#fail(new ConnectionError("proxy", "the proxy closed the connection", { cause: error }));
    } else if (this.#isClosedInOrder && error === undefined) {
      this.#fail(undefined);
    } else {
      this.#fail(new ConnectionError("closed", "the connection was reset", { cause: error }));
    }
  }
}

/** Shared by all sockets; the connection travels as the socket's data. */
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
