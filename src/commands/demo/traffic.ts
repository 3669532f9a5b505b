import { cacheSaving, costOf } from "../../billing/cost.ts";
import type { ModelConfig, Price } from "../../config/schema.ts";
import { noUsage, type Usage } from "../../contract/usage.ts";
import { mayUse } from "../../gateway/catalog.ts";
import { assert } from "../../lib/assert.ts";
import { DAY_MS } from "../../lib/clock.ts";
import { idMaker, type NewId, type Random } from "../../lib/random.ts";
import type { AttemptRecord, RequestRecord } from "../../store/store.ts";
import type { Customer, CustomerKey, DemoEndpoint } from "./customers.ts";
import { DEMO_ROUTES } from "./demoConfig.ts";

/** A request of the month, before its account and its key have row ids. */
export interface DrawnRequest {
  readonly customer: Customer;
  readonly key: CustomerKey;
  readonly endsAt: number;
  readonly record: Omit<RequestRecord, "accountId" | "keyId" | "firstKeyId">;
}

/** The length of the month. */
export const DAYS = 30;
export const HOUR_MS = 3_600_000;

/** A value and how often it is drawn, compared with the others. */
type Weighted<T> = readonly [value: T, weight: number];

/** Weights of the hours of local time. */
const HOURS: Readonly<Record<Customer["hours"], readonly number[]>> = {
  office: [1, 1, 0, 0, 0, 0, 1, 4, 12, 22, 26, 25, 16, 20, 26, 25, 22, 15, 8, 5, 4, 3, 2, 1],
  evening: [4, 2, 1, 0, 0, 0, 1, 2, 4, 6, 8, 9, 9, 8, 9, 10, 12, 15, 18, 22, 24, 22, 16, 9],
  night: [22, 26, 28, 26, 20, 12, 6, 3, 3, 4, 5, 5, 4, 5, 5, 5, 4, 3, 3, 3, 3, 4, 8, 15],
  always: [7, 6, 5, 5, 5, 5, 6, 7, 9, 10, 11, 11, 10, 11, 11, 11, 10, 10, 10, 9, 9, 9, 8, 8],
};

/** The least number of requests in the last hour of a customer that shows all models. */
const RECENT_REQUESTS = 11;
/** Such a customer uses each model daily, one an hour from this one on, in UTC. */
const ALL_MODELS_HOUR = 8;

/** The provider before the month's tenth day. The config no longer has it. */
const FORMER_PROVIDER = "demo-old";
const FORMER_PROVIDER_DAYS_AGO = 20;

type Failure = Pick<AttemptRecord, "outcome" | "status" | "durationMs">;

const unavailable: Failure = { outcome: "status 503", status: 503, durationMs: 700 };
const limited: Failure = { outcome: "status 429", status: 429, durationMs: 110 };
const FAILURES: readonly Failure[] = [
  unavailable,
  limited,
  { outcome: "status 500", status: 500, durationMs: 420 },
  { outcome: "timeout", status: null, durationMs: 5000 },
  { outcome: "closed", status: null, durationMs: 2300 },
];

/** Times in which the first provider fails a part of its attempts, in hours before the end. */
const INCIDENTS = [
  { from: 605, to: 600, percent: 60, failure: unavailable },
  { from: 268, to: 265, percent: 75, failure: unavailable },
  { from: 104, to: 96, percent: 30, failure: limited },
  { from: 0.7, to: 0.3, percent: 70, failure: unavailable },
] as const;

/** Chances in percent. */
const FAILED_ATTEMPTS = 1;
const FAILED_SPARE_ATTEMPTS = 8;
const BROKEN_ANSWERS = 0.4;
const CANCELLED_STREAMS = 2.5;
const ESTIMATED_ANSWERS = 1;

interface Speed {
  readonly firstMs: number;
  readonly tokensPerSecond: number;
  /** Multiplies the answer tokens of a customer. */
  readonly answerFactor: number;
}

const MEDIUM: Speed = { firstMs: 620, tokensPerSecond: 48, answerFactor: 1 };
/** How fast models answer that are faster or slower. */
const SPEEDS: Readonly<Record<string, Speed>> = {
  "demo-small": { firstMs: 260, tokensPerSecond: 115, answerFactor: 1 },
  "demo-code": { firstMs: 380, tokensPerSecond: 85, answerFactor: 1.3 },
  "demo-reasoner": { firstMs: 1900, tokensPerSecond: 60, answerFactor: 2.2 },
};

/** Draws requests. The same calls with the same `until` and `random` give the same requests. */
export class Traffic {
  readonly #models: ReadonlyMap<string, ModelConfig>;
  readonly #until: number;
  /** The first of 30 days in UTC. The last one is today, and ends now. */
  readonly #since: number;
  readonly #random: Random;
  readonly #newId: NewId;
  #idAt = 0;

