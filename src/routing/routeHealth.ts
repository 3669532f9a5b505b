import type { Clock } from "../lib/clock.ts";
import type { UpstreamError } from "../providers/upstream.ts";
import type { Provider } from "../providers/registry.ts";
import type { RouteState } from "../telemetry/metrics.ts";
import { CircuitBreaker, type BreakerAttempt } from "./circuitBreaker.ts";
import type { Candidate } from "./candidates.ts";

/** A refused or empty operator account needs the operator, so the provider is not asked again for long. */
const ACCOUNT_COOLDOWN_MS = 300_000;

/**
 * Circuit breakers and cooldowns of all routes. A route here is a provider and its name for the model, whichever public
 * models use it. A refused account puts all routes of its provider in cooldown. A provider that a reload creates anew
 * starts without history.
 */
export class RouteHealth {
  readonly #clock: Clock;
  /** By the provider's name for the model. */
  readonly #routes = new WeakMap<Provider, Map<string, Route>>();
  /** When the cooldown of a refused account ends, in milliseconds of the monotonic clock. */
  #accountsCoolUntilMs = new WeakMap<Provider, number>();
  /** A cache: each request asks for the same candidates several times. */
  readonly #routesFound = new WeakMap<Candidate, Route>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until the route may be tried; 0: now. */
  waitMs(candidate: Candidate): number {
    const { breaker, coolUntilMs } = this.#routeOf(candidate);
    const accountUntilMs = this.#accountsCoolUntilMs.get(candidate.provider) ?? 0;
    const untilMs = Math.max(coolUntilMs, accountUntilMs);
    const coolMs = untilMs === 0 ? 0 : untilMs - this.#clock.monotonicMs();
    return Math.max(breaker.waitMs(), coolMs);
  }

  /** Ends the cooldowns of refused accounts. A reload calls it, because the operator may have repaired the account. */
  resetAccountCooldowns(): void {
    this.#accountsCoolUntilMs = new WeakMap();
  }

  /** The ids of those providers of the candidates that refused the key or the account, and are in cooldown. */
  refusedProviders(candidates: Iterable<Candidate>): ReadonlySet<string> {
    const nowMs = this.#clock.monotonicMs();
    const refused = new Set<string>();
    for (const { provider } of candidates)
      if ((this.#accountsCoolUntilMs.get(provider) ?? 0) > nowMs) refused.add(provider.id);
    return refused;
  }

  /** Starts an attempt at the route. The caller must call `ended` once. */
  begin(candidate: Candidate): BreakerAttempt {
    return this.#routeOf(candidate).breaker.begin();
  }

  /** The first content of the attempt's answer has arrived. */
  answered(candidate: Candidate, attempt: BreakerAttempt): void {
    this.#routeOf(candidate).breaker.answered(attempt);
  }

  /**
   * Ends the attempt, as failed if there is an error. An error that `isCallers` says nothing about the route. Returns
   * the cooldown in milliseconds, 0 for none.
   */
  ended(
    candidate: Candidate,
    attempt: BreakerAttempt,
    error: UpstreamError | undefined,
    isCallers: boolean,
  ): number {
    const counts = error && !isCallers && isCounted(error);
    const outcome = !error ? "success" : counts ? "failure" : "neutral";
    this.#routeOf(candidate).breaker.ended(attempt, outcome);
    return error ? this.#coolDown(candidate, error) : 0;
  }

  /** The breaker states of those routes of the candidates that were tried before, each route once. */
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
    if (fault !== "rateLimited" || retryAfterMs === 0) return 0;
    const route = this.#routeOf(candidate);
    // The longer time wins when two answers arrive in the wrong order.
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
  return fault === "provider" || (fault === "rateLimited" && retryAfterMs === undefined);
}

interface Route {
  /** The end of the cooldown that the provider asked for, in milliseconds of the monotonic clock. */
  coolUntilMs: number;
  readonly breaker: CircuitBreaker;
}
