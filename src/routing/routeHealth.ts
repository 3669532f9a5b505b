import { SOON_MS } from "../contract/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { ConnectionError, type UpstreamError } from "../providers/upstream.ts";
import type { Provider } from "../providers/registry.ts";
import type { RouteState } from "../telemetry/metrics.ts";
import { AccountFailures, GATEWAY_ACCOUNT } from "./accountFailures.ts";
import {
  CircuitBreaker,
  type BreakerAttempt,
  type BreakerChange,
  type BreakerOutcome,
  type ServerConnections,
} from "./circuitBreaker.ts";
import type { Candidate } from "./candidates.ts";

/** Only the operator can repair a refused or empty account, so the provider is not asked again for long. */
const ACCOUNT_COOLDOWN_MS = 300_000;
/** A quota of one model also needs the operator. */
const MODEL_QUOTA_COOLDOWN_MS = 300_000;
/** How long a notice stands after a request has met something that the operator must do at a provider. */
const OPERATOR_MS = 300_000;

/**
 * The shortest time between two probes of a route whose breaker is closed. Each probe that is answered doubles it, up to the
 * maximum, so that nobody can have the gateway ask a healthy route all the time.
 */
const PROBE_EVERY_MS = 10_000;
const PROBE_EVERY_MS_MAX = 60_000;
/**
 * The shortest time between two probes of a route whose breaker is half-open, if a probe says nothing about the
 * provider.
 */
const PROBE_PAUSE_MS = 1000;
/** After this time without a probe the time between two is the shortest again. */
const PROBE_FORGET_MS = 300_000;

/** What one process of a gateway has learned of a route, for the other ones. */
export interface HealthNews {
  /** The id of the provider, and its name for the model. */
  readonly provider: string;
  readonly model: string;
  readonly change:
    | BreakerChange
    /** A cooldown of the route, or of the provider. */
    | { readonly kind: "cool"; readonly forMs: number; readonly isProvider: boolean }
    /** The operator must do something at the provider. */
    | { readonly kind: "operator" }
    /** A 403 of one account without known words; without an account they are forgotten. */
    | { readonly kind: "forbidden"; readonly account?: number };
}

interface RouteHealthOptions {
  readonly clock: Clock;
  /** Asks the route as the gateway's own attempt. It never rejects. */
  readonly probe: (candidate: Candidate) => Promise<void>;
  /** Tells the other processes of the gateway. */
  readonly tell?: ((news: HealthNews) => void) | undefined;
}

/**
 * Circuit breakers and cooldowns of all routes. A route here is a provider and its name for the model, whichever public
 * models use it. A refused account puts all routes of its provider in cooldown. A provider that a reload creates anew
 * starts without history.
 *
 * One account cannot take a route from the others: what only its requests meet says nothing about the provider. Then the
 * gateway asks the route itself.
 */
export class RouteHealth {
  readonly #clock: Clock;
  readonly #probe: (candidate: Candidate) => Promise<void>;
  readonly #tell: (news: HealthNews) => void;
  /** By the provider's name for the model. */
  readonly #routes = new WeakMap<Provider, Map<string, Route>>();
  /** When the cooldown of a refused account ends, in milliseconds of the monotonic clock. */
  #accountsCoolUntilMs = new WeakMap<Provider, number>();
  /** Until when the operator is told that a provider needs an action. */
  #operatorUntilMs = new WeakMap<Provider, number>();
  /** By address and proxy. */
  readonly #servers = new Map<string, ServerConnections>();
  /** A cache, because each request asks for the same candidates several times. */
  readonly #routesFound = new WeakMap<Candidate, Route>();

  constructor({ clock, probe, tell = () => {} }: RouteHealthOptions) {
    this.#clock = clock;
    this.#probe = probe;
    this.#tell = tell;
  }

  /** Another process of the gateway has learned this of a route of the provider. */
  hear(provider: Provider, { model, change }: HealthNews): void {
    const route = this.#routeAt(provider, model);
    switch (change.kind) {
      case "cool":
        if (change.isProvider) this.#coolProvider(provider);
        else this.#coolRoute(route, change.forMs);
        return;
      case "operator":
        return this.#needOperator(provider);
      case "forbidden":
        if (change.account === undefined) route.forbidden.clear();
        else route.forbidden.add(change.account);
        return;
      case "closed":
      case "counted":
      case "opened":
      case "probed":
        return route.breaker.hear(change);
    }
  }

