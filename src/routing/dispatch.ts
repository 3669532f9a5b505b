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
  /** Requests under way in the whole gateway now. */
  underWay(): number;
  /**
   * Tries one route. What it throws before it resolves may still be made good by the next; once it
   * resolves, it is its own to tell how the attempt ended.
   */
  attempt(candidate: Candidate, ended: EndAttempt): Promise<Answer>;
  /** It is kept as long as an attempt lasts (of closures: gateway/gateway.ts). */
  readonly attempted: AttemptListener;
  /** What the client is told where a failure is its own fault: no other route is tried then. */
  callerFault(error: UpstreamError): ApiError | undefined;
  /** True when nobody waits for an answer any more, or none may be given: no further route is tried. */
  isAbandoned(): boolean;
}

/** Tells that an attempt is over, by `error` or well; only the first call counts. What `isCallers` says nothing of the route. */
export type EndAttempt = (error?: UpstreamError, isCallers?: boolean) => void;

/** Hears of each attempt once it is over, and of its failure unless that is the caller's own. */
export type AttemptListener = (
  record: AttemptRecord,
  candidate: Candidate,
  failure: AttemptFailure | undefined,
) => void;

/** Why an attempt failed, and how long that puts its route aside. */
export interface AttemptFailure {
  readonly error: UpstreamError;
  readonly cooldownMs: number;
}

export interface DispatchResult<Answer> {
  answer: Answer;
  candidate: Candidate;
}

/** The first failover is free; from this attempt on it takes a place of the retry budget. */
const BUDGETED_ATTEMPT = 3;
/** At the routes of one request, each for its provider's `total_timeout` at most. */
export const ATTEMPTS_MAX = 3;

/**
 * Walks the candidates until one begins to answer. Throws ApiError: the caller's own fault at once,
 * else what is to be said when no route is left. A request that is abandoned, or whose answer is in excess, throws its
 * last UpstreamError.
 */
export async function dispatch<Answer>(options: Dispatch<Answer>): Promise<DispatchResult<Answer>> {
  let attempts = 0;
  let last: UpstreamError | undefined;
  let sawBusy = false;
  let sawLimit = false;
  /** Those that have no words for the request. That others have, its caller has seen to. */
  const unfit = new Set<Candidate>();
  let giveBack: (() => void) | undefined;
  const { health } = options;
  try {
    for (const candidate of orderCandidates(options.candidates, options.random)) {
      if (!isFree(candidate, health)) {
        sawBusy ||= health.waitMs(candidate) === 0;
        continue;
      }
      if (last && attempts === BUDGETED_ATTEMPT - 1 && !giveBack) {
        giveBack = options.retryBudget.take(options.underWay());
        if (!giveBack) break;
        await Bun.sleep(backoffMs(options.random.fraction()));
        if (options.isAbandoned()) throw last;
        if (!isFree(candidate, health)) continue;
      }
      const tried = await tryRoute(options, candidate);
      if ("answer" in tried) return { answer: tried.answer, candidate };
      const { error, refusal } = tried;
      if (error.fault === "unfit") {
        unfit.add(candidate);
        continue;
      }
      attempts += 1;
      last = error;
      sawLimit ||= error.fault === "limited";
      if (refusal) throw refusal;
      if (error.fault === "excess" || options.isAbandoned()) throw error;
      if (attempts === ATTEMPTS_MAX) break;
    }
  } finally {
    giveBack?.();
  }
  const fitting = options.candidates.filter((candidate) => !unfit.has(candidate));
  // A provider whose places are all taken has one as soon as any of its requests ends.
  if (attempts === 0 && sawBusy) throw rateLimitExceeded();
  const waitMs = Math.min(...fitting.map((candidate) => health.waitMs(candidate)));
  // After a provider's rate limit the 502 always has `retry-after`, which is at least 1 s.
  const isWaitKnown = Number.isFinite(waitMs) && (waitMs > 0 || sawLimit);
  throw allProvidersUnavailable(isWaitKnown ? waitMs : undefined);
}

/** What came of one route: its answer, or why there is none, with what the client is told where that is its own fault. */
type RouteResult<Answer> =
  | { answer: Answer }
  | { error: UpstreamError; refusal: ApiError | undefined };

/** Tries one route; what it fails with is the next one's to make good. */
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
      // A fault of our own says nothing of the route, and is not this loop's to handle.
      ended(ownFault(thrown));
      throw thrown;
    }
    const refusal = options.callerFault(error);
    ended(error, refusal !== undefined);
    return { error, refusal };
  }
}

/** A function of its own, for a stream keeps what it returns (of closures: gateway/gateway.ts). */
function attemptEnd(
  clock: Clock,
  candidate: Candidate,
  tracker: AttemptTracker,
  attempted: AttemptListener,
): EndAttempt {
  const startedMs = clock.monotonicMs();
  return (error, isCallers = false) => {
    const cooldownMs = tracker.ended(error, isCallers);
    // Of what is unfit nothing was sent.
    if (cooldownMs === undefined || error?.fault === "unfit") return;
    const record: AttemptRecord = {
      provider: candidate.provider.id,
      outcome: error?.outcome ?? "ok",
      status: error ? (error.status ?? null) : 200,
      durationMs: Math.round(clock.monotonicMs() - startedMs),
    };
    attempted(record, candidate, error && !isCallers ? { error, cooldownMs } : undefined);
  };
}

/** Neither put aside nor with all places of its provider taken. */
function isFree(candidate: Candidate, health: RouteHealth): boolean {
  if (health.waitMs(candidate) > 0) return false;
  const { config, upstream } = candidate.provider;
  return config.maxConcurrent === 0 || upstream.open.count < config.maxConcurrent;
}

/**
 * Limits third attempts, so that requests which fail everywhere do not become a storm on providers that
 * are in trouble already: a share of the requests under way, and always a few.
 */
export interface RetryBudget {
  /** Takes a place among the third attempts under way, to be given back once by what it returns; undefined: none is free. */
  take(underWay: number): (() => void) | undefined;
}

/** As Envoy's retry budget has them: https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/circuit_breaker.proto */
const SHARE = 0.2;
const PLACES_MIN = 3;
/** Long enough to come after a short stumble, and short beside any answer. */
const BACKOFF_MIN_MS = 50;
const BACKOFF_MAX_MS = 500;

/** `onRefused` is told of each third attempt that found no place. */
export function createRetryBudget(onRefused: () => void): RetryBudget {
  let taken = 0;
  return {
    take(underWay) {
      if (taken >= Math.max(PLACES_MIN, Math.floor(underWay * SHARE))) {
        onRefused();
        return undefined;
      }
      taken += 1;
      let isTaken = true;
      return () => {
        assert(isTaken, "a place for a retry is given back twice");
        isTaken = false;
        taken -= 1;
      };
    },
  };
}

/** How long a third attempt waits; `fraction` is a chance in [0, 1), so that many do not come back at once. */
function backoffMs(fraction: number): number {
  return BACKOFF_MIN_MS + fraction * (BACKOFF_MAX_MS - BACKOFF_MIN_MS);
}
