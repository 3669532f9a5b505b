import { connect, createServer, type Server, type Socket } from "node:net";
import { ClientMessages, ServerMessages } from "./postgresMessages.ts";

/** A proxy between a client and a server on 127.0.0.1 that breaks connections when a test says so. */
export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  /** Connections that clients have open now. */
  readonly open: number;
  /** The same URL with the proxy in the place of the server. */
  through(url: string): string;
  /** Forwards all bytes, also those that were held, accepts connections, and forgets a trap. It is so from the start. */
  pass(): void;
  /** Accepts connections and holds all bytes of both sides, as a network that loses every packet does. */
  hang(): void;
  /** Loses all bytes of the open connections from now on, and does not tell their ends. New ones pass. */
  strand(): void;
  /** Forwards the bytes of the server this much later, in order. 0: at once. */
  delay(ms: number): void;
  /** Resets all open connections. */
  reset(): void;
  /** Resets each open connection when its client sends something, as a balancer does that has forgotten an idle one. */
  expire(): void;
  /** Refuses new connections until `pass`. Open ones stay. */
  refuse(): Promise<void>;
  /**
   * For PostgreSQL: the next COMMIT of any connection reaches the server and succeeds, its reply is lost, and the connection
   * is reset. Resolves then.
   */
  dropReplyAfterCommit(): Promise<void>;
  /** For PostgreSQL: the next COMMIT never reaches the server, and the connection is reset. Resolves then. */
  dropCommit(): Promise<void>;
  /** The same, but the connection stays open and passes nothing more: its transaction does not end. */
  swallowCommit(): Promise<void>;
}

interface Trap {
  readonly at: "commit" | "reply" | "transaction";
  readonly sprung: () => void;
}

/** Starts a proxy before the server on this port. */
export async function startTcpProxy(serverPort: number): Promise<TcpProxy> {
  const links = new Set<Link>();
  const state: State = { isHanging: false, delayMs: 0, trap: undefined };
  let listener: Server | undefined;
  const listen = async (port: number): Promise<number> => {
    listener = createServer({ pauseOnConnect: true, noDelay: true }, (client) => {
      const link = new Link(client, serverPort, state, () => links.delete(link));
      links.add(link);
    });
    const started = listener;
    await new Promise<void>((resolve, reject) => {
      started.once("error", reject).listen(port, "127.0.0.1", resolve);
    });
    const address = started.address();
    return typeof address === "object" && address !== null ? address.port : port;
  };
  const port = await listen(0);
  const refuse = async (): Promise<void> => {
    // Resolves only when all connections have ended, but listens no more at once.
    listener?.close();
    listener = undefined;
  };
  const setTrap = async (at: Trap["at"]): Promise<void> =>
    await new Promise((resolve) => {
      state.trap = { at, sprung: resolve };
    });
  const reset = (): void => {
    for (const link of links) link.cut();
  };
  return {
    port,
    get open() {
      return links.size;
    },
    through(url) {
      const changed = new URL(url);
      changed.port = String(port);
      return changed.href;
    },
    pass() {
      state.isHanging = false;
      state.trap = undefined;
      for (const link of links) link.release();
      if (listener === undefined) void listen(port);
    },
    hang() {
      state.isHanging = true;
    },
    strand() {
      for (const link of links) link.isStranded = true;
    },
    delay(ms) {
      state.delayMs = ms;
    },
    reset,
    expire() {
      for (const link of links) link.isExpired = true;
    },
    refuse,
    dropReplyAfterCommit: () => setTrap("reply"),
    dropCommit: () => setTrap("commit"),
    swallowCommit: () => setTrap("transaction"),
    async [Symbol.asyncDispose]() {
      await refuse();
      reset();
    },
  };
}

interface State {
  isHanging: boolean;
  delayMs: number;
  trap: Trap | undefined;
}

/** One connection of a client and the one to the server that belongs to it. */
class Link {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #state: State;
  readonly #asked = new ClientMessages();
  /** While the reply to a COMMIT is watched for. */
  #replies: ServerMessages | undefined;
  #trap: Trap | undefined;
  readonly #swallowed: Buffer[] = [];
  readonly #held: { readonly to: Socket; readonly bytes: Buffer }[] = [];
  isStranded = false;
  isExpired = false;
  /** When the last delayed bytes of the server leave. */
  #lastLeavesMs = 0;

  constructor(client: Socket, serverPort: number, state: State, onEnd: () => void) {
    this.#client = client;
    this.#server = connect({ host: "127.0.0.1", port: serverPort, noDelay: true });
    this.#state = state;
    for (const [from, to] of [
      [this.#client, this.#server],
      [this.#server, this.#client],
    ] as const) {
      from.on("data", (bytes: Buffer) => {
        if (this.isStranded) return;
        if (this.isExpired && from === client) return this.cut();
        if (state.isHanging) this.#held.push({ to, bytes });
        else if (from === this.#server) this.#forwardLater(to, bytes);
        else this.#forward(to, bytes);
      });
      from.on("error", () => this.cut());
      from.on("close", () => {
        onEnd();
        // A network that hangs does not tell the end of a connection either.
        if ((!state.isHanging && !this.isStranded) || from === client) to.end();
      });
    }
    client.resume();
  }

  release(): void {
    for (const { to, bytes } of this.#held.splice(0)) this.#forward(to, bytes);
    if (this.#server.destroyed) this.#client.end();
  }

  /** Ends both sides at once. The client sees a reset. */
  cut(): void {
    this.#client.resetAndDestroy();
    this.#server.destroy();
  }

  #forwardLater(to: Socket, bytes: Buffer): void {
    const nowMs = performance.now();
    this.#lastLeavesMs = Math.max(nowMs + this.#state.delayMs, this.#lastLeavesMs);
    if (this.#lastLeavesMs <= nowMs) this.#forward(to, bytes);
    else setTimeout(() => this.#forward(to, bytes), this.#lastLeavesMs - nowMs);
  }

  #forward(to: Socket, bytes: Buffer): void {
    if (to === this.#server && this.#asked.commits(bytes) && this.#state.trap !== undefined) {
      const trap = this.#state.trap;
      this.#state.trap = undefined;
      if (trap.at !== "reply") {
        if (trap.at === "commit") this.cut();
        else this.isStranded = true;
        trap.sprung();
        return;
      }
      this.#trap = trap;
      this.#replies = new ServerMessages();
    }
    if (to === this.#client && this.#replies !== undefined) this.#watch(bytes);
    else to.write(bytes);
  }

  #watch(bytes: Buffer): void {
    this.#swallowed.push(bytes);
    const outcome = this.#replies?.outcome(bytes);
    if (outcome === "committed") {
      this.cut();
      this.#trap?.sprung();
    } else if (outcome === "failed") {
      // Nothing was committed: the trap waits for the next COMMIT.
      this.#replies = undefined;
      this.#state.trap = this.#trap;
      this.#client.write(Buffer.concat(this.#swallowed.splice(0)));
    }
  }
}
