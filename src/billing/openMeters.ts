import type { Clock } from "../lib/clock.ts";
import type { Meter } from "./meter.ts";

/**
 * The meters that run. Each is finished by the path of its request; one that a fault of ours forgot would keep
 * its account's money until the next start, so somebody looks.
 */
export interface OpenMeters {
  /**
   * `withinMs`: by then the request must have ended, whatever its providers do. What its client paused is on
   * top of that: the end of an answer that its provider has long sent is the client's to take.
   */
  add(requestId: string, meter: OpenMeter, withinMs: number): void;
  remove(requestId: string): void;
  /** How many run, those that are ending included. */
  readonly count: number;
  /** How many of them wait for their end to be committed. */
  readonly endingCount: number;
  /**
   * Ends those as failed that were overdue at the last look already: after a standstill of the process the
   * requests' own time limits come first. Nothing is charged. Returns the requests' ids.
   */
  endForgotten(): readonly string[];
}

type OpenMeter = Pick<Meter, "abandon" | "isEnding" | "pausedMs">;

export function createOpenMeters(clock: Clock): OpenMeters {
  const open = new Map<string, { meter: OpenMeter; dueMs: number }>();
  let overdue: ReadonlySet<string> = new Set();
  return {
    add(requestId, meter, withinMs) {
      open.set(requestId, { meter, dueMs: clock.monotonicMs() + withinMs });
    },
    remove: (requestId) => void open.delete(requestId),
    get count() {
      return open.size;
    },
    get endingCount() {
      return open.values().reduce((sum, { meter }) => sum + (meter.isEnding ? 1 : 0), 0);
    },
    endForgotten() {
      const nowMs = clock.monotonicMs();
      const late = [...open].filter(([, { meter, dueMs }]) => dueMs + meter.pausedMs <= nowMs);
      const forgotten = late.filter(([requestId]) => overdue.has(requestId));
      overdue = new Set(late.map(([requestId]) => requestId));
      for (const [requestId, { meter }] of forgotten) {
        open.delete(requestId);
        void meter.abandon();
      }
      return forgotten.map(([requestId]) => requestId);
    },
  };
}
