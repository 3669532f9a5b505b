import type { Socket } from "bun";
import { readFileSync } from "node:fs";

/** One connection that a raw server accepted, to be driven byte by byte. */
export interface RawPeer {
  /** 0 for the first connection of the server, and so on. */
  readonly index: number;
  /** Settles when either side has closed the connection. */
  readonly closed: Promise<void>;
  /** All bytes that `request` has not taken yet. */
  readonly unread: Buffer;
  /** The TLS session is that of an earlier connection. Only after the handshake. */
  readonly isResumed: boolean;
  /** The text of the next request, complete by its content-length. Rejects if the client closes. */
  request(): Promise<string>;
  /** Settles when the system has taken all bytes; rejects if the client closes before. */
  send(bytes: string | Uint8Array): Promise<void>;
  /** Receives all bytes that are sent from now on. */
  onSend: ((bytes: string | Uint8Array) => void) | undefined;
  /** All further and all unread bytes go to `sink` and are not kept. */
  relayTo(sink: (bytes: Buffer) => void): void;
  /** Stops reading, so that the client's writes stall. */
  pause(): void;
  resume(): void;
  /** Closes in good order. */
  fin(): void;
  /** Closes with a TCP reset. */
  reset(): void;
}

export interface RawServer {
  readonly port: number;
  /** Connections accepted so far. */
  readonly peers: readonly RawPeer[];
  /** Connections open now. */
  readonly openCount: number;
  stop(): void;
}

export type CertificateName = "localhost" | "otherHost" | "expired" | "selfSigned";

/** The authority that signed all certificates of the tests but `selfSigned`. */
export function testAuthority(): string {
  return readFileSync(new URL("../certificates/authority.pem", import.meta.url), "utf8");
}

export function testCertificate(name: CertificateName): { key: string; cert: string } {
  return {
    key: readFileSync(new URL("../certificates/server.key", import.meta.url), "utf8"),
    cert: readFileSync(new URL(`../certificates/${name}.pem`, import.meta.url), "utf8"),
  };
}

/**
 * A raw TCP server on 127.0.0.1: `script` runs for each connection and sends what it likes.
 * Rejections of a script are dropped: in many tests the client disconnects early.
 */
export function startRawServer(
  script: (peer: RawPeer) => Promise<void> | void,
  options: { certificate?: CertificateName; hostname?: string; port?: number } = {},
): RawServer {
  const peers: ScriptedPeer[] = [];
  const { certificate, hostname = "127.0.0.1", port = 0 } = options;
  const listener = Bun.listen<ScriptedPeer>({
    hostname,
    port,
    ...(certificate === undefined ? {} : { tls: testCertificate(certificate) }),
    socket: {
      open: (socket) => {
        const peer = new ScriptedPeer(socket, peers.length);
        socket.data = peer;
        peers.push(peer);
        Promise.try(script, peer).catch(() => {});
      },
      data: (socket, bytes) => socket.data.received(bytes),
      drain: (socket) => socket.data.flush(),
      close: (socket) => socket.data.gone(),
      error: () => {},
    },
  });
  return {
    port: listener.port,
    peers,
    get openCount() {
      return peers.filter((peer) => peer.isOpen).length;
    },
    stop: () => listener.stop(true),
  };
}

class ScriptedPeer implements RawPeer {
  readonly index: number;
  readonly closed: Promise<void>;
  isOpen = true;
  unread: Buffer = Buffer.alloc(0);
  onSend: RawPeer["onSend"];
  readonly #socket: Socket<ScriptedPeer>;
  readonly #closing = Promise.withResolvers<void>();
  #unsent: Uint8Array | undefined;
  #sink: ((bytes: Buffer) => void) | undefined;
  #progress = Promise.withResolvers<void>();

  constructor(socket: Socket<ScriptedPeer>, index: number) {
    this.#socket = socket;
    this.index = index;
    this.closed = this.#closing.promise;
  }

  get isResumed(): boolean {
    return this.#socket.isSessionReused();
  }

  async request(): Promise<string> {
    for (;;) {
      const text = this.unread.toString("latin1");
      const headEnd = text.indexOf("\r\n\r\n") + 4;
      const length = Number(/content-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1] ?? 0);
      if (headEnd >= 4 && this.unread.length >= headEnd + length) {
        const request = this.unread.subarray(0, headEnd + length).toString();
        this.unread = this.unread.subarray(headEnd + length);
        return request;
      }
      await this.#nextEvent();
    }
  }

  async send(bytes: string | Uint8Array): Promise<void> {
    if (this.isOpen) this.onSend?.(bytes);
    const added = typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes;
    this.#unsent = this.#unsent === undefined ? added : Buffer.concat([this.#unsent, added]);
    this.flush();
    while (this.#unsent !== undefined) {
      await this.#nextEvent();
    }
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  fin(): void {
    this.#socket.end();
  }

  reset(): void {
    this.#socket.terminate();
  }

  relayTo(sink: (bytes: Buffer) => void): void {
    this.#sink = sink;
    sink(this.unread);
    this.unread = Buffer.alloc(0);
  }

  received(bytes: Buffer): void {
    if (this.#sink !== undefined) {
      this.#sink(bytes);
      return;
    }
    this.unread = Buffer.concat([this.unread, bytes]);
    this.#wake();
  }

  flush(): void {
    if (this.#unsent === undefined) {
      return;
    }
    const writtenBytes = Math.max(this.#socket.write(this.#unsent), 0);
    this.#unsent =
      writtenBytes < this.#unsent.length ? this.#unsent.subarray(writtenBytes) : undefined;
    this.#wake();
  }

  gone(): void {
    this.isOpen = false;
    this.#closing.resolve();
    this.#wake();
  }

  async #nextEvent(): Promise<void> {
    if (!this.isOpen) {
      throw new Error("the client closed the connection");
    }
    await this.#progress.promise;
  }

  #wake(): void {
    const { resolve } = this.#progress;
    this.#progress = Promise.withResolvers();
    resolve();
  }
}