  /** Milliseconds until a request of the account may be sent to the route; 0: now. */
  waitMs(candidate: Candidate, account: number): number {
    const route = this.#routeOf(candidate);
    return Math.max(route.breaker.waitMs(account), this.#coolMs(candidate, route));
  }

  /**
   * A request was not sent to the route. The gateway probes it if it waits for a probe that this account's request
   * must not be.
   */
  skipped(candidate: Candidate): void {
    const route = this.#routeOf(candidate);
    if (!route.breaker.needsProbe || this.#coolMs(candidate, route) > 0) return;
    if (this.#clock.monotonicMs() - route.probedAtMs >= PROBE_PAUSE_MS)
      this.#startProbe(candidate, route);
  }

  /**
   * Takes from the rate of the last resort, which all requests share: whether a route may be asked although its
   * breaker is open, because no other route can serve the request.
   */
  takeLastResort(candidate: Candidate, account: number): boolean {
    const route = this.#routeOf(candidate);
    return this.#coolMs(candidate, route) <= 0 && route.breaker.takeLastResort(account);
  }

  /** Ends the cooldowns that only the operator can end. A reload calls it, because the account may be repaired. */
  resetAccountCooldowns(): void {
    for (const server of this.#servers.values()) server.failedInRow = 0;
    this.#accountsCoolUntilMs = new WeakMap();
    this.#operatorUntilMs = new WeakMap();
  }

  /** The ids of those providers of the candidates that refused the key or the account, and are in cooldown. */
  refusedProviders(candidates: Iterable<Candidate>): ReadonlySet<string> {
    return this.#providersUntil(this.#accountsCoolUntilMs, candidates);
  }

  /** The ids of those providers of the candidates that need an action of the operator, such as a verification. */
  refusedOrganizations(candidates: Iterable<Candidate>): ReadonlySet<string> {
    return this.#providersUntil(this.#operatorUntilMs, candidates);
  }

  /** The ids of those providers of the candidates that have no key, because it could not be got. */
  providersWithoutKey(candidates: Iterable<Candidate>): ReadonlySet<string> {
    const found = new Set<string>();
    for (const { provider } of candidates)
      if (provider.key?.isMissing === true) found.add(provider.id);
    return found;
  }

  /** Starts an attempt for an account at the route. The caller must call `ended` once. */
  begin(candidate: Candidate, account: number): BreakerAttempt {
    return this.#routeOf(candidate).breaker.begin(account);
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
    const route = this.#routeOf(candidate);
    const { breaker, forbidden } = route;
    breaker.ended(attempt, error ? outcomeOf(error, isCallers) : "success");
    if (!error) {
      if (forbidden.accountCount > 0) this.#tellOf(candidate, { kind: "forbidden" });
      forbidden.clear();
      return 0;
    }
    const cooldownMs = this.#coolDown(candidate, attempt.account, error);
    const isSuspect = breaker.isSuspect || forbidden.accountCount === 1;
    if (isSuspect && attempt.account !== GATEWAY_ACCOUNT) this.#probeIfDue(candidate, route);
    return cooldownMs;
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
    const route = this.#routeAt(candidate.provider, candidate.route.model);
    this.#routesFound.set(candidate, route);
    return route;
  }

  #routeAt(provider: Provider, model: string): Route {
    const routes = this.#routes.get(provider) ?? new Map<string, Route>();
    this.#routes.set(provider, routes);
    const { id } = provider;
    const tell = (change: BreakerChange): void => this.#tell({ provider: id, model, change });
    const route = routes.get(model) ?? newRoute(this.#clock, this.#serverOf(provider), tell);
    routes.set(model, route);
    return route;
  }

  #serverOf({ config: { baseUrl, proxyUrl = "" } }: Provider): ServerConnections {
    const name = `${baseUrl} ${proxyUrl}`;
    const server = this.#servers.get(name) ?? { failedInRow: 0 };
    this.#servers.set(name, server);
    return server;
  }

  #tellOf({ provider, route }: Candidate, change: HealthNews["change"]): void {
    this.#tell({ provider: provider.id, model: route.model, change });
  }

  /** Milliseconds until the cooldowns of the route and of its provider end, and until it may have a key. */
  #coolMs({ provider }: Candidate, { coolUntilMs }: Route): number {
    const untilMs = Math.max(coolUntilMs, this.#accountsCoolUntilMs.get(provider) ?? 0);
    const coolMs = untilMs === 0 ? 0 : untilMs - this.#clock.monotonicMs();
    return provider.key === undefined ? coolMs : Math.max(coolMs, provider.key.waitMs());
  }

  #providersUntil(
    untilMs: WeakMap<Provider, number>,
    candidates: Iterable<Candidate>,
  ): ReadonlySet<string> {
    const nowMs = this.#clock.monotonicMs();
    const found = new Set<string>();
    for (const { provider } of candidates)
      if ((untilMs.get(provider) ?? 0) > nowMs) found.add(provider.id);
    return found;
  }

  #coolDown(candidate: Candidate, account: number, error: UpstreamError): number {
    const { fault, retryAfterMs = 0 } = error;
    const { provider } = candidate;
    switch (fault) {
      case "account":
        return this.#coolAccount(candidate);
      // A single account may have caused it by what it sends.
      case "forbidden": {
        const { forbidden } = this.#routeOf(candidate);
        forbidden.add(account);
        const isProven = account === GATEWAY_ACCOUNT || forbidden.accountCount > 1;
        this.#tellOf(candidate, { kind: "forbidden", ...(!isProven && { account }) });
        if (!isProven) return 0;
        forbidden.clear();
        return this.#coolAccount(candidate);
      }
      case "operator":
        this.#needOperator(provider);
        this.#tellOf(candidate, { kind: "operator" });
        return 0;
      case "modelQuota":
        return this.#coolRouteAndTell(candidate, MODEL_QUOTA_COOLDOWN_MS);
      case "rateLimited":
        return retryAfterMs === 0 ? 0 : this.#coolRouteAndTell(candidate, retryAfterMs);
      case "caller":
      case "client":
      case "excessive":
      case "gateway":
      case "isolated":
      case "keyExpired":
      case "notFound":
      case "provider":
      case "tooLarge":
      case "unsupported":
        return 0;
    }
  }

