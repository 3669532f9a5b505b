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
