import type { Clock } from "../lib/clock.ts";
import type { UpstreamError, UpstreamFault } from "../providers/upstream.ts";
import { createBreaker, type Breaker, type BreakerState } from "./breaker.ts";
import type { Candidate } from "./order.ts";

/**
 * Remembers which routes asked to be left alone, keep failing, or cannot serve for a while. A route is a
 * provider and its model, whichever public models lead to it; a refused account puts all of its provider aside.
 */
export interface RouteHealth {
  /** Milliseconds until the route is worth another try; 0: now. */
  waitMs(candidate: Candidate): number;
  /** An attempt at the route begins; it must be ended. */
  begin(candidate: Candidate): Trial;
  /** Every route that was tried so far. */
  states(): { provider: string; model: string; state: BreakerState }[];
}

/** One attempt at a route. */
export interface Trial {
  /** The first content of its answer is there. */
  answered(): void;
  /**
   * The attempt is over, by `error` or well; only the first call counts. What `isCallers` says nothing of
   * the route, whatever its status. Returns how long the route, or all of its provider, asked to be left
   * alone or is refused; 0: not at all.
   */
  ended(error?: UpstreamError, isCallers?: boolean): number;
}

/** An operator's account that is refused or empty does not mend itself by the next request. */
const ACCOUNT_COOLDOWN_MS = 300_000;

/**
 * What a breaker counts. Limits and accounts have their own cool-downs. A model that is unknown does not
 * mend itself, and some providers say 404 of one request, such as an image that no model of theirs reads:
 * a client must not put a route aside by that. The others are nobody's health.
 */
const COUNTED_FAULT: UpstreamFault = "provider";

export function createRouteHealth(clock: Clock): RouteHealth {
  const coolUntilMs = new Map<string, number>();
  const routes = new Map<string, Route>();
  /** Each request asks for its candidates' routes several times. */
  const routesFound = new WeakMap<Candidate, Route>();
  const routeOf = (candidate: Candidate): Route => {
    const found = routesFound.get(candidate);
    if (found) return found;
    const id = routeId(candidate);
    const route = routes.get(id) ?? { id, candidate, breaker: createBreaker(clock) };
    routes.set(id, route);
    routesFound.set(candidate, route);
    return route;
  };
  const coolingMs = (id: string): number => {
    const untilMs = coolUntilMs.get(id);
    return untilMs === undefined ? 0 : Math.max(0, untilMs - clock.monotonicMs());
  };
  const coolDown = (candidate: Candidate, { fault, retryAfterMs = 0 }: UpstreamError): number => {
    // A rate limit that names no time may be about this one request: it puts nothing aside.
    const forMs =
      fault === "account" ? ACCOUNT_COOLDOWN_MS : fault === "limited" ? retryAfterMs : 0;
    if (forMs === 0) return 0;
    const id = fault === "account" ? candidate.provider.id : routeOf(candidate).id;
    coolUntilMs.set(id, clock.monotonicMs() + forMs);
    return forMs;
  };
  return {
    waitMs(candidate) {
      const { id, breaker } = routeOf(candidate);
      return Math.max(breaker.waitMs(), coolingMs(id), coolingMs(candidate.provider.id));
    },
    begin(candidate) {
      const trial = routeOf(candidate).breaker.begin();
      let isOver = false;
      return {
        answered: () => trial.answered(),
        ended(error, isCallers = false) {
          if (isOver) return 0;
          isOver = true;
          const counts = error && !isCallers && error.fault === COUNTED_FAULT;
          trial.ended(!error ? "well" : counts ? "badly" : "neutral");
          return error ? coolDown(candidate, error) : 0;
        },
      };
    },
    states: () =>
      [...routes.values()].map(({ candidate: { provider, route }, breaker }) => ({
        provider: provider.id,
        model: route.model,
        state: breaker.state,
      })),
  };
}

interface Route {
  readonly id: string;
  readonly candidate: Candidate;
  readonly breaker: Breaker;
}

/** No id of a provider holds a line break. */
function routeId({ provider, route }: Candidate): string {
  return `${provider.id}\n${route.model}`;
}
