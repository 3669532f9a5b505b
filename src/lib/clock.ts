/** The two clocks of the gateway. Order and time-outs use `monotonicMs`; `epochMs` is only shown and stored. */
export interface Clock {
  /** Wall-clock time, milliseconds since 1970. It may jump. */
  epochMs(): number;
  /** Milliseconds since some fixed moment of this process. It never goes backwards. */
  monotonicMs(): number;
}

export const systemClock: Clock = {
  epochMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

/** The monotonic time for messages between the main thread and a Worker: each has `performance.now()` count from its own start. */
export function sharedNowMs(): number {
  return performance.timeOrigin + performance.now();
}

/**
 * A timer that comes so much too late was held up with all of the process: by a stop, or by a machine
 * that slept. What came meanwhile is still to be read, and gets this long before the moment counts.
 */
const LATE_MS = 1000;
const LATE_GRACE_MS = 100;

/**
 * One moment by which something must have happened; it may be moved often at almost no cost. Moving it only notes it:
 * the one timer behind it looks again when it fires, so an event of a stream costs no timer of its own.
 */
export class Deadline {
  readonly #clock: Clock;
  readonly #onPassed: () => void;
  #dueMs = Infinity;
  #timer: Timer | undefined;
  #timerDueMs = Infinity;
  /** A moment that was over by then has had its grace. */
  #gracedAtMs = -Infinity;

  /** `onPassed` is called once for each moment that passes. */
  constructor(clock: Clock, onPassed: () => void) {
    this.#clock = clock;
    this.#onPassed = onPassed;
  }

  /** Puts the moment so many milliseconds ahead of now. */
  set(afterMs: number): void {
    this.setAt(this.#clock.monotonicMs() + afterMs);
  }

  /** The same by the monotonic clock. */
  setAt(dueMs: number): void {
    this.#dueMs = dueMs;
    if (dueMs < this.#timerDueMs) this.#arm(dueMs, this.#clock.monotonicMs());
  }

  /** There is no such moment for now. Its timer stays, so that another costs nothing. */
  suspend(): void {
    this.#dueMs = Infinity;
  }

  /** There is none any more. */
  clear(): void {
    this.#dueMs = Infinity;
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerDueMs = Infinity;
  }

  #arm(dueMs: number, nowMs: number): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timerDueMs = Math.max(dueMs, nowMs);
    this.#timer = setTimeout(() => this.#look(), Math.ceil(this.#timerDueMs - nowMs));
  }

  #look(): void {
    const nowMs = this.#clock.monotonicMs();
    const lateMs = nowMs - this.#timerDueMs;
    this.#timer = undefined;
    this.#timerDueMs = Infinity;
    const dueMs = this.#dueMs;
    if (dueMs === Infinity) return;
    if (dueMs > nowMs) return this.#arm(dueMs, nowMs);
    if (lateMs > LATE_MS && dueMs > this.#gracedAtMs) {
      this.#gracedAtMs = nowMs;
      return this.#arm(nowMs + LATE_GRACE_MS, nowMs);
    }
    this.#dueMs = Infinity;
    this.#onPassed();
  }
}
