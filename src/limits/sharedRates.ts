import type { Clock } from "../lib/clock.ts";
import { systemRandom } from "../lib/random.ts";
import type { Log } from "../telemetry/log.ts";
import type { SharedLimitsFigures } from "../telemetry/metrics.ts";
import {
  RateLimitPermit,
  ownCells,
  RatesByKey,
  type FindCells,
  type KeyLimits,
  type KeyRates,
  type RateCounter,
} from "./keyRates.ts";
import {
  LocalRates,
  type LiveReplicas,
  type RateLimitAdmission,
  type RateLimiter,
} from "./rateLimits.ts";
import { LimitsServer, serverTimes, type ServerTimes } from "./server/limitsServer.ts";
import {
  admitCall,
  correctTokensCall,
  probeCall,
  readAdmission,
  readTokens,
  releaseCall,
  renewCall,
  takeTokensCall,
  type Reply,
  type ScriptCall,
} from "./server/scripts.ts";
import type { RateLimitResult } from "./tokenBucket.ts";

/** A slot expires this long after its last renewal: its replica is dead or cut off from the server. */
export interface SharedTimes extends ServerTimes {
  readonly slotLifeMs: number;
  readonly renewEveryMs: number;
}

const sharedTimes: SharedTimes = { ...serverTimes, slotLifeMs: 15_000, renewEveryMs: 5000 };

/** Events of the limits server. The calls must not throw. */
export interface SharedRatesListener {
  /** Called once for each outage, and again if the server turns out to refuse this client. `problem` is in words. */
  lost(problem: string): void;
  /** The outage is over. `byShare`: the requests that were counted here meanwhile. */
  back(outage: { readonly durationMs: number; readonly byShare: number }): void;
}

export interface SharedRatesOptions {
  readonly url: string;
  readonly clock: Clock;
  readonly replicas: LiveReplicas;
  readonly cells?: FindCells | undefined;
  readonly listener: SharedRatesListener;
  /** Tests use other times. */
  readonly times?: Partial<SharedTimes>;
}

export interface SharedRates extends RateLimiter {
  figures(): SharedLimitsFigures;
  /** Closes the connection. All permits should have been released. */
  close(): Promise<void>;
}

/**
 * Rate and concurrency of all keys, counted over all replicas by a Valkey or Redis server. While it cannot be used, a
 * replica admits its share of each limit. It begins to connect at once, and until it is connected it admits its share.
 */
export function openSharedRates(options: SharedRatesOptions): SharedRates {
  return new CountedByServer(options);
}

export function logLimitsServer(log: Log): SharedRatesListener {
  return {
    lost: (problem) =>
      log.warn("limits_server_unusable", {
        problem,
      }),
    back: ({ durationMs, byShare }) =>
      log.info("the limits server is back: limits count over all replicas again", {
        duration_ms: Math.round(durationMs),
        count: byShare,
      }),
  };
}

/** The most names in one call that renews slots. More would keep the server busy while requests wait. */
const RENEWED_AT_ONCE = 200;

class CountedByServer implements SharedRates {
  readonly clock: Clock;
  readonly #share: LocalRates;
  readonly #server: LimitsServer;
  readonly #slotLifeMs: number;
  readonly #keys: RatesByKey;
  readonly #open = new Set<SharedRequest>();
  readonly #renewal: ReturnType<typeof setInterval>;
  readonly #name = Buffer.from(systemRandom.bytes(9)).toString("base64url");
  #requestCount = 0;
  #byShare = 0;
  #byShareBefore = 0;
  #isRenewing = false;

  constructor({ url, clock, replicas, cells = ownCells, listener, times }: SharedRatesOptions) {
    const { slotLifeMs, renewEveryMs, ...rest } = { ...sharedTimes, ...times };
    this.clock = clock;
    this.#share = new LocalRates(clock, replicas, cells);
    this.#keys = new RatesByKey(cells);
    this.#slotLifeMs = slotLifeMs;
    this.#server = new LimitsServer(url, rest, {
      usable: () => void this.#renew(),
      lost: (problem) => listener.lost(problem),
      back: (durationMs) => listener.back({ durationMs, byShare: this.#takeByShare() }),
    });
    this.#renewal = setInterval(() => void this.#renew(), renewEveryMs);
    this.#renewal.unref();
  }

