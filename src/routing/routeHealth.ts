import type { Clock } from "../lib/clock.ts";
import type { UpstreamError } from "../providers/upstream.ts";
import type { Provider } from "../providers/registry.ts";
import type { RouteState } from "../telemetry/metrics.ts";
import { CircuitBreaker } from "./circuitBreaker.ts";
import type { Candidate } from "./candidates.ts";

/** An operator's account that is refused or empty does not mend itself by the next request. */
const ACCOUNT_COOLDOWN_MS = 300_000;

/**
 * Remembers which routes asked to be left alone, keep failing, or cannot serve for a while. A route is a
 * provider and its model, whichever public models lead to it; a refused account puts all of its provider aside.
 * A provider that a reload made anew is another one, of which nothing is known.
 */
export class RouteHealth {
  readonly #clock: Clock;
  /** By the provider's own name of the model. */
  readonly #routes = new WeakMap<Provider, Map<string, Route>>();
  /** Until when a provider whose account was refused is left alone, in ms of the monotonic clock. */
  #accountsCoolUntilMs = new WeakMap<Provider, number>();
  /** Each request asks for its candidates' routes several times. */
  readonly #routesFound = new WeakMap<Candidate, Route>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until the route is worth another try; 0: now. */
  waitMs(candidate: Candidate): number {
    const route = this.#routeOf(candidate);
    const accountUntilMs = this.#accountsCoolUntilMs.get(candidate.provider) ?? 0;
    const coolUntilMs = Math.max(route.coolUntilMs, accountUntilMs);
    return Math.max(route.breaker.waitMs(), coolUntilMs - this.#clock.monotonicMs());
  }

  /** Has refused accounts asked again: a reload says that the operator mended what was wrong with them. */
  resetAccountCooldowns(): void {
    this.#accountsCoolUntilMs = new WeakMap();
  }

  /** An attempt at the route begins; it must be ended. */
  begin(candidate: Candidate): AttemptTracker {
    const tracker = this.#routeOf(candidate).breaker.begin();
    return {
      answered: () => tracker.answered(),
      ended: (error, isCallers = false) => {
        const counts = error && !isCallers && isCounted(error);
        const isFirst = tracker.ended(!error ? "well" : counts ? "badly" : "neutral");
        if (!isFirst) return undefined;
        return error ? this.#coolDown(candidate, error) : 0;
      },
    };
  }

  /** Of these candidates' routes those that were tried so far: each once, however many candidates lead to it. */
  states(candidates: Iterable<Candidate>): RouteState[] {
    const found = new Map<Route, RouteState>();
    for (const { provider, route } of candidates) {
      const tried = this.#routes.get(provider)?.get(route.model);
      if (!tried) continue;
      const { state } = tried.breaker;
      found.set(tried, { provider: provider.id, model: route.model, state });
    }
    return [...found.values()];
  }

  #routeOf(candidate: Candidate): Route {
    const found = this.#routesFound.get(candidate);
    if (found) return found;
    const { provider } = candidate;
    const { model } = candidate.route;
    const routes = this.#routes.get(provider) ?? new Map<string, Route>();
    this.#routes.set(provider, routes);
    const route = routes.get(model) ?? { coolUntilMs: 0, breaker: new CircuitBreaker(this.#clock) };
    routes.set(model, route);
    this.#routesFound.set(candidate, route);
    return route;
  }

  #coolDown(candidate: Candidate, { fault, retryAfterMs = 0 }: UpstreamError): number {
    const nowMs = this.#clock.monotonicMs();
    if (fault === "account") {
      this.#accountsCoolUntilMs.set(candidate.provider, nowMs + ACCOUNT_COOLDOWN_MS);
      return ACCOUNT_COOLDOWN_MS;
    }
    if (fault !== "limited" || retryAfterMs === 0) return 0;
    const route = this.#routeOf(candidate);
    // Of two answers that cross the one that asks for longer counts.
    route.coolUntilMs = Math.max(route.coolUntilMs, nowMs + retryAfterMs);
    return retryAfterMs;
  }
}

/**
 * Whether the breaker counts this failure. A limit with a time and a refused account have their own cool-downs. A 404 does
 * not count: some providers send it for one request, such as an image that none of their models reads, and a client must
 * not open the breaker with that. The other faults say nothing about the route's health.
 */
function isCounted({ fault, retryAfterMs }: UpstreamError): boolean {
  return fault === "provider" || (fault === "limited" && retryAfterMs === undefined);
}

/** One attempt at a route. */
export interface AttemptTracker {
  /** The first content of its answer is there. */
  answered(): void;
  /**
   * The attempt is over, by `error` or well; only the first call counts. What `isCallers` says nothing of
   * the route, whatever its status. Returns how long the route, or all of its provider, asked to be left
   * alone or is refused; 0: not at all; undefined: it was over before.
   */
  ended(error?: UpstreamError, isCallers?: boolean): number | undefined;
}

interface Route {
  /** It asked to be left alone until then, in ms of the monotonic clock. */
  coolUntilMs: number;
  readonly breaker: CircuitBreaker;
}
