import { Connection, type ConnectionOwner } from "./connection.ts";
import type { ConnectionTarget } from "./connectionTarget.ts";

/**
 * How long a connection is kept for the next request. Below the idle time of the usual servers in front
 * of providers (AWS load balancers 60 s, nginx 75 s, Cloudflare 400 s), so that they rarely close one
 * under a request; the few that close after 5 s (Node, uvicorn) are covered by the retry of an exchange.
 */
const IDLE_MS_MAX = 30_000;

/** Idle connections kept for one provider. */
const IDLE_CONNECTIONS_MAX = 512;

/**
 * How long no connection is kept after a byte that nobody asked for: what sends one answer too many may next send it
 * as the answer to somebody else's question. Each further time it is twice as long, up to the maximum.
 */
const DISTRUST_MS = 5 * 60_000;
const DISTRUST_MS_MAX = 60 * 60_000;

/** The keep-alive connections to one target. There is no limit on those in use. */
export class ConnectionPool implements ConnectionOwner {
  readonly #target: ConnectionTarget;
  readonly #onUnsolicitedData: (distrustMs: number) => void;
  readonly #idleMsMax: number;
  /** The longest idle first; the last is taken first, so that surplus ones grow old and go. */
  readonly #idle: Connection[] = [];
  #sweepTimer: ReturnType<typeof setTimeout> | undefined;
  /** Leased in this turn of the event loop. */
  #leased: Connection[] = [];
  /** Leased in the one before: they are ready in the next. */
  #leasedBefore: Connection[] = [];
  #isClosed = false;
  #distrustMs = DISTRUST_MS;
  #distrustedUntilMs = 0;

  /** `onUnsolicitedData` is told for how long no connection is kept, each time that this begins. */
  constructor(
    target: ConnectionTarget,
    onUnsolicitedData: (distrustMs: number) => void = () => {},
    idleMsMax = IDLE_MS_MAX,
  ) {
    this.#target = target;
    this.#onUnsolicitedData = onUnsolicitedData;
    this.#idleMsMax = idleMsMax;
  }

  get idleCount(): number {
    return this.#idle.length;
  }

  /**
   * An idle connection, else a new one. It reports `opened` to its owner when a request may be written:
   * a new one after its dial, an idle one after the event loop has looked at the network once more. Bytes
   * or a close that lay unseen in the system's buffers, as after a busy spell of this process, are thereby
   * seen before the request is written and cannot be taken for its answer.
   */
  lease(owner: ConnectionOwner): Connection {
    const connection = this.#idle.pop();
    if (connection === undefined) return this.dial(owner);
    connection.owner = owner;
    if (this.#leased.length === 0 && this.#leasedBefore.length === 0) setImmediate(this.#turn);
    this.#leased.push(connection);
    return connection;
  }

  dial(owner: ConnectionOwner): Connection {
    return new Connection(this.#target, owner);
  }

  /** Takes back a connection whose exchange has ended exactly. */
  release(connection: Connection): void {
    const isUnwanted = this.#isClosed || performance.now() < this.#distrustedUntilMs;
    if (isUnwanted || this.#idle.length >= IDLE_CONNECTIONS_MAX) {
      connection.close();
      return;
    }
    connection.resume();
    connection.owner = this;
    connection.isReused = true;
    connection.idleSinceMs = performance.now();
    this.#idle.push(connection);
    this.#sweepTimer ??= this.#sweepIn(this.#idleMsMax);
  }

  /** Closes the idle connections; those in use are closed when they come back. */
  close(): void {
    this.#isClosed = true;
    this.#closeIdle();
  }

  #closeIdle(): void {
    clearTimeout(this.#sweepTimer);
    this.#sweepTimer = undefined;
    for (const connection of this.#idle.splice(0)) connection.close();
  }

  /** Idle connections are open already. */
  opened(): void {}

  /** Nothing was asked on an idle connection, so whatever comes is not an answer to anybody. */
  received(connection: Connection): void {
    this.distrust(connection);
  }

  /**
   * Closes this kept connection, on which bytes came that nobody asked for, and every idle one; for a while none is
   * kept.
   */
  distrust(connection: Connection): void {
    connection.destroy();
    const nowMs = performance.now();
    if (this.#isClosed || nowMs < this.#distrustedUntilMs) return;
    const distrustMs = this.#distrustMs;
    this.#distrustedUntilMs = nowMs + distrustMs;
    this.#distrustMs = Math.min(2 * distrustMs, DISTRUST_MS_MAX);
    this.#closeIdle();
    this.#onUnsolicitedData(distrustMs);
  }

  closed(connection: Connection): void {
    this.#forget(connection);
  }

  #forget(connection: Connection): void {
    const index = this.#idle.indexOf(connection);
    if (index >= 0) this.#idle.splice(index, 1);
  }

  /** Two turns from a lease to `opened`: Bun looks at the network between two immediates, not before one. */
  readonly #turn = (): void => {
    const due = this.#leasedBefore;
    this.#leasedBefore = this.#leased;
    this.#leased = [];
    if (this.#leasedBefore.length > 0) setImmediate(this.#turn);
    for (const connection of due) {
      if (connection.isOpen) connection.owner.opened(connection);
    }
  };

  #sweepIn(delayMs: number): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => this.#sweep(), delayMs);
    timer.unref();
    return timer;
  }

  #sweep(): void {
    const cutoffMs = performance.now() - this.#idleMsMax;
    const firstToKeep = this.#idle.findIndex((connection) => connection.idleSinceMs > cutoffMs);
    const expired = this.#idle.splice(0, firstToKeep < 0 ? this.#idle.length : firstToKeep);
    for (const connection of expired) connection.close();
    const oldest = this.#idle[0];
    this.#sweepTimer =
      oldest === undefined ? undefined : this.#sweepIn(oldest.idleSinceMs - cutoffMs + 1);
  }
}