  admit(keyId: number, limits: KeyLimits): RateLimitAdmission | Promise<RateLimitAdmission> {
    const nowMs = this.clock.monotonicMs();
    const rates = this.#keys.use(keyId, nowMs);
    const name = `${this.#name}.${(this.#requestCount += 1).toString(36)}`;
    const request = new SharedRequest(this, rates, name);
    if (hasLimits(limits)) {
      return this.#server.isUsable
        ? this.#askForSlot(request, limits)
        : this.#admitShare(request, limits);
    }
    rates.adjust(limits, 1);
    rates.takeSlot(0);
    return this.#permitted(request);
  }

  async #askForSlot(request: SharedRequest, limits: KeyLimits): Promise<RateLimitAdmission> {
    const { rates, name } = request;
    request.hasSlot = limits.concurrentRequests > 0;
    rates.asking += 1;
    const reply = await this.#server.ask(
      admitCall(rates.keyId, limits, { name, lifeMs: this.#slotLifeMs }),
      (late) => this.#dropLateSlot(request, late),
    );
    rates.asking -= 1;
    if (reply === undefined) return this.#admitShare(request, limits);
    const { result, requestLevel, tokenLevel, usedSlots } = readAdmission(reply);
    const nowMs = this.clock.monotonicMs();
    rates.adjust(limits, 1);
    rates.requests?.setLevel(requestLevel, nowMs);
    rates.tokens?.setLevel(tokenLevel, nowMs);
    if (result.ok) rates.takeSlot(0);
    const admission = result.ok ? this.#permitted(request) : { ...result, buckets: rates };
    rates.openElsewhere = Math.max(0, usedSlots - rates.open);
    return admission;
  }

