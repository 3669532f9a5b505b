import type { Clock } from "./clock.ts";

/** One moment by which something must have happened; it may be moved often at almost no cost. */
export interface Deadline {
  /** Puts the moment so many milliseconds ahead of now. */
  set(afterMs: number): void;
  clear(): void;
}

/**
 * A timer that comes so much too late was held up with all of the process: by a stop, or by a machine
 * that slept. What came meanwhile is still to be read, and gets this long before the moment counts.
 */
const LATE_MS = 1000;
const LATE_GRACE_MS = 100;

/**
 * Moving the moment only notes it. The one timer behind it looks again when it fires, so an event of
 * a stream costs no timer of its own. `onPassed` is called once for each moment that passes.
 */
export function createDeadline(clock: Clock, onPassed: () => void): Deadline {
  let dueMs = Infinity;
  let timer: Timer | undefined;
  let timerDueMs = Infinity;
  /** A moment that was over by then has had its grace. */
  let gracedAtMs = -Infinity;
  const look = (): void => {
    timer = undefined;
    if (dueMs === Infinity) return;
    const nowMs = clock.monotonicMs();
    const lateMs = nowMs - timerDueMs;
    if (dueMs > nowMs) return arm(dueMs - nowMs);
    if (lateMs > LATE_MS && dueMs > gracedAtMs) {
      gracedAtMs = nowMs;
      return arm(LATE_GRACE_MS);
    }
    dueMs = Infinity;
    onPassed();
  };
  const arm = (afterMs: number): void => {
    clearTimeout(timer);
    const waitMs = Math.max(0, afterMs);
    timerDueMs = clock.monotonicMs() + waitMs;
    timer = setTimeout(look, Math.ceil(waitMs));
  };
  return {
    set(afterMs) {
      dueMs = clock.monotonicMs() + afterMs;
      if (timer === undefined || dueMs < timerDueMs) arm(afterMs);
    },
    clear() {
      dueMs = Infinity;
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
