import {
  allProvidersUnavailable,
  rateLimitExceeded,
  serviceUnavailable,
  type ApiError,
} from "../contract/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { Random } from "../lib/random.ts";
import { ownFault, upstreamErrorOf, type UpstreamError } from "../providers/upstream.ts";
import type { AttemptRecord } from "../store/store.ts";
import type { BreakerAttempt } from "./circuitBreaker.ts";
import { isAtLimit, type RouteHealth } from "./routeHealth.ts";
import { groupByModel, orderCandidates, type Candidate } from "./candidates.ts";
import { assert } from "../lib/assert.ts";

/** What all requests share. */
export interface DispatchServices {
  readonly health: RouteHealth;
  readonly retryBudget: RetryBudget;
  readonly clock: Clock;
  readonly random: Random;
  /** `exchanges`: exchanges with providers in the whole gateway. */
  readonly inFlight: { readonly exchanges: { readonly size: number } };
}

/** One request to be answered by one of its candidates. */
export interface Dispatch<Answer> {
  /** Those of a fallback model come behind those of the model that the request asks for. */
  readonly candidates: readonly Candidate[];
  /** The id of the account that asks. */
  readonly account: number;
  readonly attempts: AttemptListener;
  /** Tries one route. If it throws, another route may be tried. After it resolves, it must end the attempt itself. */
  tryRoute(attempt: Attempt): Promise<Answer>;
  /** The client's error if the caller is at fault; then no other route is tried. */
  callerFault(error: UpstreamError): ApiError | undefined;
  /** True if no further route may be tried: the client disconnected, or the gateway stops. */
  readonly isAbandoned: boolean;
}

/** Retained until the attempt ends, so it must not retain the request body (memory rules: docs/architecture.md). */
export interface AttemptListener {
  /** Called once for each attempt that ended. `failure` is missing if the attempt succeeded or the caller is at fault. */
  attempted(record: AttemptRecord, candidate: Candidate, failure: AttemptFailure | undefined): void;
}

/** Why an attempt failed, and the cooldown of its route in milliseconds. */
export interface AttemptFailure {
  readonly error: UpstreamError;
  readonly cooldownMs: number;
}

/** One attempt at a route. A stream retains it, so it must not retain the request. */
export class Attempt {
  readonly candidate: Candidate;
  /** On the monotonic clock. */
  readonly startedMs: number;
  readonly #clock: Clock;
  readonly #health: RouteHealth;
  readonly #listener: AttemptListener;
  readonly #probe: BreakerAttempt;
  #hasEnded = false;

  constructor(
    { clock, health }: Pick<DispatchServices, "clock" | "health">,
    candidate: Candidate,
    account: number,
    listener: AttemptListener,
  ) {
    this.candidate = candidate;
    this.startedMs = clock.monotonicMs();
    this.#clock = clock;
    this.#health = health;
    this.#listener = listener;
    this.#probe = health.begin(candidate, account);
  }

  /** The first content of the answer has arrived. */
  answered(): void {
    if (!this.#hasEnded) this.#health.answered(this.candidate, this.#probe);
  }

  /**
   * Ends the attempt, as failed if there is an error. Only the first call counts. An error that `isCallers` says nothing
   * about the route.
   */
  ended(error?: UpstreamError, isCallers = false): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const { candidate } = this;
    const cooldownMs = this.#health.ended(candidate, this.#probe, error, isCallers);
    // Nothing was sent for an unsupported request.
    if (error?.fault === "unsupported") return;
    const record: AttemptRecord = {
      provider: candidate.provider.id,
      outcome: error?.outcome ?? "ok",
      status: error ? (error.status ?? null) : 200,
      durationMs: Math.round(this.#clock.monotonicMs() - this.startedMs),
    };
    const failure = error && !isCallers ? { error, cooldownMs } : undefined;
    this.#listener.attempted(record, candidate, failure);
  }
}

/**
 * Attempts that a request may make without the retry budget, so that the first failover is always allowed. The first attempt
 * at each further model is allowed too.
 */
const FREE_ATTEMPTS = 2;
/** Attempts for one request at the routes of one model, each with the `total_timeout` of its provider. */
export const ATTEMPTS_MAX = 3;

/**
 * Tries the candidates until one begins to answer. Throws ApiError if the caller is at fault, or if no candidate is left.
 * Throws the last UpstreamError if the request is abandoned or its answer exceeds a limit.
 */
export async function dispatch<Answer>(
  request: Dispatch<Answer>,
  services: DispatchServices,
): Promise<Answer> {
  const tries = new Tries(request, services);
  const groups = groupByModel(request.candidates);
  for (const group of groups) {
    const answer = await tries.tryModel(group);
    if (answer) return answer.value;
  }
  if (!tries.hasAlternative)
    for (const group of groups) {
      const answer = await tries.tryModel(group, true);
      if (answer) return answer.value;
    }
  throw tries.failure();
}

/** The attempts of one request. */
class Tries<Answer> {
  readonly #request: Dispatch<Answer>;
  readonly #services: DispatchServices;
  /** Candidates whose interface can express the request, as far as it is known. */
  #supported: readonly Candidate[];
  #attempts = 0;
  #last: UpstreamError | undefined;
  #sawBusy = false;
  #sawLimit = false;

  constructor(request: Dispatch<Answer>, services: DispatchServices) {
    this.#request = request;
    this.#services = services;
    this.#supported = request.candidates;
  }

  /** A route was asked, or only has no free slot now. */
  get hasAlternative(): boolean {
    return this.#last !== undefined || this.#sawBusy;
  }