  #admitShare(request: SharedRequest, limits: KeyLimits): RateLimitAdmission {
    this.#countByShare(request);
    const { rates } = request;
    const result = this.#share.admitShare(rates, limits, this.clock.monotonicMs());
    return result.ok ? this.#permitted(request) : { ...result, buckets: rates };
  }

  /** The request has a slot of its rates. */
  #permitted(request: SharedRequest): RateLimitAdmission {
    request.isOpen = true;
    this.#open.add(request);
    return { ok: true, permit: new RateLimitPermit(request.rates, request) };
  }

  /** An answer that came too late to count. A request that this replica admitted by itself keeps the slot. */
  #dropLateSlot({ isOpen, hasSlot, rates, name }: SharedRequest, late: Reply | undefined): void {
    if (isOpen || !hasSlot || late === undefined || !readAdmission(late).result.ok) return;
    this.#server.send(releaseCall(rates.keyId, name));
  }

  takeTokens(request: SharedRequest, estimate: number): RateLimitResult | Promise<RateLimitResult> {
    if (request.rates.tokens === undefined) return { ok: true };
    return this.#server.isUsable
      ? this.#askForTokens(request, estimate)
      : this.#takeShare(request, estimate);
  }

  async #askForTokens(request: SharedRequest, estimate: number): Promise<RateLimitResult> {
    const { rates } = request;
    const { keyId, limits } = rates;
    const reply = await this.#server.ask(
      takeTokensCall(keyId, limits.tokensPerMinute, estimate),
      (late) => {
        // The request's tokens are sent when they are counted: the server has not seen them.
        if (late === undefined || !readTokens(late).result.ok) return;
        this.#server.send(correctTokensCall(keyId, limits.tokensPerMinute, -estimate));
      },
    );
    if (reply === undefined) return this.#takeShare(request, estimate);
    const { result, level } = readTokens(reply);
    const nowMs = this.clock.monotonicMs();
    rates.adjust(limits, 1);
    rates.tokens?.setLevel(level, nowMs);
    return result;
  }

  #takeShare(request: SharedRequest, estimate: number): RateLimitResult {
    this.#countByShare(request);
    request.unsentTokens = estimate;
    return this.#share.takeShare(request.rates, estimate);
  }

  correctTokens({ rates, unsentTokens }: SharedRequest, difference: number): void {
    this.#share.correctTokens(rates, difference);
    const { tokensPerMinute } = rates.limits;
    const unsent = unsentTokens + difference;
    if (tokensPerMinute > 0 && unsent !== 0)
      this.#server.send(correctTokensCall(rates.keyId, tokensPerMinute, unsent));
  }

  released(request: SharedRequest): void {
    request.isOpen = false;
    this.#open.delete(request);
    if (request.hasSlot) this.#server.send(releaseCall(request.rates.keyId, request.name));
  }

  /**
   * Renews the slots of all open requests. A request that this replica admitted by itself gets a slot here. So does
   * one whose key had no such limit before. Without any slot, the call shows whether the server still answers.
   */
  async #renew(): Promise<void> {
    if (this.#isRenewing) return;
    this.#isRenewing = true;
    const waiting = [...this.#open].filter(needsSlot);
    do {
      const call = this.#renewalOf(waiting.splice(0, RENEWED_AT_ONCE));
      if ((await this.#server.ask(call, ignored)) === undefined) break;
    } while (waiting.length > 0);
    this.#isRenewing = false;
  }

  #renewalOf(requests: readonly SharedRequest[]): ScriptCall {
    const names = new Map<number, string[]>();
    for (const request of requests) {
      // The request may have ended since: its slot must not come back.
      if (!request.isOpen) continue;
      request.hasSlot = true;
      const { keyId } = request.rates;
      const ofKey = names.get(keyId) ?? [];
      ofKey.push(request.name);
      names.set(keyId, ofKey);
    }
    return names.size > 0 ? renewCall(names, this.#slotLifeMs) : probeCall;
  }

  #countByShare(request: SharedRequest): void {
    if (request.isByShare) return;
    request.isByShare = true;
    this.#byShare += 1;
  }

  #takeByShare(): number {
    const count = this.#byShare - this.#byShareBefore;
    this.#byShareBefore = this.#byShare;
    return count;
  }

  figures(): SharedLimitsFigures {
    return { isUsed: this.#server.isUsable, byShare: this.#byShare };
  }

  async close(): Promise<void> {
    clearInterval(this.#renewal);
    await this.#server.close();
  }
}

/** One request, and what the server knows of it. */
class SharedRequest implements RateCounter {
  readonly rates: KeyRates;
  readonly name: string;
  /** The request has a permit that is not released. */
  isOpen = false;
  /** The server has its slot, or may have it. */
  hasSlot = false;
  /** Tokens that this replica took and the server has not. */
  unsentTokens = 0;
  isByShare = false;
  readonly #counted: CountedByServer;

  constructor(counted: CountedByServer, rates: KeyRates, name: string) {
    this.#counted = counted;
    this.rates = rates;
    this.name = name;
  }

  get clock(): Clock {
    return this.#counted.clock;
  }

  takeTokens(_: KeyRates, estimate: number): RateLimitResult | Promise<RateLimitResult> {
    return this.#counted.takeTokens(this, estimate);
  }

  correctTokens(_: KeyRates, difference: number): void {
    this.#counted.correctTokens(this, difference);
  }

  released(): void {
    this.#counted.released(this);
  }
}

function hasLimits(limits: KeyLimits): boolean {
  const { requestsPerMinute, tokensPerMinute, concurrentRequests } = limits;
  return requestsPerMinute > 0 || tokensPerMinute > 0 || concurrentRequests > 0;
}

function needsSlot({ rates }: SharedRequest): boolean {
  return rates.limits.concurrentRequests > 0;
}

function ignored(): void {
  // A late renewal changes nothing.
}
