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
 * between is not read yet, so the deadlines wait a little longer.
 */
const LATE_MS = 1000;
const LATE_GRACE_MS = 100;
/** The shortest time between two sweeps. Many deadlines of different times then cost one timer, not one each. */
const SWEEP_MS_MIN = 10;

/**
 * Deadlines that share one timer. Its sweep looks at all of them. A deadline that passes is noticed up to `SWEEP_MS_MIN`
 * late. The timer does not keep the process alive.
 */
export class Deadlines {
  readonly clock: Clock;
  readonly #active: Deadline[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerDueMs = Infinity;
  /** Deadlines up to this time get a grace period, or have had it. */
  #gracedAtMs = -Infinity;
  #graceEndsMs = -Infinity;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Adds the deadline, or moves it. It passes at `deadline.dueMs`. */
  include(deadline: Deadline): void {
    if (deadline.index < 0) {
      deadline.index = this.#active.push(deadline) - 1;
      const nowMs = this.clock.monotonicMs();
      // The clock jumped ahead of the timer.
      if (this.#timerDueMs < nowMs) this.#arm(this.#timerDueMs, nowMs);
    }
    if (deadline.dueMs < this.#timerDueMs) {
      const nowMs = this.clock.monotonicMs();
      this.#arm(Math.max(deadline.dueMs, nowMs), nowMs);
    }
  }

  remove(deadline: Deadline): void {
    if (deadline.index < 0) return;
    const last = this.#active.pop();
    if (last !== undefined && last !== deadline) {
      this.#active[deadline.index] = last;
      last.index = deadline.index;
    }
    deadline.index = -1;
  }

  #arm(dueMs: number, nowMs: number): void {
    clearTimeout(this.#timer);
    this.#timerDueMs = dueMs;
    this.#timer = setTimeout(this.#sweep, Math.max(Math.ceil(dueMs - nowMs), 0));
    this.#timer.unref();
  }

  readonly #sweep = (): void => {
    const nowMs = this.clock.monotonicMs();
    const isLate = nowMs - this.#timerDueMs > LATE_MS;
    this.#timerDueMs = Infinity;
    const graceEndsMs = isLate ? nowMs + LATE_GRACE_MS : this.#graceEndsMs;
    const passed: Deadline[] = [];
    let nextMs = Infinity;
    for (const deadline of this.#active) {
      const { dueMs } = deadline;
      const isGraced = dueMs > this.#gracedAtMs ? isLate : nowMs < this.#graceEndsMs;
      if (dueMs <= nowMs && !isGraced) passed.push(deadline);
      nextMs = Math.min(nextMs, dueMs <= nowMs && isGraced ? graceEndsMs : dueMs);
    }
    if (isLate) this.#gracedAtMs = nowMs;
    this.#graceEndsMs = graceEndsMs;
    // Armed first: if a callback throws, the next sweep calls the others.
    if (nextMs < Infinity) this.#arm(Math.max(nextMs, nowMs + SWEEP_MS_MIN), nowMs);
    for (const deadline of passed) deadline.pass(nowMs);
  };
}

/** A moment that can be moved often: moving it stores a number. So an event of a stream needs no timer of its own. */
export class Deadline {
  /** In monotonic time. */
  dueMs = Infinity;
  /** The place among the active deadlines, which set it; -1 if the deadline is not active. */
  index = -1;
  readonly #deadlines: Deadlines;
  readonly #onPassed: () => void;

  /** `onPassed` is called once for each time that passes. */
  constructor(deadlines: Deadlines, onPassed: () => void) {
    this.#deadlines = deadlines;
    this.#onPassed = onPassed;
  }

  /** Sets the deadline to `afterMs` from now. */
  set(afterMs: number): void {
    this.setAt(this.#deadlines.clock.monotonicMs() + afterMs);
  }

  /** Sets the deadline in monotonic time. */
  setAt(dueMs: number): void {
    this.dueMs = dueMs;
    this.#deadlines.include(this);
  }

  /** Removes the deadline for a time. A new one costs nothing. */
  suspend(): void {
    this.dueMs = Infinity;
  }

  clear(): void {
    this.dueMs = Infinity;
    this.#deadlines.remove(this);
  }

  /** Calls `onPassed`, unless the deadline was moved or removed in the same sweep. */
  pass(nowMs: number): void {
    if (this.dueMs > nowMs) return;
    this.dueMs = Infinity;
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

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

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