  #coolAccount(candidate: Candidate): number {
    this.#coolProvider(candidate.provider);
    this.#tellOf(candidate, { kind: "cool", forMs: ACCOUNT_COOLDOWN_MS, isProvider: true });
    return ACCOUNT_COOLDOWN_MS;
  }

  #coolRouteAndTell(candidate: Candidate, forMs: number): number {
    this.#coolRoute(this.#routeOf(candidate), forMs);
    this.#tellOf(candidate, { kind: "cool", forMs, isProvider: false });
    return forMs;
  }

  #coolProvider(provider: Provider): void {
    this.#accountsCoolUntilMs.set(provider, this.#clock.monotonicMs() + ACCOUNT_COOLDOWN_MS);
  }

  /** The longer time wins when two answers arrive in the wrong order. */
  #coolRoute(route: Route, forMs: number): void {
    route.coolUntilMs = Math.max(route.coolUntilMs, this.#clock.monotonicMs() + forMs);
  }

  #needOperator(provider: Provider): void {
    this.#operatorUntilMs.set(provider, this.#clock.monotonicMs() + OPERATOR_MS);
  }

  /** Asks the route if the last probe is long enough ago. */
  #probeIfDue(candidate: Candidate, route: Route): void {
    const sinceMs = this.#clock.monotonicMs() - route.probedAtMs;
    if (sinceMs > PROBE_FORGET_MS) route.probeEveryMs = PROBE_EVERY_MS;
    if (sinceMs < route.probeEveryMs) return;
    if (sinceMs <= PROBE_FORGET_MS)
      route.probeEveryMs = Math.min(route.probeEveryMs * 2, PROBE_EVERY_MS_MAX);
    this.#startProbe(candidate, route);
  }

  /** At most one probe at once, and none where the provider has no free slot. */
  #startProbe(candidate: Candidate, route: Route): void {
    if (route.isProbing || limitWaitMs(candidate) > 0 || !takeRequest(candidate)) return;
    route.isProbing = true;
    route.probedAtMs = this.#clock.monotonicMs();
    void this.#probe(candidate).finally(() => {
      route.isProbing = false;
    });
  }
}

/** Milliseconds until `max_concurrent` and `requests_per_minute` of the provider allow a request; 0: now. */
export function limitWaitMs({ provider: { config, upstream, rate } }: Candidate): number {
  const isFull = config.maxConcurrent > 0 && upstream.open.count >= config.maxConcurrent;
  return isFull ? SOON_MS : (rate?.waitMs() ?? 0);
}

/** Counts a request for `requests_per_minute`. Returns false if none is left, which another process may have taken. */
export function takeRequest({ provider }: Candidate): boolean {
  return provider.rate?.take() ?? true;
}

/** Outcomes without a connection, which no request can cause. `timeout` is one of them while connecting. */
const UNREACHABLE: ReadonlySet<unknown> = new Set([
  "refused",
  "dns",
  "unreachable",
  "tls",
  "proxy",
  "timeout",
]);

/** Whether there was no connection to the provider. */
export function isUnreachable({ fault, cause }: UpstreamError): boolean {
  return fault === "provider" && cause instanceof ConnectionError && UNREACHABLE.has(cause.code);
}

/**
 * The outcome of a failed attempt for the breaker. A limit with a time and a refused account have cooldowns of their
 * own. A 404 does not count: some providers send it for one request, such as an image that none of their models reads,
 * and a client must not open the breaker with that. The other faults say nothing about the route's health.
 */
function outcomeOf(error: UpstreamError, isCallers: boolean): BreakerOutcome {
  const { fault, retryAfterMs } = error;
  if (isCallers) return "neutral";
  if (isUnreachable(error)) return "unreachable";
  if (fault === "provider") return "failure";
  return fault === "rateLimited" && retryAfterMs === undefined ? "failure" : "neutral";
}

interface Route {
  /** The end of the cooldown that the provider asked for, in milliseconds of the monotonic clock. */
  coolUntilMs: number;
  readonly breaker: CircuitBreaker;
  /** The 403s without known words since the last success. */
  readonly forbidden: AccountFailures;
  /** A probe of the gateway itself is in flight. */
  isProbing: boolean;
  probedAtMs: number;
  probeEveryMs: number;
}

function newRoute(
  clock: Clock,
  server: ServerConnections,
  tell: (change: BreakerChange) => void,
): Route {
  return {
    coolUntilMs: 0,
    breaker: new CircuitBreaker(clock, server, tell),
    forbidden: new AccountFailures(clock),
    isProbing: false,
    probedAtMs: -Infinity,
    probeEveryMs: PROBE_EVERY_MS,
  };
}
