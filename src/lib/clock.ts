/** Order and timeouts use `monotonicMs`. `epochMs` is only shown and stored. */
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

/** A monotonic time that is the same in the main thread and in Workers. `performance.now()` starts anew in each. */
export function sharedNowMs(): number {
  return performance.timeOrigin + performance.now();
}

/**
 * A timer that fires this late means that the whole process was stopped, or the machine slept. Data that arrived in
 * between is not read yet, so the deadline waits a little longer.
 */
const LATE_MS = 1000;
const LATE_GRACE_MS = 100;

/**
 * A deadline that can be moved often at almost no cost. Moving it stores the new time only; its timer checks that time
 * when it fires. So an event of a stream needs no timer of its own.
 */
export class Deadline {
  readonly #clock: Clock;
  readonly #onPassed: () => void;
  #dueMs = Infinity;
  #timer: Timer | undefined;
  #timerDueMs = Infinity;
  /** Deadlines up to this time have had their grace period. */
  #gracedAtMs = -Infinity;

  /** `onPassed` is called once for each deadline that passes. */
  constructor(clock: Clock, onPassed: () => void) {
    this.#clock = clock;
    this.#onPassed = onPassed;
  }

  /** Sets the deadline to `afterMs` from now. */
  set(afterMs: number): void {
    this.setAt(this.#clock.monotonicMs() + afterMs);
  }

  /** Sets the deadline in monotonic time. */
  setAt(dueMs: number): void {
    this.#dueMs = dueMs;
    if (dueMs < this.#timerDueMs) this.#arm(dueMs, this.#clock.monotonicMs());
  }

  /** Removes the deadline and keeps the timer, so that a new deadline costs nothing. */
  suspend(): void {
    this.#dueMs = Infinity;
  }

  /** Removes the deadline and the timer. */
  clear(): void {
    this.#dueMs = Infinity;
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerDueMs = Infinity;
  }

  #arm(dueMs: number, nowMs: number): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timerDueMs = Math.max(dueMs, nowMs);
    this.#timer = setTimeout(() => this.#check(), Math.ceil(this.#timerDueMs - nowMs));
  }

  #check(): void {
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

/** The limit of a Date before and after 1970: https://tc39.es/ecma262/#sec-time-values-and-time-range */
const TIME_MAX_MS = 8.64e15;

/** ISO 8601 in UTC with milliseconds. A time outside the range of a Date becomes the nearest one. */
export function isoTime(atMs: number): string {
  const shownMs = Math.min(Math.max(atMs, -TIME_MAX_MS), TIME_MAX_MS);
  return new Date(shownMs).toISOString();
}

export function isoTimeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : isoTime(atMs);
}

export const DAY_MS = 86_400_000;

/** Days since 1970 in UTC. `to` is exclusive. */
export interface DaySpan {
  readonly from: number;
  readonly to: number;
}

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** The start of a date such as `2026-11-01` in UTC, in ms; undefined for other text and for a day that does not exist. */
export function midnightOf(date: string): number | undefined {
  const atMs = DATE.test(date) ? Date.parse(`${date}T00:00:00Z`) : Number.NaN;
  // Date.parse turns February 30 into March 2.
  return Number.isFinite(atMs) && new Date(atMs).toISOString().startsWith(date) ? atMs : undefined;
}
