import type { Clock } from "../lib/clock.ts";
import { AccountFailures, GATEWAY_ACCOUNT } from "./accountFailures.ts";

type BreakerState = "closed" | "half-open" | "open";

/**
 * How an attempt ended:
 * - `unreachable`: there was no connection. No request can cause that.
 * - `failure`: the provider failed, and the request may have caused it
 * - `neutral`: it says nothing about the provider
 */
export type BreakerOutcome = "success" | "unreachable" | "failure" | "neutral";

/** A change of a breaker that the other processes of the gateway hear. */
export type BreakerChange =
  | { readonly kind: "counted"; readonly account: number; readonly outcome: BreakerOutcome }
  | { readonly kind: "opened"; readonly forMs: number; readonly failing: readonly number[] }
  | { readonly kind: "closed" }
  /** A probe is in flight, or none any more. */
  | { readonly kind: "probed"; readonly isProbed: boolean };

/** What the breakers of all routes and accounts at one server share. */
export interface ServerConnections {
  /** The attempts without a connection since the last one that had a connection. */
  failedInRow: number;
}

/** The default of Envoy's outlier detection: https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/outlier_detection.proto */
const FAILURES_MIN = 5;
/** Failures since the last success that came to fewer accounts do not open the breaker. */
const ACCOUNTS_MIN = 2;
/**
 * After so many failures of one account alone the gateway should ask the route itself. Its own failed probe is one more
 * failure, so that a provider that is down is avoided from the fifth failure on, also with a single account.
 */
const SUSPECT_FAILURES = FAILURES_MIN - 2;
/** How long the breaker stays open. Each failed probe doubles it, up to the maximum. */
const OPEN_MS = 10_000;
const OPEN_MS_MAX = 60_000;
/** What `waitMs` returns while a probe is in flight. */
const PROBE_WAIT_MS = 1000;
/** A probe may be a slow request. After this time a second probe is allowed. */
const PROBE_ALONE_MS = 10_000;
/** The last resort: one request in this time, and a few at once. */
const LAST_RESORT_MS = 1000;
const LAST_RESORT_BURST = 5;
/** Accounts that met the failures may use up only a part of the burst, so that something is left for the others. */
const LAST_RESORT_BURST_FAILING = 3;

/**
 * Opens when attempts keep failing, so that no request waits for a provider that is down. Closes when a single probe
 * gets its first content. One account's requests neither open it nor keep it open.
 */
export class CircuitBreaker {
  readonly #clock: Clock;
  readonly #tell: (change: BreakerChange) => void;
  readonly #failures: AccountFailures;
  readonly #server: ServerConnections;
  #opening: Opening | undefined;
  /** The time up to which the rate of the last resort is used up. */
  #lastResortMs = 0;

  /** `tell` is called with each change, but not with one that was heard. */
  constructor(
    clock: Clock,
    server: ServerConnections,
    tell: (change: BreakerChange) => void = () => {},
  ) {
    this.#clock = clock;
    this.#server = server;
    this.#tell = tell;
    this.#failures = new AccountFailures(clock);
  }

