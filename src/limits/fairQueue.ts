import type { Clock } from "../lib/clock.ts";

/** Runs long work in steps on the main thread, and leaves time for requests between the steps. */
export interface FairQueue {
  /**
   * Runs the generator to its end and resolves with its return value. Jobs of all accounts take turns.
   * Returns undefined, and runs nothing, if the account has too many jobs in flight.
   */
  run<T>(accountId: number, steps: Generator<unknown, T>): Promise<T> | undefined;
}

/** A turn starts no further step after this time. */
const TURN_MS = 5;
/** The pause after a turn, as a multiple of its duration. All jobs together use at most a fifth of the thread. */
const REST_FACTOR = 4;
/** Jobs of one account at once. A dashboard requests several reports in parallel. */
const JOBS_PER_ACCOUNT_MAX = 4;

/** One turn runs at a time, in the order of the requests for it. */
export function createFairQueue(clock: Clock): FairQueue {
  const jobCounts = new Map<number, number>();
  let previousTurn: Promise<void> = Promise.resolve();
  const inTurn = async <T>(work: () => T): Promise<T> => {
    const previous = previousTurn;
    const ended = Promise.withResolvers<void>();
    previousTurn = ended.promise;
    await previous;
    const startedMs = clock.monotonicMs();
    try {
      return work();
    } finally {
      setTimeout(ended.resolve, Math.ceil((clock.monotonicMs() - startedMs) * REST_FACTOR));
    }
  };
  const runAll = async <T>(accountId: number, steps: Generator<unknown, T>): Promise<T> => {
    try {
      for (;;) {
        const step = await inTurn(() => runTurn(steps, clock));
        if (step.done) return step.value;
      }
    } finally {
      const left = (jobCounts.get(accountId) ?? 1) - 1;
      if (left === 0) jobCounts.delete(accountId);
      else jobCounts.set(accountId, left);
    }
  };
  return {
    run(accountId, steps) {
      const count = jobCounts.get(accountId) ?? 0;
      if (count >= JOBS_PER_ACCOUNT_MAX) return undefined;
      jobCounts.set(accountId, count + 1);
      return runAll(accountId, steps);
    },
  };
}

/** Runs steps until the turn is over. Returns the result of the last step. */
function runTurn<T>(steps: Generator<unknown, T>, clock: Clock): IteratorResult<unknown, T> {
  const untilMs = clock.monotonicMs() + TURN_MS;
  for (;;) {
    const step = steps.next();
    if (step.done || clock.monotonicMs() >= untilMs) return step;
  }
}
