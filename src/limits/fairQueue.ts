import type { Clock } from "../lib/clock.ts";
import { awaitStep, type Awaited, type Steps } from "../store/store.ts";

/** Runs long work in steps on the main thread, and leaves time for requests between the steps. */
export interface FairQueue {
  /**
   * Runs the steps to their end and resolves with their result. Jobs of all accounts take turns. While a job waits for its
   * rows, others have the turn. Returns undefined, and runs nothing, if the account has too many jobs in flight.
   */
  run<T>(accountId: number, steps: Steps<T>): Promise<T> | undefined;
}

/** A turn starts no further step after this time. */
const TURN_MS = 5;
/** The pause after a turn, as a multiple of its duration. All jobs together use at most a fifth of the thread. */
const REST_FACTOR = 4;
/** Jobs of one account at once. A dashboard requests several reports in parallel. */
const JOBS_PER_ACCOUNT_MAX = 4;

/**
 * Jobs that wait for rows, or go on behind a wait, at once. A database server is asked through few connections, which other
 * requests need, too.
 */
const READING_MAX = 2;

/** One turn runs at a time, in the order of the requests for it. */
export function createFairQueue(clock: Clock): FairQueue {
  const jobCounts = new Map<number, number>();
  const places = createPlaces(READING_MAX);
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
  /** Runs turns until the job may pause, or until its end. In between it may have a connection of its own. */
  const runUntilPause = async <T>(steps: Steps<T>): Promise<Step<T>> => {
    await places.take();
    try {
      let step = await inTurn(() => runTurn(steps, clock));
      while (step.done !== true && step.value !== undefined)
        step = await inTurn(await awaitStep(steps, step.value));
      return step;
    } finally {
      places.giveBack();
    }
  };
  const runAll = async <T>(accountId: number, steps: Steps<T>): Promise<T> => {
    try {
      for (;;) {
        const step = await runUntilPause(steps);
        if (step.done === true) return step.value;
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

/** So many places, given in the order of the requests for them. */
function createPlaces(count: number) {
  const waiting: (() => void)[] = [];
  let free = count;
  return {
    take(): Promise<void> | undefined {
      if (free === 0) return new Promise((resolve) => waiting.push(resolve));
      free -= 1;
      return undefined;
    },
    giveBack(): void {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    },
  };
}

type Step<T> = IteratorResult<Awaited, T>;

/** Runs steps until the turn is over at a pause, or until one has to wait. Returns the result of the last step. */
function runTurn<T>(steps: Steps<T>, clock: Clock): Step<T> {
  const untilMs = clock.monotonicMs() + TURN_MS;
  let step = steps.next();
  while (step.done !== true && step.value === undefined && clock.monotonicMs() < untilMs)
    step = steps.next();
  return step;
}
