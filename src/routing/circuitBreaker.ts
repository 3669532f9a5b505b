import type { Clock } from "../lib/clock.ts";

type BreakerState = "closed" | "half-open" | "open";

/** As many as Envoy's outlier detection: https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/outlier_detection.proto */
const FAILURES_IN_ROW = 5;
/** A route that fails every other time has no five failures in a row: half of enough attempts within this are too many. */
const WINDOW_SECONDS = 30;
const WINDOW_ATTEMPTS_MIN = 20;
const WINDOW_FAILED_SHARE = 0.5;
/** It doubles with each probe that fails: a short outage is over soon, and a long one is asked once a minute. */
const OPEN_MS = 10_000;
const OPEN_MS_MAX = 60_000;
/** While the probe is out, the others come back so often to see what became of it. */
const PROBE_WAIT_MS = 1000;
/** A long answer's probe may take minutes to say anything: after so long another is sent beside it. */
const PROBE_ALONE_MS = 10_000;

/**
 * Opens when attempts keep failing, so that nobody waits for a provider that is down, and closes when a
 * single probe is answered.
 */
export class CircuitBreaker {
  readonly #clock: Clock;
  #failuresInRow = 0;
  #window: AttemptWindow;
  #opening: Opening | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#window = createWindow(clock);
  }

  get state(): BreakerState {
    if (!this.#opening) return "closed";
    return this.#opening.untilMs > this.#clock.monotonicMs() ? "open" : "half-open";
  }

  /** Milliseconds until an attempt may begin; 0: now. */
  waitMs(): number {
    if (!this.#opening) return 0;
    const { untilMs, probe } = this.#opening;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < untilMs) return untilMs - nowMs;
    return probe && nowMs - probe.beganAtMs < PROBE_ALONE_MS ? PROBE_WAIT_MS : 0;
  }

  /** An attempt begins; in the half-open state it is the one probe. */
  begin(): BreakerTrial {
    const probed = this.#opening;
    const self = { beganAtMs: this.#clock.monotonicMs() };
    if (probed) probed.probe = self;
    let isOver = false;
    return {
      answered: () => {
        if (!isOver && probed && probed === this.#opening) this.#close();
      },
      ended: (how) => {
        if (isOver) return false;
        isOver = true;
        if (!probed || probed !== this.#opening) this.#attemptEnded(how);
        else if (how === "well") this.#close();
        else if (how === "badly") this.#open(Math.min(probed.forMs * 2, OPEN_MS_MAX));
        // The next one finds out.
        else if (probed.probe === self) probed.probe = undefined;
        return true;
      },
    };
  }

  #attemptEnded(how: "well" | "badly" | "neutral"): void {
    // While it is open, what began before says nothing new.
    if (this.#opening || how === "neutral") return;
    this.#window.note(how === "badly");
    this.#failuresInRow = how === "badly" ? this.#failuresInRow + 1 : 0;
    if (how === "well") return;
    if (this.#failuresInRow >= FAILURES_IN_ROW || this.#window.isBad()) this.#open(OPEN_MS);
  }

  #open(forMs: number): void {
    this.#opening = { forMs, untilMs: this.#clock.monotonicMs() + forMs, probe: undefined };
  }

  #close(): void {
    this.#failuresInRow = 0;
    this.#window = createWindow(this.#clock);
    this.#opening = undefined;
  }
}

/** One attempt, as the breaker hears of it. What comes after `ended` is ignored. */
export interface BreakerTrial {
  /** The first content is there: a probe that gets so far closes the breaker. */
  answered(): void;
  /** `neutral`: it says nothing of the provider's health. Returns whether the attempt was not over yet. */
  ended(how: "well" | "badly" | "neutral"): boolean;
}

/** One time that the breaker is open. */
interface Opening {
  readonly forMs: number;
  readonly untilMs: number;
  /** The latest probe that is out. */
  probe: { readonly beganAtMs: number } | undefined;
}

/** How the attempts of the last half minute ended, a second at a time. */
interface AttemptWindow {
  note(failed: boolean): void;
  isBad(): boolean;
}

function createWindow(clock: Clock): AttemptWindow {
  const seconds = Array.from({ length: WINDOW_SECONDS }, () => ({ at: -1, all: 0, failed: 0 }));
  const now = (): number => Math.floor(clock.monotonicMs() / 1000);
  return {
    note(failed) {
      const at = now();
      const second = seconds[at % WINDOW_SECONDS];
      if (!second) return;
      if (second.at !== at) Object.assign(second, { at, all: 0, failed: 0 });
      second.all += 1;
      if (failed) second.failed += 1;
    },
    isBad() {
      const since = now() - WINDOW_SECONDS;
      const recent = seconds.filter(({ at }) => at > since);
      const all = recent.reduce((sum, second) => sum + second.all, 0);
      const failed = recent.reduce((sum, second) => sum + second.failed, 0);
      return all >= WINDOW_ATTEMPTS_MIN && failed >= all * WINDOW_FAILED_SHARE;
    },
  };
}
