import {
  allProvidersUnavailable,
  rateLimitExceeded,
  serviceUnavailable,
  SOON_MS,
  type ApiError,
} from "../contract/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { Random } from "../lib/random.ts";
import {
  ownFault,
  upstreamErrorOf,
  type UpstreamError,
  type UpstreamFault,
} from "../providers/upstream.ts";
import type { AttemptRecord } from "../store/store.ts";
import type { BreakerAttempt } from "./circuitBreaker.ts";
import { isUnreachable, limitWaitMs, takeRequest, type RouteHealth } from "./routeHealth.ts";
import { groupByModel, orderCandidates, type Candidate } from "./candidates.ts";
import { assert } from "../lib/assert.ts";

/** The services that the attempts of all requests share. */
export interface AttemptServices {
  readonly health: RouteHealth;
  readonly retryBudget: RetryBudget;
  readonly clock: Clock;
  readonly random: Random;
  /** `exchanges`: those of the whole gateway with all providers. */
  readonly inFlight: { readonly exchanges: { readonly size: number } };
}

/** Retained until the attempt ends, so it must not retain the request body (memory rules: docs/contribute/architecture.md). */
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
    { clock, health }: Pick<AttemptServices, "clock" | "health">,
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
 * The attempts of a request that need no retry budget: the first attempt and the first failover. The first attempt at each
 * further model needs none either.
 */
const FREE_ATTEMPTS = 2;
/** Attempts for one request at the routes of one model, each with the `total_timeout` of its provider. */
export const ATTEMPTS_MAX = 3;
/** Refusals beyond these attempts, in milliseconds of all of them together. Then each counts as an attempt. */
export const REFUSALS_MS_MAX = 30_000;

/** The provider refuses the operator's account. Another account may answer at once. */
const OF_ACCOUNT: ReadonlySet<UpstreamFault> = new Set([
  "account",
  "keyExpired",
  "modelQuota",
  "operator",
  "rateLimited",
]);

/**
 * The attempts of one request, in order. The caller makes each attempt. When one begins to answer, the caller ends the
 * loop, calls `answered`, and later `ended`. It gives every other attempt to `failed`. Without a further attempt it
 * throws `failure`.
 */
export class Attempts {
  readonly #candidates: readonly Candidate[];
  readonly #session: bigint | undefined;
  readonly #account: number;
  readonly #listener: AttemptListener;
  readonly #services: AttemptServices;
  /** The candidates of the current model that are left. */
  #waiting: Candidate[] = [];
  /** Candidates whose interface can express the request, as far as it is known. */
  #supported: readonly Candidate[];
  #count = 0;
  /** The attempts at routes of the current model. */
  #countOfModel = 0;
  #last: UpstreamError | undefined;
  /** The client's error for the last failure, if no other route takes the request. */
  #refusal: ApiError | undefined;
  /** Milliseconds until the limits of a candidate allow the request. */
  #busyMs = Infinity;
  #sawLimit = false;
  /** The time of the attempts that do not count. */
  #refusalsMs = 0;
  /** Candidates whose key had expired. */
  #triedAgain: readonly Candidate[] = [];
  /** Candidates that could not be connected to. */
  #unreachable: readonly Candidate[] = [];

  /** `candidates`: those of a fallback model come after those of the requested model. `session`: a hash of it. */
  constructor(
    {
      candidates,
      session,
    }: { readonly candidates: readonly Candidate[]; readonly session: bigint | undefined },
    account: number,
    listener: AttemptListener,
    services: AttemptServices,
  ) {
    this.#candidates = candidates;
    this.#session = session;
    this.#account = account;
    this.#listener = listener;
    this.#services = services;
    this.#supported = candidates;
  }

