import type { Clock } from "../lib/clock.ts";
import type { Pause } from "../store/store.ts";

/** Runs long work on the main thread, and leaves time for requests between its turns. */
export interface FairQueue {
  /**
   * Runs work to its end and resolves with its result. Work of all accounts takes turns, which end where it pauses. Returns
   * undefined, and runs nothing, if the account has too many jobs in flight.
   */
  run<T>(accountId: number, work: (pause: Pause) => Promise<T>): Promise<T> | undefined;
}

/** A pause ends the turn after this time. */
const TURN_MS = 5;
/** The rest after a turn, as a multiple of its duration. All jobs together use at most a fifth of the thread. */
const REST_FACTOR = 4;
/** Jobs of one account at once. A dashboard requests several reports in parallel. */
const JOBS_PER_ACCOUNT_MAX = 4;
/** A server is asked through few connections, which other requests need, too. */
const READING_MAX = 2;

/**
 * Turns are given in the order of the requests for them. `readsBlock`: a read blocks this thread, so one turn runs at a time
 * and a rest follows it. Else two run at once, and wait for a server.
 */
export function createFairQueue(clock: Clock, readsBlock: boolean): FairQueue {
  const jobCounts = new Map<number, number>();
  const waiting: (() => void)[] = [];
  let free = readsBlock ? 1 : READING_MAX;
  const giveBack = (): void => {
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
  };
  const beginTurn = async (): Promise<number> => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    return clock.monotonicMs();
  };
  const endTurn = (startedMs: number): void => {
    const restMs = readsBlock ? (clock.monotonicMs() - startedMs) * REST_FACTOR : 0;
    setTimeout(giveBack, Math.ceil(restMs));
  };
  const runTurns = async <T>(accountId: number, work: (pause: Pause) => Promise<T>): Promise<T> => {
    let startedMs = await beginTurn();
    try {
      return await work(async () => {
        if (clock.monotonicMs() - startedMs < TURN_MS) return;
        endTurn(startedMs);
        startedMs = await beginTurn();
      });
    } finally {
      endTurn(startedMs);
      const left = (jobCounts.get(accountId) ?? 1) - 1;
      if (left === 0) jobCounts.delete(accountId);
      else jobCounts.set(accountId, left);
    }
  };
  return {
    run(accountId, work) {
      const count = jobCounts.get(accountId) ?? 0;
      if (count >= JOBS_PER_ACCOUNT_MAX) return undefined;
      jobCounts.set(accountId, count + 1);
      return runTurns(accountId, work);
    },
  };
}
