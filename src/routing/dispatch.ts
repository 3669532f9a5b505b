import { allProvidersUnavailable, rateLimitExceeded, type ApiError } from "../contract/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { Random } from "../lib/random.ts";
import { UpstreamError, upstreamErrorOf } from "../providers/upstream.ts";
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
   * resolves, it is its own to end the trial.
   */
  attempt(candidate: Candidate, trial: Trial): Promise<Answer>;
  /**
   * Hears of each attempt, and of its failure unless that is the caller's own; `cooldownMs` is how long
   * it puts the route aside.
   */
  attempted(
    record: AttemptRecord,
    candidate: Candidate,
    failure: { error: UpstreamError; cooldownMs: number } | undefined,
  ): void;
  /** What the client is told where a failure is its own fault: no other route is tried then. */
  callerFault(error: UpstreamError): ApiError | undefined;
  /** True when nobody waits for an answer any more: no further route is tried. */
  isAbandoned(): boolean;
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
 * else what is to be said when no route is left. An abandoned request throws its last UpstreamError.
 */
export async function dispatch<Answer>(options: Dispatch<Answer>): Promise<Dispatched<Answer>> {
  let attempts = 0;
  let busy = 0;
  const unfit = new Map<Candidate, UpstreamError>();
  let giveBack: (() => void) | undefined;
  const isPassedOver = (candidate: Candidate): boolean => {
    if (options.health.waitMs(candidate) > 0) return true;
    if (isBusy(candidate)) busy += 1;
    return isBusy(candidate);
  };
  try {
    for (const candidate of orderCandidates(options.candidates, options.random)) {
      if (isPassedOver(candidate)) continue;
      if (attempts === BUDGETED_ATTEMPT - 1 && !giveBack) {
        giveBack = options.retryBudget.take(options.underWay());
        if (!giveBack) break;
        await Bun.sleep(backoffMs(options.random.fraction()));
        if (options.isAbandoned()) break;
        if (isPassedOver(candidate)) continue;
      }
      const tried = await tryRoute(options, candidate);
      if (!(tried instanceof UpstreamError)) return { answer: tried.answer, candidate };
      if (tried.fault === "unfit") {
        unfit.set(candidate, tried);
        continue;
      }
      attempts += 1;
      const fault = options.callerFault(tried);
      if (fault) throw fault;
      if (options.isAbandoned()) throw tried;
      if (attempts === ATTEMPTS_MAX) break;
    }
  } finally {
    giveBack?.();
  }
  const fitting = options.candidates.filter((candidate) => !unfit.has(candidate));
  const [firstUnfit] = unfit.values();
  const fault = fitting.length === 0 && firstUnfit ? options.callerFault(firstUnfit) : undefined;
  if (fault) throw fault;
  // A provider whose places are all taken has one as soon as any of its requests ends.
  if (attempts === 0 && busy > 0) throw rateLimitExceeded();
  throw allProvidersUnavailable(soonestMs(fitting, options.health));
}

/** Tries one route; what it fails with is the next one's to make good. */
async function tryRoute<Answer>(
  options: Dispatch<Answer>,
  candidate: Candidate,
): Promise<{ answer: Answer } | UpstreamError> {
  const { health, clock } = options;
  const startedMs = clock.monotonicMs();
  const record = (outcome: string, status: number | null): AttemptRecord => ({
    provider: candidate.provider.id,
    outcome,
    status,
    durationMs: Math.round(clock.monotonicMs() - startedMs),
  });
  const trial = health.begin(candidate);
  try {
    const answer = await options.attempt(candidate, trial);
    trial.answered();
    options.attempted(record("ok", 200), candidate, undefined);
    return { answer };
  } catch (thrown) {
    const error = failureOf(thrown, trial);
    const isCallers = options.callerFault(error) !== undefined;
    const cooldownMs = trial.ended(error, isCallers);
    if (error.fault !== "unfit") {
      const failure = isCallers ? undefined : { error, cooldownMs };
      options.attempted(record(error.outcome, error.status ?? null), candidate, failure);
    }
    return error;
  }
}

/** A fault of our own says nothing of the route, and is not this loop's to handle. */
function failureOf(thrown: unknown, trial: Trial): UpstreamError {
  try {
    return upstreamErrorOf(thrown);
  } catch (cause) {
    trial.ended(new UpstreamError("gateway", "internal", { cause }));
    throw cause;
  }
}

function isBusy({ provider }: Candidate): boolean {
  const { maxConcurrent } = provider.config;
  return maxConcurrent > 0 && provider.upstream.openCount >= maxConcurrent;
}

/** When the first of the routes that are put aside is worth another try; undefined when one is now. */
function soonestMs(candidates: readonly Candidate[], health: RouteHealth): number | undefined {
  const waitMs = Math.min(...candidates.map((candidate) => health.waitMs(candidate)));
  return waitMs > 0 && Number.isFinite(waitMs) ? waitMs : undefined;
}
