import { allProvidersUnavailable, rateLimitExceeded, type ApiError } from "../contract/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { Random } from "../lib/random.ts";
import { ownFault, upstreamErrorOf, type UpstreamError } from "../providers/upstream.ts";
import type { AttemptRecord } from "../store/store.ts";
import type { RouteHealth, AttemptTracker } from "./routeHealth.ts";
import { orderCandidates, type Candidate } from "./candidates.ts";
import { assert } from "../lib/assert.ts";

export interface Dispatch<Answer> {
  candidates: readonly Candidate[];
  health: RouteHealth;
  retryBudget: RetryBudget;
  clock: Clock;
  random: Random;
  /** Exchanges with providers in flight in the whole gateway. */
  exchangesInFlight(): number;
  /**
   * Tries one route. If it throws, another route may be tried. After it resolves, it must call `ended` itself.
   */
  attempt(candidate: Candidate, ended: EndAttempt): Promise<Answer>;
  /** Retained until the attempt ends, so it must not capture the request body (memory rules: docs/architecture.md). */
  readonly attempted: AttemptListener;
  /** The client's error if the caller is at fault; then no other route is tried. */
  callerFault(error: UpstreamError): ApiError | undefined;
  /** True if no further route may be tried: the client disconnected, or the gateway stops. */
  isAbandoned(): boolean;
}

/** Ends an attempt, as failed if there is an error. Only the first call counts. An error that `isCallers` says nothing about the route. */
export type EndAttempt = (error?: UpstreamError, isCallers?: boolean) => void;

/** Called once for each attempt that ended. `failure` is missing if the attempt succeeded or the caller is at fault. */
export type AttemptListener = (
  record: AttemptRecord,
  candidate: Candidate,
  failure: AttemptFailure | undefined,
) => void;

/** Why an attempt failed, and the cooldown of its route in milliseconds. */
export interface AttemptFailure {
  readonly error: UpstreamError;
  readonly cooldownMs: number;
}

export interface DispatchResult<Answer> {
  answer: Answer;
  candidate: Candidate;
}

/** From this attempt on, a request needs the retry budget. The first failover is always allowed. */
const BUDGETED_ATTEMPT = 3;
/** Attempts for one request, each with the `total_timeout` of its provider. */
export const ATTEMPTS_MAX = 3;

/**
 * Tries the candidates until one begins to answer. Throws ApiError if the caller is at fault, or if no candidate is left.
 * Throws the last UpstreamError if the request is abandoned or its answer exceeds a limit.
 */
export async function dispatch<Answer>(options: Dispatch<Answer>): Promise<DispatchResult<Answer>> {
  let attempts = 0;
  let last: UpstreamError | undefined;
  let sawBusy = false;
  let sawLimit = false;
  /** Candidates whose interface cannot express the request. */
  const unsupported = new Set<Candidate>();
  let releaseRetry: (() => void) | undefined;
  const { health } = options;
  try {
    for (const candidate of orderCandidates(options.candidates, options.random)) {
      if (!isAvailable(candidate, health)) {
        sawBusy ||= health.waitMs(candidate) === 0;
        continue;
      }
      if (last && attempts === BUDGETED_ATTEMPT - 1 && !releaseRetry) {
        releaseRetry = options.retryBudget.take(options.exchangesInFlight());
        if (!releaseRetry) break;
        await Bun.sleep(backoffMs(options.random.fraction()));
        if (options.isAbandoned()) throw last;
        if (!isAvailable(candidate, health)) continue;
      }
      const result = await tryRoute(options, candidate);
      if ("answer" in result) return { answer: result.answer, candidate };
      const { error, refusal } = result;
      if (error.fault === "unsupported") {
        unsupported.add(candidate);
        continue;
      }
      attempts += 1;
      last = error;
      sawLimit ||= error.fault === "rateLimited";
      if (refusal) throw refusal;
      if (error.fault === "excessive" || options.isAbandoned()) throw error;
      if (attempts === ATTEMPTS_MAX) break;
    }
  } finally {
    releaseRetry?.();
  }
  const supported = options.candidates.filter((candidate) => !unsupported.has(candidate));
  // All providers are at `max_concurrent`.
  if (attempts === 0 && sawBusy) throw rateLimitExceeded();
  const waitMs = Math.min(...supported.map((candidate) => health.waitMs(candidate)));
  // After a provider's rate limit the 502 always has `retry-after`, which is at least 1 s.
  const isWaitKnown = Number.isFinite(waitMs) && (waitMs > 0 || sawLimit);
  throw allProvidersUnavailable(isWaitKnown ? waitMs : undefined);
}

/** The answer of one route, or its failure. `refusal` is the client's error if the caller is at fault. */
type RouteResult<Answer> =
  | { answer: Answer }
  | { error: UpstreamError; refusal: ApiError | undefined };

async function tryRoute<Answer>(
  options: Dispatch<Answer>,
  candidate: Candidate,
): Promise<RouteResult<Answer>> {
  const tracker = options.health.begin(candidate);
  const ended = attemptEnd(options.clock, candidate, tracker, options.attempted);
  try {
    const answer = await options.attempt(candidate, ended);
    tracker.answered();
    return { answer };
  } catch (thrown) {
    const error = upstreamErrorOf(thrown);
    if (!error) {
      // A bug of the gateway: it does not count for the route, and no other route is tried.
      ended(ownFault(thrown));
      throw thrown;
    }
    const refusal = options.callerFault(error);
    ended(error, refusal !== undefined);
    return { error, refusal };
  }
}

/** A separate function, because a stream retains its result (memory rules: docs/architecture.md). */
function attemptEnd(
  clock: Clock,
  candidate: Candidate,
  tracker: AttemptTracker,
  attempted: AttemptListener,
): EndAttempt {
  const startedMs = clock.monotonicMs();
  return (error, isCallers = false) => {
    const cooldownMs = tracker.ended(error, isCallers);
    // Nothing was sent for an unsupported request.
    if (cooldownMs === undefined || error?.fault === "unsupported") return;
    const record: AttemptRecord = {
      provider: candidate.provider.id,
      outcome: error?.outcome ?? "ok",
      status: error ? (error.status ?? null) : 200,
      durationMs: Math.round(clock.monotonicMs() - startedMs),
    };
    attempted(record, candidate, error && !isCallers ? { error, cooldownMs } : undefined);
  };
}

/** True if the route is not in cooldown, its breaker is not open, and its provider is below `max_concurrent`. */
function isAvailable(candidate: Candidate, health: RouteHealth): boolean {
  if (health.waitMs(candidate) > 0) return false;
  const { config, upstream } = candidate.provider;
  return config.maxConcurrent === 0 || upstream.open.count < config.maxConcurrent;
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