  /**
   * Tries the candidates of one model. Undefined if none of them answers. Throws as `dispatch` does. `isLastResort`: those
   * whose breaker is open may be asked too, at a bounded rate.
   */
  async tryModel(
    candidates: readonly Candidate[],
    isLastResort = false,
  ): Promise<{ value: Answer } | undefined> {
    const { random, retryBudget, inFlight } = this.#services;
    let attempts = 0;
    let releaseRetry: (() => void) | undefined;
    try {
      for (const candidate of orderCandidates(candidates, random)) {
        if (!this.#mayTry(candidate, isLastResort)) continue;
        const isFree = attempts === 0 || this.#attempts < FREE_ATTEMPTS;
        if (this.#last && !isFree && !releaseRetry) {
          releaseRetry = retryBudget.take(inFlight.exchanges.size);
          if (!releaseRetry) break;
          await Bun.sleep(backoffMs(random.fraction()));
          if (this.#request.isAbandoned) throw this.#last;
          if (!this.#mayTry(candidate, isLastResort)) continue;
        }
        const { account, attempts: listener } = this.#request;
        const attempt = new Attempt(this.#services, candidate, account, listener);
        try {
          const value = await this.#request.tryRoute(attempt);
          attempt.answered();
          return { value };
        } catch (thrown) {
          if (this.#fail(candidate, failureOf(attempt, thrown, this.#request))) attempts += 1;
        }
        if (attempts === ATTEMPTS_MAX) break;
      }
    } finally {
      releaseRetry?.();
    }
    return undefined;
  }

  /** The error for the client when no candidate is left. */
  failure(): ApiError {
    // All providers are at `max_concurrent`.
    if (!this.#last && this.#sawBusy) return rateLimitExceeded();
    const { account } = this.#request;
    const last = this.#last;
    const refusal = last?.fault === "tooLarge" ? this.#request.callerFault(last) : undefined;
    if (refusal) return refusal;
    if (last?.fault === "gateway") return serviceUnavailable(last);
    const { health } = this.#services;
    const waitMs = Math.min(
      ...this.#supported.map((candidate) => health.waitMs(candidate, account)),
    );
    // After a provider's rate limit the 502 always has `retry-after`, which is at least 1 s.
    const isWaitKnown = Number.isFinite(waitMs) && (waitMs > 0 || this.#sawLimit);
    return allProvidersUnavailable(isWaitKnown ? waitMs : undefined);
  }

  #mayTry(candidate: Candidate, isLastResort: boolean): boolean {
    const { health } = this.#services;
    const { account } = this.#request;
    if (health.waitMs(candidate, account) > 0) {
      health.skipped(candidate);
      return isLastResort && !isAtLimit(candidate) && health.takeLastResort(candidate, account);
    }
    const isBusy = isAtLimit(candidate);
    this.#sawBusy ||= isBusy;
    return !isBusy;
  }

  /** Records a failed attempt. False if nothing was sent. Throws the error if no other route may be tried. */
  #fail(candidate: Candidate, error: UpstreamError): boolean {
    if (error.fault === "unsupported") {
      this.#supported = this.#supported.filter((other) => other !== candidate);
      return false;
    }
    this.#attempts += 1;
    this.#last = error;
    this.#sawLimit ||= error.fault === "rateLimited";
    if (error.fault === "excessive" || this.#request.isAbandoned) throw error;
    return true;
  }
}

/** Ends an attempt that threw, and returns its failure. Throws ApiError if the caller is at fault. */
function failureOf(
  attempt: Attempt,
  thrown: unknown,
  request: Pick<Dispatch<unknown>, "callerFault">,
): UpstreamError {
  const error = upstreamErrorOf(thrown);
  if (!error) {
    // A bug of the gateway: it does not count for the route, and no other route is tried.
    attempt.ended(ownFault(thrown));
    throw thrown;
  }
  // Another route may accept the size.
  const refusal = error.fault === "tooLarge" ? undefined : request.callerFault(error);
  attempt.ended(error, refusal !== undefined);
  if (refusal && error.fault !== "unsupported") throw refusal;
  return error;
}

/** True if the route is not in cooldown, its breaker is not open, and its provider is below `max_concurrent`. */
export function isAvailable(candidate: Candidate, account: number, health: RouteHealth): boolean {
  return health.waitMs(candidate, account) === 0 && !isAtLimit(candidate);
}

/**
 * Limits concurrent third attempts to a share of the requests in flight, but at least a few. Requests that fail
 * everywhere then do not multiply the load on providers that already fail.
 */
export interface RetryBudget {
  /** Returns a function that must be called once to release the slot; undefined if no slot is free. */
  take(inFlight: number): (() => void) | undefined;
}

/** The defaults of Envoy's retry budget: https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/circuit_breaker.proto */
const SHARE = 0.2;
const RETRIES_MIN = 3;
const BACKOFF_MIN_MS = 50;
const BACKOFF_MAX_MS = 500;

/** `onRefused` is called for each third attempt that is refused. */
export function createRetryBudget(onRefused: () => void): RetryBudget {
  let taken = 0;
  return {
    take(inFlight) {
      if (taken >= Math.max(RETRIES_MIN, Math.floor(inFlight * SHARE))) {
        onRefused();
        return undefined;
      }
      taken += 1;
      let isTaken = true;
      return () => {
        assert(isTaken, "a retry slot is released twice");
        isTaken = false;
        taken -= 1;
      };
    },
  };
}

/** The pause before a third attempt. `fraction` is a random number in [0, 1) that spreads the retries. */
function backoffMs(fraction: number): number {
  return BACKOFF_MIN_MS + fraction * (BACKOFF_MAX_MS - BACKOFF_MIN_MS);
}
