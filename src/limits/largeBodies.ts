import type { Clock } from "../lib/clock.ts";

/** A longer body takes the thread for milliseconds: it is read, checked and translated when its account has the turn. */
export const LARGE_BODY_BYTES = 262_144;

/** The pause after a large body, as a multiple of the time that it took. The large bodies of one account use a quarter of the thread. */
const REST_FACTOR = 3;
/** A pause is never longer, also if the thread stood still for another reason. */
const REST_MS_MAX = 2000;

/**
 * Large bodies, one at a time for each account, in the order of their arrival. Between two of them other requests are
 * served.
 */
export class LargeBodies {
  readonly #clock: Clock;
  /** The bodies that wait, for each account that has a turn or pauses after one. */
  readonly #waiting = new Map<number, (() => void)[]>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the account's next large body may be read. Its turn must be ended. */
  async enter(accountId: number): Promise<BodyTurn> {
    const waiting = this.#waiting.get(accountId);
    if (waiting) await new Promise<void>((resolve) => waiting.push(resolve));
    else this.#waiting.set(accountId, []);
    return new BodyTurn(this.#clock, (restMs) =>
      setTimeout(() => this.#next(accountId), Math.min(restMs, REST_MS_MAX)),
    );
  }

  #next(accountId: number): void {
    const next = this.#waiting.get(accountId)?.shift();
    if (next) next();
    else this.#waiting.delete(accountId);
  }
}

export class BodyTurn {
  readonly #clock: Clock;
  readonly #onEnd: (restMs: number) => void;
  #startedMs: number | undefined;
  #isOver = false;

  constructor(clock: Clock, onEnd: (restMs: number) => void) {
    this.#clock = clock;
    this.#onEnd = onEnd;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The body is here, and takes the thread from now on. */
  start(): void {
    this.#startedMs = this.#clock.monotonicMs();
  }

  /** Gives the turn away, after a pause. A second call has no effect. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const nowMs = this.#clock.monotonicMs();
    this.#onEnd(REST_FACTOR * (nowMs - (this.#startedMs ?? nowMs)));
  }
}

/**
 * The answers in one turn of the event loop that are not counted by connection, and then the most of one connection.
 */
const UNCOUNTED_MAX = 50;
const ANSWERS_MAX = 50;

/**
 * Limits the answers to one connection in one turn of the event loop. A client may send thousands of requests in one
 * write, and Bun answers those that wait for nothing one after the other, before it looks at another connection.
 */
export class PipelineLimit {
  #answers = 0;
  readonly #ofConnection = new Map<string, number>();

  /** Counts a request. False if its connection has too many in this turn. `connection` tells its name, if it has one. */
  admit(connection: () => string | undefined): boolean {
    if (this.#answers === 0) setImmediate(this.#nextTurn);
    this.#answers += 1;
    if (this.#answers <= UNCOUNTED_MAX) return true;
    const name = connection();
    if (name === undefined) return true;
    const count = (this.#ofConnection.get(name) ?? 0) + 1;
    this.#ofConnection.set(name, count);
    return count <= ANSWERS_MAX;
  }

  readonly #nextTurn = (): void => {
    this.#answers = 0;
    this.#ofConnection.clear();
  };
}
