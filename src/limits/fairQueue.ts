import type { Clock } from "../lib/clock.ts";

/** Lets work that takes long share one thread with everybody else's. */
export interface FairQueue {
  /**
   * Runs the steps to the end and gives what they return, some at a time, in turn with the work of others.
   * Undefined, and nothing is run, where so much work of this account is under way that it has to wait.
   */
  run<T>(accountId: number, steps: Generator<unknown, T>): Promise<T> | undefined;
}

/** The longest that others wait for one turn, but for its last step. */
const TURN_MS = 5;
/** Behind each turn the thread belongs to others for so many times what it took: all turns get a fifth at most. */
const REST_FACTOR = 4;
/** Of one account; a client that shows several reports at once asks for them side by side. */
const UNDER_WAY_MAX = 4;

/** Turns of all accounts, one at a time, in the order in which they were asked for. */
export function createFairQueue(clock: Clock): FairQueue {
  const underWay = new Map<number, number>();
  let free: Promise<void> = Promise.resolve();
  const inTurn = async <T>(work: () => T): Promise<T> => {
    const before = free;
    const over = Promise.withResolvers<void>();
    free = over.promise;
    await before;
    const startedMs = clock.monotonicMs();
    try {
      return work();
    } finally {
      setTimeout(over.resolve, Math.ceil((clock.monotonicMs() - startedMs) * REST_FACTOR));
    }
  };
  const runAll = async <T>(accountId: number, steps: Generator<unknown, T>): Promise<T> => {
    try {
      for (;;) {
        const step = await inTurn(() => turn(steps, clock));
        if (step.done) return step.value;
      }
    } finally {
      const others = (underWay.get(accountId) ?? 1) - 1;
      if (others === 0) underWay.delete(accountId);
      else underWay.set(accountId, others);
    }
  };
  return {
    run(accountId, steps) {
      const count = underWay.get(accountId) ?? 0;
      if (count >= UNDER_WAY_MAX) return undefined;
      underWay.set(accountId, count + 1);
      return runAll(accountId, steps);
    },
  };
}

/** The steps of one turn; returns the last of them. */
function turn<T>(steps: Generator<unknown, T>, clock: Clock): IteratorResult<unknown, T> {
  const untilMs = clock.monotonicMs() + TURN_MS;
  for (;;) {
    const step = steps.next();
    if (step.done || clock.monotonicMs() >= untilMs) return step;
  }
}