  get state(): BreakerState {
    if (!this.#opening) return "closed";
    return this.#opening.untilMs > this.#clock.monotonicMs() ? "open" : "half-open";
  }

  /** Milliseconds until an attempt of the account may begin; 0: now. */
  waitMs(account: number): number {
    if (!this.#opening) return 0;
    const { untilMs, failing } = this.#opening;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < untilMs) return untilMs - nowMs;
    return this.#isProbed(nowMs) || failing.has(account) ? PROBE_WAIT_MS : 0;
  }

  /** True if the breaker is half-open and no probe is in flight. */
  get needsProbe(): boolean {
    const nowMs = this.#clock.monotonicMs();
    return this.#opening !== undefined && nowMs >= this.#opening.untilMs && !this.#isProbed(nowMs);
  }

  /** True if the breaker is closed and one account alone keeps failing. */
  get isSuspect(): boolean {
    if (this.#opening || this.#failures.accountCount !== 1) return false;
    return this.#failures.count >= SUSPECT_FAILURES;
  }

  /**
   * Takes from the rate of the last resort: the request may be sent although the breaker is open, because no other
   * route can serve it.
   */
  takeLastResort(account: number): boolean {
    if (!this.#opening) return false;
    const nowMs = this.#clock.monotonicMs();
    const usedMs = Math.max(this.#lastResortMs - nowMs, 0);
    const isFailing = this.#opening.failing.has(account);
    const burst = isFailing ? LAST_RESORT_BURST_FAILING : LAST_RESORT_BURST;
    if (usedMs > (burst - 1) * LAST_RESORT_MS) return false;
    this.#lastResortMs = nowMs + usedMs + LAST_RESORT_MS;
    return true;
  }

  /** Starts an attempt. In the half-open state it is the probe. */
  begin(account: number): BreakerAttempt {
    const opening = this.#opening;
    if (!opening) return { account, opening, beganAtMs: 0 };
    const beganAtMs = this.#clock.monotonicMs();
    const attempt = { account, opening, beganAtMs };
    if (beganAtMs >= opening.untilMs && !opening.failing.has(account)) {
      opening.probe = attempt;
      this.#tell({ kind: "probed", isProbed: true });
    }
    return attempt;
  }

  /** The first content of an attempt has arrived. A probe closes the breaker with it. */
  answered({ opening }: BreakerAttempt): void {
    if (opening && opening === this.#opening) this.#closeAndTell();
  }

  /** An attempt ended. Call it once. */
  ended(attempt: BreakerAttempt, outcome: BreakerOutcome): void {
    const { opening, account } = attempt;
    if (!opening || opening !== this.#opening) {
      const isNews = outcome !== "success" || this.#failures.accountCount > 0;
      this.#count(account, outcome);
      if (isNews && outcome !== "neutral") this.#tell({ kind: "counted", account, outcome });
    } else if (outcome === "success") this.#closeAndTell();
    else if (!isProbe(attempt)) return;
    else if (outcome !== "neutral") {
      const failing = outcome === "failure" ? [...opening.failing, account] : [...opening.failing];
      const forMs = Math.min(opening.forMs * 2, OPEN_MS_MAX);
      this.#open(forMs, failing);
      this.#tell({ kind: "opened", forMs, failing });
    } else if (opening.probe === attempt) {
      opening.probe = undefined;
      this.#tell({ kind: "probed", isProbed: false });
    }
  }

  /** Another process of the gateway has changed its breaker of the same route. */
  hear(change: BreakerChange): void {
    switch (change.kind) {
      case "counted":
        return this.#count(change.account, change.outcome);
      case "opened":
        return this.#open(change.forMs, change.failing);
      case "closed":
        return this.#close();
      case "probed": {
        const opening = this.#opening;
        if (!opening) return;
        const beganAtMs = this.#clock.monotonicMs();
        opening.probe = change.isProbed
          ? { account: GATEWAY_ACCOUNT, opening, beganAtMs }
          : undefined;
      }
    }
  }

  #count(account: number, outcome: BreakerOutcome): void {
    // Attempts that began before the breaker opened change nothing.
    if (this.#opening || outcome === "neutral") return;
    if (outcome === "success") return this.#forget();
    const server = this.#server;
    server.failedInRow = outcome === "unreachable" ? server.failedInRow + 1 : 0;
    this.#failures.add(account);
    if (server.failedInRow >= FAILURES_MIN) return this.#open(OPEN_MS, []);
    const { count, accountCount, accounts } = this.#failures;
    if (count >= FAILURES_MIN && accountCount >= ACCOUNTS_MIN) this.#open(OPEN_MS, accounts);
  }

  #isProbed(nowMs: number): boolean {
    const probe = this.#opening?.probe;
    return probe !== undefined && nowMs - probe.beganAtMs < PROBE_ALONE_MS;
  }

  #open(forMs: number, failing: Iterable<number>): void {
    const untilMs = this.#clock.monotonicMs() + forMs;
    const others = new Set(failing);
    // The gateway itself may always ask.
    others.delete(GATEWAY_ACCOUNT);
    this.#opening = { forMs, untilMs, failing: others, probe: undefined };
  }

  #closeAndTell(): void {
    this.#close();
    this.#tell({ kind: "closed" });
  }

  #close(): void {
    this.#forget();
    this.#opening = undefined;
  }

  #forget(): void {
    this.#server.failedInRow = 0;
    this.#failures.clear();
  }
}

export interface BreakerAttempt {
  readonly account: number;
  /** The period of an open breaker in which the attempt began. */
  readonly opening: Opening | undefined;
  /** When the attempt began, if in such a period. */
  readonly beganAtMs: number;
}

/** One period in which the breaker is open. */
interface Opening {
  readonly forMs: number;
  readonly untilMs: number;
  /** The accounts whose failures opened it. Their requests are no probes. */
  readonly failing: ReadonlySet<number>;
  /** The latest probe in flight. */
  probe: BreakerAttempt | undefined;
}

/** False for a last resort, whose failure says nothing new. */
function isProbe({ account, opening, beganAtMs }: BreakerAttempt): boolean {
  return opening !== undefined && beganAtMs >= opening.untilMs && !opening.failing.has(account);
}
