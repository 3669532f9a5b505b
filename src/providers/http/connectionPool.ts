import { Connection, type ConnectionOwner } from "./connection.ts";
import type { ConnectionTarget } from "./connectionTarget.ts";

/**
 * Longer than a minute, because much work comes each minute. Below what forgets a connection without a word (Azure 240 s,
 * AWS 350 s) and below Cloudflare's 400 s. The retry of an exchange covers servers that close earlier (uvicorn after 5 s,
 * AWS load balancers after 60 s) under a request.
 */
const IDLE_MS_MAX = 120_000;

/**
 * An older connection is not used again, so that a provider whose name gets a new address is found there. Steady traffic
 * would use a connection to the old one for ever.
 */
const AGE_MS_MAX = 5 * 60_000;

/** The most idle connections to one provider. */
const IDLE_CONNECTIONS_MAX = 512;

/**
 * How long no connection is kept after unsolicited bytes: a server that sends one answer too many may send the next
 * one to another caller's request. Doubles each time up to the maximum.
 */
const DISTRUST_MS = 5 * 60_000;
const DISTRUST_MS_MAX = 60 * 60_000;

/** The keep-alive connections to one target. Connections in use have no limit. */
export class ConnectionPool implements ConnectionOwner {
  readonly #target: ConnectionTarget;
  readonly #onUnsolicitedData: (distrustMs: number) => void;
  readonly #idleMsMax: number;
  /** Ordered by idle time, longest first. The last one is taken first, so unused ones expire. */
  readonly #idle: Connection[] = [];
  #sweepTimer: ReturnType<typeof setTimeout> | undefined;
  /** Connections leased in this turn of the event loop. */
  #leased: Connection[] = [];
  /** Connections leased in the turn before. They are ready in the next turn. */
  #leasedBefore: Connection[] = [];
  #isClosed = false;
  #distrustMs = DISTRUST_MS;
  #distrustedUntilMs = 0;

  /** `onUnsolicitedData` gets the time in which no connection is kept, each time that such a period begins. */
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
   * Returns an idle connection or a new one. It calls `opened` when a request may be written: a new connection once
   * connected, an idle one before the return if the system knows of nothing that waits there. Where it cannot be asked, and
   * where something waits, it is after the event loop has polled the network again. So bytes or a close that wait in the
   * system's buffers are seen before the request is written, and are not taken for its answer.
   */
  lease(owner: ConnectionOwner): Connection {
    const connection = this.#idle.pop();
    if (connection === undefined) return this.dial(owner);
    connection.owner = owner;
    if (connection.isQuiet) {
      owner.opened(connection);
      return connection;
    }
    if (this.#leased.length === 0 && this.#leasedBefore.length === 0) setImmediate(this.#turn);
    this.#leased.push(connection);
    return connection;
  }

  dial(owner: ConnectionOwner): Connection {
    return new Connection(this.#target, owner);
  }

  /** Takes back a connection whose exchange ended exactly. */
  release(connection: Connection): void {
    const nowMs = performance.now();
    const isUnwanted = this.#isClosed || nowMs < this.#distrustedUntilMs;
    const isOld = nowMs - connection.openedAtMs > AGE_MS_MAX;
    if (isUnwanted || isOld || this.#idle.length >= IDLE_CONNECTIONS_MAX) {
      connection.close();
      return;
    }
    connection.resume();
    connection.owner = this;
    connection.isReused = true;
    connection.idleSinceMs = nowMs;
    this.#idle.push(connection);
    this.#sweepTimer ??= this.#sweepIn(this.#idleMsMax);
  }

  /** Closes idle connections. Used ones are closed when they come back. */
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

  /** There is no request on an idle connection, so these bytes are no answer. */
  received(connection: Connection): void {
    this.distrust(connection);
  }

  /** Closes this connection and all idle ones after unsolicited bytes. For a time none is kept. */
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

  /** `opened` comes two turns after the lease: Bun polls the network between two immediates, not before the first. */
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
