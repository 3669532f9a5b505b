import { allProvidersUnavailable, rateLimitExceeded, type ApiError } from "../contract/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { Random } from "../lib/random.ts";
import { ownFault, upstreamErrorOf, type UpstreamError } from "../providers/upstream.ts";
import type { AttemptRecord } from "../store/store.ts";
import type { RouteHealth, Trial } from "./health.ts";
import { orderCandidates, type Candidate } from "./order.ts";
import { backoffMs, type RetryBudget } from "./retryBudget.ts";

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
  attempt(candidate: Candidate, ended: AttemptEnded): Promise<Answer>;
  /** It is kept as long as an attempt lasts (of closures: gateway/gateway.ts). */
  readonly attempted: Attempted;
  /** What the client is told where a failure is its own fault: no other route is tried then. */
  callerFault(error: UpstreamError): ApiError | undefined;
  /** True when nobody waits for an answer any more, or none may be given: no further route is tried. */
  isAbandoned(): boolean;
}

/** Tells that an attempt is over, by `error` or well; only the first call counts. What `isCallers` says nothing of the route. */
export type AttemptEnded = (error?: UpstreamError, isCallers?: boolean) => void;

/** Hears of each attempt once it is over, and of its failure unless that is the caller's own. */
export type Attempted = (
  record: AttemptRecord,
  candidate: Candidate,
  failure: AttemptFailure | undefined,
) => void;

/** Why an attempt failed, and how long that puts its route aside. */
export interface AttemptFailure {
  readonly error: UpstreamError;
  readonly cooldownMs: number;
}

export interface Dispatched<Answer> {
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
export async function dispatch<Answer>(options: Dispatch<Answer>): Promise<Dispatched<Answer>> {
  let attempts = 0;
  let last: UpstreamError | undefined;
  let sawBusy = false;
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
  throw allProvidersUnavailable(soonestMs(fitting, health));
}

/** What came of one route: its answer, or why there is none, with what the client is told where that is its own fault. */
type Tried<Answer> = { answer: Answer } | { error: UpstreamError; refusal: ApiError | undefined };

/** Tries one route; what it fails with is the next one's to make good. */
async function tryRoute<Answer>(
  options: Dispatch<Answer>,
  candidate: Candidate,
): Promise<Tried<Answer>> {
  const trial = options.health.begin(candidate);
  const ended = attemptEnd(options.clock, candidate, trial, options.attempted);
  try {
    const answer = await options.attempt(candidate, ended);
    trial.answered();
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
  trial: Trial,
  attempted: Attempted,
): AttemptEnded {
  const startedMs = clock.monotonicMs();
  return (error, isCallers = false) => {
    const cooldownMs = trial.ended(error, isCallers);
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

/** When the first of the routes that are put aside is worth another try; undefined when one is now. */
function soonestMs(candidates: readonly Candidate[], health: RouteHealth): number | undefined {
  const waitMs = Math.min(...candidates.map((candidate) => health.waitMs(candidate)));
  return waitMs > 0 && Number.isFinite(waitMs) ? waitMs : undefined;
}