  constructor(models: readonly ModelConfig[], until: number, random: Random) {
    this.#models = new Map(models.map((model) => [model.id, model]));
    this.#until = until;
    this.#since = (Math.floor(until / DAY_MS) - DAYS + 1) * DAY_MS;
    this.#random = random;
    this.#newId = idMaker({ epochMs: () => this.#idAt, monotonicMs: () => 0 }, random);
  }

  /** The requests of a customer by these keys that begin in the hour from `at` on. */
  hour(customer: Customer, keys: readonly CustomerKey[], at: number): DrawnRequest[] {
    const models = Array.from<string | undefined>({ length: this.#countIn(customer, at) });
    const daily = Object.keys(customer.models)[new Date(at).getUTCHours() - ALL_MODELS_HOUR];
    if (customer.usesAllModelsDaily && daily !== undefined) models.push(daily);
    return models.flatMap((model) =>
      this.#request(customer, keys, at + Math.floor(HOUR_MS * this.#random.fraction()), model),
    );
  }

  #countIn(customer: Customer, at: number): number {
    const { requestsPerDay, weekendPercent, hours, usesAllModelsDaily } = customer;
    const local = new Date(at);
    const isWeekend = local.getDay() === 0 || local.getDay() === 6;
    const weights = HOURS[hours];
    const share = (weights[local.getHours()] ?? 0) / weights.reduce((sum, one) => sum + one, 0);
    // Use grows by half in the month.
    const growth = 1.2 - (0.4 * (this.#until - at)) / (DAYS * DAY_MS);
    const usual = requestsPerDay * (isWeekend ? weekendPercent / 100 : 1) * growth * share;
    const count = Math.floor(usual * (0.5 + this.#random.fraction()) + this.#random.fraction());
    const isLast = at >= this.#until - HOUR_MS;
    return isLast && usesAllModelsDaily ? Math.max(count, RECENT_REQUESTS) : count;
  }

  #request(
    customer: Customer,
    keys: readonly CustomerKey[],
    at: number,
    modelId?: string,
  ): DrawnRequest[] {
    const usable = keys.filter(({ models }) => modelId === undefined || models === undefined);
    if (usable.length === 0) return [];
    const key = this.#pick(usable.map((one) => [one, one.weight] as const));
    const allowed = Object.entries(customer.models).filter(([id]) =>
      mayUse(key.models ?? null, id),
    );
    const model = this.#models.get(modelId ?? this.#pick(allowed));
    assert(model !== undefined, "the demo's config has no such model");
    this.#idAt = at;
    const record = this.#draw(customer, model, at);
    const endsAt = at + (record.durationMs ?? 0);
    return at >= this.#since && endsAt < this.#until ? [{ customer, key, endsAt, record }] : [];
  }

  #draw(customer: Customer, model: ModelConfig, at: number): DrawnRequest["record"] {
    const stream = this.#isDrawn(customer.streamedPercent);
    const speed = SPEEDS[model.id] ?? MEDIUM;
    const whole = this.#usage(customer, model, speed);
    const failed = this.#failedAttempts(at);
    const waitedMs = failed.reduce((sum, { durationMs }) => sum + durationMs, 0);
    const provider = this.#providers(at)[failed.length];
    const isBroken = this.#isDrawn(BROKEN_ANSWERS);
    const isCancelled = stream && this.#isDrawn(CANCELLED_STREAMS);
    const isEstimated = this.#isDrawn(isCancelled ? 70 : ESTIMATED_ANSWERS);
    const part = isCancelled || isBroken ? 0.1 + 0.5 * this.#random.fraction() : 1;
    const completionTokens = Math.ceil(whole.completionTokens * part);
    const firstMs = Math.round(this.#spread(speed.firstMs, 0.35));
    const answerMs = firstMs + Math.round((completionTokens / speed.tokensPerSecond) * 1000);
    const admitted = {
      publicId: this.#newId("req"),
      at,
      endpoint: this.#pick(Object.entries(customer.endpoints)) as DemoEndpoint,
      model: model.id,
      stream,
      price: priceOf(model),
      pricing: null,
      hold: this.#hold(whole, model),
      mayHaveRow: false,
      writeOff: 0n,
    };
    if (provider === undefined || isBroken) {
      const broken = { outcome: "incomplete answer", status: 200, durationMs: answerMs };
      return {
        ...admitted,
        ...noUsage,
        status: "failed",
        provider: null,
        charge: 0n,
        estimated: false,
        operatorCost: null,
        cacheSaved: null,
        operatorSaved: null,
        attempts: provider === undefined ? failed : [...failed, { provider, ...broken }],
        durationMs: waitedMs + (provider === undefined ? 2 : answerMs),
        firstByteMs: provider !== undefined && stream ? waitedMs + firstMs : null,
      };
    }
    const usage = { ...whole, completionTokens };
    const { costs } =
      model.routes.find((route) => route.provider === provider) ?? model.routes[0] ?? {};
    const ok = isCancelled
      ? { outcome: "client disconnected", status: null }
      : { outcome: "ok", status: 200 };
    const cost = costOf(usage, priceOf(model));
    // The request used more than its hold, and the account could not pay the difference.
    const writeOff =
      !isCancelled && this.#isDrawn(customer.writtenOffPercent ?? 0) ? cost / 5n : 0n;
    const charge = cost - writeOff;
    return {
      ...admitted,
      ...usage,
      status: isCancelled ? "cancelled" : "done",
      provider,
      charge,
      ...(writeOff > 0n && { writeOff, hold: charge }),
      estimated: isEstimated && writeOff === 0n,
      operatorCost: costs ? costOf(usage, costs.standard[0].price) : null,
      cacheSaved: cacheSaving(usage, priceOf(model)),
      operatorSaved: costs ? cacheSaving(usage, costs.standard[0].price) : null,
      attempts: [...failed, { provider, ...ok, durationMs: answerMs }],
      durationMs: waitedMs + answerMs,
      firstByteMs: waitedMs + (stream ? firstMs : answerMs),
    };
  }

  #usage(customer: Customer, model: ModelConfig, { answerFactor }: Speed): Usage {
    const promptTokens = Math.round(this.#spread(customer.promptTokens, 0.6));
    const cached = (promptTokens * customer.cachedPercent * 2 * this.#random.fraction()) / 100;
    const completion = this.#spread(customer.answerTokens, 0.65) * answerFactor;
    return {
      ...noUsage,
      promptTokens,
      // Providers cache a prompt in steps.
      cachedTokens:
        promptTokens < 1024 ? 0 : Math.floor(Math.min(cached, promptTokens) / 128) * 128,
      completionTokens: Math.min(Math.ceil(completion), model.maxOutputTokens),
    };
  }

  /** What such a request holds: the bytes of its prompt as tokens, and a bound of the answer. */
  #hold({ promptTokens, completionTokens }: Usage, model: ModelConfig): bigint {
    const promptMax = Math.min(promptTokens * 4 + 272, model.contextTokens);
    const bound = this.#isDrawn(70)
      ? model.maxOutputTokens
      : Math.min(Math.ceil(completionTokens / 512) * 512, model.maxOutputTokens);
    const { input, output } = priceOf(model);
    return BigInt(promptMax) * input + BigInt(bound) * output;
  }

  /** In the order in which they are tried. */
  #providers(at: number): readonly string[] {
    const [first, spare] = DEMO_ROUTES;
    const isFormer = this.#until - at > FORMER_PROVIDER_DAYS_AGO * DAY_MS;
    return [isFormer ? FORMER_PROVIDER : first.provider, spare.provider];
  }

  /** The attempts before the one that answers. */
  #failedAttempts(at: number): AttemptRecord[] {
    const [first = "", spare = ""] = this.#providers(at);
    const hoursAgo = (this.#until - at) / HOUR_MS;
    const incident = INCIDENTS.find(({ from, to }) => from >= hoursAgo && hoursAgo > to);
    if (!this.#isDrawn(incident?.percent ?? FAILED_ATTEMPTS)) return [];
    const failed = [this.#failure(first, incident?.failure)];
    if (this.#isDrawn(FAILED_SPARE_ATTEMPTS)) failed.push(this.#failure(spare, undefined));
    return failed;
  }

  #failure(provider: string, known: Failure | undefined): AttemptRecord {
    const failure = known ?? this.#pick(FAILURES.map((one) => [one, 1] as const));
    const durationMs = Math.round(this.#spread(failure.durationMs, 0.3));
    return { ...failure, provider, durationMs };
  }

  #isDrawn(percent: number): boolean {
    return this.#random.fraction() * 100 < percent;
  }

  #pick<T>(weighted: readonly Weighted<T>[]): T {
    const total = weighted.reduce((sum, [, weight]) => sum + weight, 0);
    let left = this.#random.fraction() * total;
    for (const [value, weight] of weighted) {
      left -= weight;
      if (left < 0) return value;
    }
    const last = weighted.at(-1);
    assert(last !== undefined, "nothing to pick from");
    return last[0];
  }

  /** A number near the median: log-normal, by https://en.wikipedia.org/wiki/Box%E2%80%93Muller_transform. */
  #spread(median: number, sigma: number): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.#random.fraction()));
    const normal = radius * Math.cos(2 * Math.PI * this.#random.fraction());
    return median * Math.exp(sigma * Math.max(-3, Math.min(normal, 3)));
  }
}

/** The demo's models have one price. */
function priceOf({ schedule }: ModelConfig): Price {
  return schedule[0].prices.standard[0].price;
}
