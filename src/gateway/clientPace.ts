import type { Clock } from "../lib/clock.ts";
import { Deadline } from "../lib/deadline.ts";

/** A client that reads nothing for so long has gone away. */
export const STALL_MS = 120_000;
/** A failure right behind such a pause of the client's is the pause's, not the provider's. */
const PAUSE_MS = 1000;
/** A time-out is also the client's doing when its pauses together took this share of the stream's time. */
const PAUSE_SHARE = 0.1;
/**
 * A provider that gave up amid a pause is heard of late: what it had sent before waits in buffers, and comes first once
 * the client reads again. So pauses are remembered for a while, up to this sum, and the more the client reads the
 * less: while a second is left of it, that a provider gave up is the client's doing.
 */
const REMEMBERED_MS_MAX = 3000;
/** A piece that comes sooner than this behind the last had most likely waited in a buffer: such time counts by `WAITED_SHARE` only. */
const WAITS_MS = 10;
const WAITED_SHARE = 0.25;
/** Once a client has read for this many times the remembered pauses, they are forgotten, however quick its provider is. */
const READING_SHARE = 1.5;
/** How it looks when a provider gave up. */
const GIVEN_UP: ReadonlySet<string> = new Set(["timeout", "cut", "closed"]);

/** How a client keeps up with its stream: who pauses holds its provider up. */
export interface ClientPace {
  /** The client does not take what it was sent. */
  pauses(): void;
  /** The client has taken it; as often as it has paused. Returns how long a pause was that is over now. */
  resumes(): number;
  readonly isPausing: boolean;
  /** Something came of the provider, be it that it waited in buffers for the end of a pause. */
  goesOn(): void;
  /** Whether a failure now is the client's doing. */
  explains(outcome: string): boolean;
  /** The stream is over. */
  stop(): void;
}

export function watchPace(clock: Clock, onStall: () => void): ClientPace {
  const startedMs = clock.monotonicMs();
  const stall = new Deadline(clock, onStall);
  let isOver = false;
  let openPauses = 0;
  let pausesSinceMs = startedMs;
  let lastPauseMs = 0;
  let pastPausesMs = 0;
  let rememberedMs = 0;
  /** Up to when what is remembered is less by the client's reading. */
  let readUntilMs = startedMs;
  /** When nothing is remembered any more, if the client does not pause again. */
  let forgottenAtMs = startedMs;
  const openPauseMs = (): number => (openPauses > 0 ? clock.monotonicMs() - pausesSinceMs : 0);
  const reads = (nowMs: number): void => {
    const forMs = nowMs - readUntilMs;
    const lessMs = forMs < WAITS_MS ? forMs * WAITED_SHARE : forMs;
    rememberedMs = nowMs >= forgottenAtMs ? 0 : Math.max(rememberedMs - lessMs, 0);
    readUntilMs = nowMs;
  };
  return {
    pauses() {
      openPauses += 1;
      if (isOver || openPauses > 1) return;
      pausesSinceMs = clock.monotonicMs();
      reads(pausesSinceMs);
      stall.setAt(pausesSinceMs + STALL_MS);
    },
    resumes() {
      openPauses -= 1;
      if (openPauses !== 0) return 0;
      stall.rest();
      readUntilMs = clock.monotonicMs();
      lastPauseMs = readUntilMs - pausesSinceMs;
      pastPausesMs += lastPauseMs;
      rememberedMs = Math.min(rememberedMs + lastPauseMs, REMEMBERED_MS_MAX);
      forgottenAtMs = readUntilMs + READING_SHARE * rememberedMs;
      return lastPauseMs;
    },
    get isPausing() {
      return openPauses > 0;
    },
    goesOn() {
      lastPauseMs = 0;
      if (rememberedMs > 0 && openPauses === 0) reads(clock.monotonicMs());
    },
    explains(outcome) {
      if (Math.max(lastPauseMs, openPauseMs()) >= PAUSE_MS) return true;
      const nowMs = clock.monotonicMs();
      if (openPauses === 0) reads(nowMs);
      if (rememberedMs + openPauseMs() >= PAUSE_MS && GIVEN_UP.has(outcome)) return true;
      const elapsedMs = nowMs - startedMs;
      const allPausesMs = pastPausesMs + openPauseMs();
      const isSlow = allPausesMs >= Math.max(PAUSE_MS, elapsedMs * PAUSE_SHARE);
      return outcome === "timeout" && isSlow;
    },
    stop() {
      isOver = true;
      stall.clear();
    },
  };
}
