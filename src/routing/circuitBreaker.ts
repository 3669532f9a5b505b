import type { Clock } from "../lib/clock.ts";

type BreakerState = "closed" | "half-open" | "open";

/** The default of Envoy's outlier detection: https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/outlier_detection.proto */
const FAILURES_IN_ROW = 5;
/** The breaker also opens when half of at least 20 attempts in 30 seconds failed, even if no five failed in a row. */
const WINDOW_SECONDS = 30;
const WINDOW_ATTEMPTS_MIN = 20;
const WINDOW_FAILED_SHARE = 0.5;
/** How long the breaker stays open. Each failed probe doubles it, up to the maximum. */
const OPEN_MS = 10_000;
const OPEN_MS_MAX = 60_000;
/** What `waitMs` returns while a probe is in flight. */
const PROBE_WAIT_MS = 1000;
/** A probe may be a slow request. After this time a second probe is allowed. */
const PROBE_ALONE_MS = 10_000;

/**
 * Opens when attempts keep failing, so that no request waits for a provider that is down. Closes when a single probe
 * gets its first content.
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

  /** Starts an attempt. In the half-open state it is the probe. */
  begin(): BreakerAttempt {
    const opening = this.#opening;
    const attempt = { opening, beganAtMs: opening ? this.#clock.monotonicMs() : 0 };
    if (opening) opening.probe = attempt;
    return attempt;
  }

  /** The first content of an attempt has arrived. A probe closes the breaker with it. */
  answered({ opening }: BreakerAttempt): void {
    if (opening && opening === this.#opening) this.#close();
  }

  /** An attempt ended. Call it once. `neutral` does not count for the provider's health. */
  ended(attempt: BreakerAttempt, outcome: "success" | "failure" | "neutral"): void {
    const { opening } = attempt;
    if (!opening || opening !== this.#opening) this.#count(outcome);
    else if (outcome === "success") this.#close();
    else if (outcome === "failure") this.#open(Math.min(opening.forMs * 2, OPEN_MS_MAX));
    else if (opening.probe === attempt) opening.probe = undefined;
  }

  #count(outcome: "success" | "failure" | "neutral"): void {
    // Attempts that began before the breaker opened change nothing.
    if (this.#opening || outcome === "neutral") return;
    this.#window.add(outcome === "failure");
    this.#failuresInRow = outcome === "failure" ? this.#failuresInRow + 1 : 0;
    if (outcome === "success") return;
    if (this.#failuresInRow >= FAILURES_IN_ROW || this.#window.hasTooManyFailures())
      this.#open(OPEN_MS);
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

/** One attempt. */
export interface BreakerAttempt {
  /** The period in which it is a probe. */
  readonly opening: Opening | undefined;
  /** Of a probe. */
  readonly beganAtMs: number;
}

/** One period in which the breaker is open. */
interface Opening {
  readonly forMs: number;
  readonly untilMs: number;
  /** The latest probe in flight. */
  probe: BreakerAttempt | undefined;
}

/** Counts of attempts and failures in the last 30 seconds, by second. */
interface AttemptWindow {
  add(failed: boolean): void;
  hasTooManyFailures(): boolean;
}

function createWindow(clock: Clock): AttemptWindow {
  const seconds = Array.from({ length: WINDOW_SECONDS }, () => ({ at: -1, all: 0, failed: 0 }));
  const now = (): number => Math.floor(clock.monotonicMs() / 1000);
  return {
    add(failed) {
      const at = now();
      const second = seconds[at % WINDOW_SECONDS];
      if (!second) return;
      if (second.at !== at) Object.assign(second, { at, all: 0, failed: 0 });
      second.all += 1;
      if (failed) second.failed += 1;
    },
    hasTooManyFailures() {
      const since = now() - WINDOW_SECONDS;
      const recent = seconds.filter(({ at }) => at > since);
      const all = recent.reduce((sum, second) => sum + second.all, 0);
      const failed = recent.reduce((sum, second) => sum + second.failed, 0);
      return all >= WINDOW_ATTEMPTS_MIN && failed >= all * WINDOW_FAILED_SHARE;
    },
  };
}