  /** A promise is the pause before the next attempt: the caller awaits it, and calls `resumed`. */
  *[Symbol.iterator](): Generator<Attempt | Promise<void>, void> {
    const groups = groupByModel(this.#candidates);
    for (const group of groups) yield* this.#ofModel(group, false);
    // A route was asked, or only has no free slot now.
    if (this.#last !== undefined || this.#busyMs < Infinity) return;
    for (const group of groups) yield* this.#ofModel(group, true);
  }

  /** `isLastResort`: routes whose breaker is open may be asked too, at a bounded rate. */
  *#ofModel(
    candidates: readonly Candidate[],
    isLastResort: boolean,
  ): Generator<Attempt | Promise<void>, void> {
    const { random, retryBudget, inFlight } = this.#services;
    let releaseRetry: (() => void) | undefined;
    this.#countOfModel = 0;
    try {
      const order = orderCandidates(candidates, this.#session, random);
      this.#waiting = withMissingKeysLast(order);
      for (let candidate; (candidate = this.#waiting.shift()) !== undefined;) {
        if (!this.#mayTry(candidate, isLastResort)) continue;
        const isFree = this.#countOfModel === 0 || this.#count < FREE_ATTEMPTS;
        if (this.#last && !isFree && !releaseRetry) {
          releaseRetry = retryBudget.take(inFlight.exchanges.size);
          if (!releaseRetry) return;
          yield Bun.sleep(backoffMs(random.fraction()));
          if (!this.#mayTry(candidate, isLastResort)) continue;
        }
        const ready = candidate.provider.key?.ready();
        if (ready) {
          yield ready;
          if (!this.#mayTry(candidate, isLastResort)) continue;
        }
        if (!takeRequest(candidate)) {
          this.#busyMs = Math.min(this.#busyMs, SOON_MS);
          continue;
        }
        yield new Attempt(this.#services, candidate, this.#account, this.#listener);
        if (this.#countOfModel === ATTEMPTS_MAX) return;
      }
    } finally {
      // Runs also if the caller ends the loop.
      releaseRetry?.();
    }
  }

  /** Throws the last failure if the request is abandoned: the client disconnected, or the gateway stops. */
  resumed(isAbandoned: boolean): void {
    if (isAbandoned && this.#last) throw this.#last;
  }

  /**
   * The attempt threw. `refusal`: the client's error if the caller is at fault. Throws if no other route may be tried: the
   * refusal, an error of our own code, or the UpstreamError of a request that is abandoned or whose answer exceeds a limit.
   */
  failed(
    attempt: Attempt,
    thrown: unknown,
    refusal: ApiError | undefined,
    isAbandoned: boolean,
  ): void {
    const error = upstreamErrorOf(thrown);
    if (!error) {
      // A bug of the gateway: it does not count for the route, and no other route is tried.
      attempt.ended(ownFault(thrown));
      throw thrown;
    }
    const { fault } = error;
    // Another route may accept the size.
    const isCallers = refusal !== undefined && fault !== "tooLarge";
    attempt.ended(error, isCallers);
    const { candidate } = attempt;
    if (fault === "unsupported") {
      candidate.provider.rate?.giveBack();
      this.#supported = this.#supported.filter((other) => other !== candidate);
      return;
    }
    if (isCallers) throw refusal;
    if (this.#counts(attempt, error)) {
      this.#count += 1;
      this.#countOfModel += 1;
    }
    this.#last = error;
    this.#refusal = refusal;
    this.#sawLimit ||= fault === "rateLimited";
    if (fault === "excessive" || isAbandoned) throw error;
    if (fault === "provider") this.#putLast(candidate);
    if (fault === "keyExpired") this.#tryAgain(candidate);
  }

  /**
   * Whether a failed attempt is one of the few that a request has. A quick refusal of one account is not, so that each
   * account may be asked. Neither is a failed connection, unless it is another one to the same server.
   */
  #counts({ candidate, startedMs }: Attempt, error: UpstreamError): boolean {
    const isUnconnected = isUnreachable(error) && error.outcome !== "timeout";
    const isFirst = !this.#unreachable.some((other) => isOfSameServer(other, candidate));
    if (isUnconnected) this.#unreachable = this.#unreachable.concat(candidate);
    if (!OF_ACCOUNT.has(error.fault) && !(isUnconnected && isFirst)) return true;
    this.#refusalsMs += this.#services.clock.monotonicMs() - startedMs;
    return this.#refusalsMs > REFUSALS_MS_MAX;
  }

  /** With the new key of the provider, after all others. */
  #tryAgain(candidate: Candidate): void {
    if (this.#triedAgain.includes(candidate)) return;
    this.#triedAgain = this.#triedAgain.concat(candidate);
    this.#waiting.push(candidate);
  }

  /** A server that fails likely fails for its other accounts too: they come after all other routes. */
  #putLast(failed: Candidate): void {
    const isSame = (other: Candidate): boolean =>
      other.route === failed.route && isOfSameServer(other, failed);
    const accounts = this.#waiting.filter(isSame);
    if (accounts.length > 0)
      this.#waiting = this.#waiting.filter((other) => !isSame(other)).concat(accounts);
  }

  /** The error for the client when no attempt is left. */
  failure(): ApiError {
    const last = this.#last;
    // All providers are at a limit of the config.
    if (!last && this.#busyMs < Infinity) return rateLimitExceeded(this.#busyMs);
    if (this.#refusal) return this.#refusal;
    if (last?.fault === "gateway") return serviceUnavailable(last);
    const { health } = this.#services;
    const waitMs = Math.min(
      ...this.#supported.map((candidate) => health.waitMs(candidate, this.#account)),
    );
    // After a provider's rate limit the 502 always has `retry-after`, which is at least 1 s.
    const isWaitKnown = Number.isFinite(waitMs) && (waitMs > 0 || this.#sawLimit);
    return allProvidersUnavailable(isWaitKnown ? waitMs : undefined);
  }

  #mayTry(candidate: Candidate, isLastResort: boolean): boolean {
    const { health } = this.#services;
    if (health.waitMs(candidate, this.#account) > 0) {
      health.skipped(candidate);
      return (
        isLastResort &&
        limitWaitMs(candidate) === 0 &&
        health.takeLastResort(candidate, this.#account)
      );
    }
    const busyMs = limitWaitMs(candidate);
    if (busyMs > 0) this.#busyMs = Math.min(this.#busyMs, busyMs);
    return busyMs === 0;
  }
}

/** Those whose key has to be awaited come last. */
function withMissingKeysLast(candidates: Candidate[]): Candidate[] {
  const isAwaited = ({ provider: { key } }: Candidate): boolean =>
    key !== undefined && key.key === undefined;
  if (!candidates.some(isAwaited)) return candidates;
  return candidates.filter((one) => !isAwaited(one)).concat(candidates.filter(isAwaited));
}

function isOfSameServer({ provider: one }: Candidate, { provider: other }: Candidate): boolean {
  return (
    one.config.baseUrl === other.config.baseUrl && one.config.proxyUrl === other.config.proxyUrl
  );
}

/**
 * True if the route is not in cooldown, its breaker is not open, and its provider is below its limits. The request counts for
 * them then.
 */
export function takeAvailable(candidate: Candidate, account: number, health: RouteHealth): boolean {
  const isReady = health.waitMs(candidate, account) === 0 && limitWaitMs(candidate) === 0;
  return isReady && takeRequest(candidate);
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
