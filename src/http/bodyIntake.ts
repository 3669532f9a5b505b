import type { App } from "../app.ts";
import { rateLimitExceeded } from "../contract/errors.ts";
import type { BodyReservation } from "../limits/bodyBudget.ts";
import { LARGE_BODY_BYTES, type BodyTurn } from "../limits/largeBodies.ts";
import type { InFlightRequest } from "./inFlightRequest.ts";

/** A client that sends its large body more slowly loses the turn, and gets another one when the body is here. */
const READ_WITHIN_MS = 1000;

/**
 * What the body of one request takes: bytes of its key's rate, memory of all bodies, and for a large body the turn of its
 * account. `release` ends it.
 */
export class BodyIntake {
  readonly #app: App;
  readonly #inFlight: InFlightRequest;
  readonly #reservation: BodyReservation;
  #isDeclared = false;
  #turn: BodyTurn | undefined;
  #slow: Timer | undefined;

  constructor(app: App, inFlight: InFlightRequest) {
    this.#app = app;
    this.#inFlight = inFlight;
    this.#reservation = app.bodies.claim(inFlight.caller.accountId);
  }

  /** The length is known before the body is read. A large body waits for its turn. Throws ApiError 429. */
  declared(bytes: number): Promise<void> | undefined {
    this.#isDeclared = true;
    this.#takeRate(bytes);
    return bytes > LARGE_BODY_BYTES ? this.#waitToRead() : undefined;
  }

  /** Bytes have arrived. Returns false if they exceed the account's share of the memory. Throws ApiError 429. */
  take(bytes: number): boolean {
    if (!this.#isDeclared) this.#takeRate(bytes);
    return this.#reservation.take(bytes);
  }

  /** The body is here, and is checked next. Waits if it is large and has no turn. */
  ready(bytes: number): Promise<void> | undefined {
    clearTimeout(this.#slow);
    if (bytes <= LARGE_BODY_BYTES && this.#turn === undefined) return undefined;
    if (this.#turn?.isOver !== false) return this.#waitToCheck();
    this.#turn.start();
    return undefined;
  }

  /** The body is checked, translated and sent in this turn of the event loop, unless the request has to wait for something. */
  checked(): void {
    const turn = this.#turn;
    if (turn) setImmediate(() => turn.end());
  }

  /** Returns the memory. A second call has no effect. */
  release(): void {
    clearTimeout(this.#slow);
    this.#turn?.end();
    this.#reservation.release();
  }

  async #waitToRead(): Promise<void> {
    this.#inFlight.startWaiting();
    const turn = await this.#enter();
    this.#inFlight.startReading();
    this.#slow = setTimeout(() => turn.end(), READ_WITHIN_MS);
  }

  async #waitToCheck(): Promise<void> {
    this.#inFlight.startWaiting();
    const turn = await this.#enter();
    turn.start();
  }

  async #enter(): Promise<BodyTurn> {
    const turn = await this.#app.largeBodies.enter(this.#inFlight.caller.accountId);
    this.#turn = turn;
    return turn;
  }

  #takeRate(bytes: number): void {
    const { permit, snapshot } = this.#inFlight;
    const taken = permit.takeBodyBytes(bytes, snapshot.config.limits.bodyBytesPerMinute);
    if (!taken.ok) throw rateLimitExceeded(taken.retryAfterMs);
  }
}
