import { allProvidersUnavailable, rateLimitExceeded, type ApiError } from "../contract/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { upstreamErrorOf, type UpstreamError } from "../providers/upstream.ts";
import type { AttemptRecord } from "../store/store.ts";
import type { Cooldowns } from "./cooldown.ts";
import type { Candidate } from "./order.ts";

export interface Dispatch<Answer> {
  /** In the order of trying. */
  candidates: readonly Candidate[];
  cooldowns: Cooldowns;
  clock: Clock;
  /** Tries one route. What it throws before it resolves may still be made good by the next. */
  attempt(candidate: Candidate): Promise<Answer>;
  /** Hears of each attempt; `cooldownMs` is how long a failure puts the route aside. */
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

const ATTEMPTS_MAX = 3;
/** A provider whose places are all taken has one as soon as any of its requests ends. */
const BUSY_RETRY_SECONDS = 1;

/**
 * Walks the candidates until one begins to answer. Throws ApiError: the caller's own fault at once,
 * else what is to be said when no route is left. An abandoned request throws its last UpstreamError.
 */
export async function dispatch<Answer>(options: Dispatch<Answer>): Promise<Dispatched<Answer>> {
  const { cooldowns, clock } = options;
  let attempts = 0;
  let busy = 0;
  let unfit: UpstreamError | undefined;
  for (const candidate of options.candidates) {
    if (attempts === ATTEMPTS_MAX) break;
    if (cooldowns.waitMs(candidate) > 0) continue;
    if (isBusy(candidate)) {
      busy += 1;
      continue;
    }
    attempts += 1;
    const startedMs = clock.monotonicMs();
    const record = (outcome: string, status: number | null): AttemptRecord => ({
      provider: candidate.provider.id,
      outcome,
      status,
      durationMs: Math.round(clock.monotonicMs() - startedMs),
    });
    try {
      const answer = await options.attempt(candidate);
      options.attempted(record("ok", 200), candidate, undefined);
      return { answer, candidate };
    } catch (thrown) {
      const error = upstreamErrorOf(thrown);
      if (error.fault === "unfit") {
        attempts -= 1;
        unfit ??= error;
        continue;
      }
      const cooldownMs = cooldowns.note(candidate, error);
      options.attempted(record(error.outcome, error.status ?? null), candidate, {
        error,
        cooldownMs,
      });
      const fault = options.callerFault(error);
      if (fault) throw fault;
      if (options.isAbandoned()) throw error;
    }
  }
  const fault = attempts === 0 && unfit ? options.callerFault(unfit) : undefined;
  if (fault) throw fault;
  if (attempts === 0 && busy > 0) throw rateLimitExceeded(BUSY_RETRY_SECONDS);
  throw allProvidersUnavailable(soonestSeconds(options.candidates, cooldowns));
}

function isBusy({ provider }: Candidate): boolean {
  const { maxConcurrent } = provider.config;
  return maxConcurrent > 0 && provider.upstream.openCount >= maxConcurrent;
}

/** When the first of the routes that are put aside is worth another try; undefined when one is now. */
function soonestSeconds(
  candidates: readonly Candidate[],
  cooldowns: Cooldowns,
): number | undefined {
  const soonestMs = Math.min(...candidates.map((candidate) => cooldowns.waitMs(candidate)));
  return soonestMs > 0 && Number.isFinite(soonestMs) ? soonestMs / 1000 : undefined;
}
