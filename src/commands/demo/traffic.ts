import { costOf } from "../../billing/cost.ts";
import { recordedPrices } from "../../billing/meter.ts";
import type { ModelConfig } from "../../config/schema.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import { noUsage, type Usage } from "../../contract/usage.ts";
import { assert } from "../../lib/assert.ts";
import { DAY_MS } from "../../lib/clock.ts";
import { idMaker, type NewId, type Random } from "../../lib/random.ts";
import type { AttemptRecord, RequestRecord } from "../../store/store.ts";
import { CUSTOMERS, type Customer, type CustomerKey } from "./customers.ts";
import { DEMO_ROUTES } from "./demoConfig.ts";

/** A request of the month, before its account and its key have row ids. */
export interface DrawnRequest {
  readonly customer: Customer;
  readonly key: CustomerKey;
  readonly endsAt: number;
  readonly record: Omit<RequestRecord, "accountId" | "keyId" | "firstKeyId">;
}

/** Days in UTC. The last one is today and ends now. */
const DAYS = 30;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** A value and how often it is drawn, compared with the others. */
type Weighted<T> = readonly [value: T, weight: number];

/** The hours of local time. */
const HOURS: Readonly<Record<Customer["hours"], readonly Weighted<number>[]>> = {
  office: hourly([
    1, 1, 0, 0, 0, 0, 1, 4, 12, 22, 26, 25, 16, 20, 26, 25, 22, 15, 8, 5, 4, 3, 2, 1,
  ]),
  evening: hourly([4, 2, 1, 0, 0, 0, 1, 2, 4, 6, 8, 9, 9, 8, 9, 10, 12, 15, 18, 22, 24, 22, 16, 9]),
  night: hourly([22, 26, 28, 26, 20, 12, 6, 3, 3, 4, 5, 5, 4, 5, 5, 5, 4, 3, 3, 3, 3, 4, 8, 15]),
  always: hourly([
    7, 6, 5, 5, 5, 5, 6, 7, 9, 10, 11, 11, 10, 11, 11, 11, 10, 10, 10, 9, 9, 9, 8, 8,
  ]),
};

function hourly(weights: readonly number[]): Weighted<number>[] {
  return weights.map((weight, hour) => [hour, weight]);
}

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

/** A time in which the first provider fails a part of its attempts. */
interface Incident {
  readonly from: number;
  readonly to: number;
  readonly percent: number;
  readonly failure: Failure;
}

/** Those of earlier days, from this hour of local time. */
const INCIDENTS = [
  { daysAgo: 25, hour: 10, hours: 5, percent: 60, failure: unavailable },
  { daysAgo: 11, hour: 14, hours: 3, percent: 75, failure: unavailable },
  { daysAgo: 4, hour: 9, hours: 8, percent: 30, failure: limited },
] as const;

/** One in the last hour, in minutes before the end. */
const RECENT_INCIDENT = { fromMinutesAgo: 42, toMinutesAgo: 18, percent: 70 };

/** Chances in percent. */
const FAILED_ATTEMPTS = 1;
const FAILED_SPARE_ATTEMPTS = 8;
const BROKEN_ANSWERS = 0.4;
const CANCELLED_STREAMS = 2.5;
const ESTIMATED_ANSWERS = 1;

/** How fast models answer. Those that are not named are as fast as the first. */
const SPEEDS: Readonly<Record<string, Speed>> = {
  "demo-large": { firstMs: 620, tokensPerSecond: 48, answerFactor: 1 },
  "demo-small": { firstMs: 260, tokensPerSecond: 115, answerFactor: 1 },
  "demo-code": { firstMs: 380, tokensPerSecond: 85, answerFactor: 1.3 },
  "demo-reasoner": { firstMs: 1900, tokensPerSecond: 60, answerFactor: 2.2 },
  "demo-vectors": { firstMs: 70, tokensPerSecond: 1, answerFactor: 0 },
  "demo-vectors-large": { firstMs: 140, tokensPerSecond: 1, answerFactor: 0 },
};

interface Speed {
  readonly firstMs: number;
  readonly tokensPerSecond: number;
  /** Multiplies the answer tokens of a customer. */
  readonly answerFactor: number;
}

/** Requests of the last hour, so that there are some at any time of the day. */
const RECENT_MINUTES_AGO = [3, 7, 12, 20, 25, 28, 31, 35, 39, 46, 55];

/**
 * Draws the requests of all customers for the month until a time, in the order in which they end. The same time and
 * `random` give the same requests.
 */
export function drawRequests(
  models: readonly ModelConfig[],
  until: number,
  random: Random,
): DrawnRequest[] {
  const drawing = new Drawing(models, until, random);
  const firstDay = Math.floor(until / DAY_MS) - DAYS + 1;
  for (let index = 0; index < DAYS; index += 1)
    for (const customer of CUSTOMERS) drawing.addDay(customer, firstDay + index, index);
  drawing.addRecent();
  return drawing.requests.sort((one, other) => one.endsAt - other.endsAt);
}

class Drawing {
  readonly requests: DrawnRequest[] = [];
  readonly #models: ReadonlyMap<string, ModelConfig>;
  readonly #until: number;
  readonly #random: Random;
  readonly #newId: NewId;
  readonly #localOffsetMs: number;
  readonly #incidents: readonly Incident[];
  #idAt = 0;

  constructor(models: readonly ModelConfig[], until: number, random: Random) {
    this.#models = new Map(models.map((model) => [model.id, model]));
    this.#until = until;
    this.#random = random;
    this.#newId = idMaker({ epochMs: () => this.#idAt, monotonicMs: () => 0 }, random);
    this.#localOffsetMs = new Date(until).getTimezoneOffset() * MINUTE_MS;
    this.#incidents = incidentsUntil(until, this.#localOffsetMs);
  }

  addDay(customer: Customer, day: number, index: number): void {
    const from = day * DAY_MS;
    const weekday = new Date(from).getUTCDay();
    const weekend = weekday === 0 || weekday === 6 ? customer.weekendPercent / 100 : 1;
    // Use grows by half in the month.
    const growth = 0.8 + (0.4 * index) / DAYS;
    const count =
      customer.requestsPerDay * weekend * growth * (0.8 + 0.4 * this.#random.fraction());
    for (let n = 0; n < Math.round(count); n += 1)
      this.#add(customer, from + this.#timeOfDay(customer));
    if (!customer.usesAllModelsDaily) return;
    const length = Math.min(DAY_MS, this.#until - from);
    for (const model of Object.keys(customer.models))
      this.#add(customer, from + Math.floor(length * this.#random.fraction()), model);
  }

  addRecent(): void {
    RECENT_MINUTES_AGO.forEach((minutes, index) => {
      const customer = CUSTOMERS[index % 3];
      if (customer) this.#add(customer, this.#until - minutes * MINUTE_MS);
    });
  }

  /** Milliseconds after midnight in UTC. */
  #timeOfDay(customer: Customer): number {
    const hour = this.#pick(HOURS[customer.hours]);
    const localMs = (hour + this.#random.fraction()) * HOUR_MS;
    return Math.floor((localMs + this.#localOffsetMs + DAY_MS) % DAY_MS);
  }

  #add(customer: Customer, at: number, modelId?: string): void {
    const keys = customer.keys.filter(
      (key) => this.#isUsable(customer, key, at) && (modelId === undefined || !key.models),
    );
    if (keys.length === 0) return;
    const key = this.#pick(keys.map((one) => [one, one.weight] as const));
    const allowed = Object.entries(customer.models).filter(([id]) => mayUse(key, id));
    const model = this.#models.get(modelId ?? this.#pick(allowed));
    assert(model !== undefined, "the demo's config has no such model");
    this.#idAt = at;
    const record = this.#draw(customer, model, at);
    const endsAt = at + (record.durationMs ?? 0);
    if (endsAt < this.#until) this.requests.push({ customer, key, endsAt, record });
  }

  #isUsable(customer: Customer, key: CustomerKey, at: number): boolean {
    const daysAgo = (this.#until - at) / DAY_MS;
    const { sinceDaysAgo, disabledDaysAgo = 0 } = customer;
    const { createdDaysAgo = sinceDaysAgo, revokedDaysAgo = 0 } = key;
    return daysAgo < createdDaysAgo && daysAgo > revokedDaysAgo && daysAgo > disabledDaysAgo;
  }

  #draw(customer: Customer, model: ModelConfig, at: number): DrawnRequest["record"] {
    const isEmbedding = model.kind === "embedding";
    const endpoint: Endpoint = isEmbedding
      ? "embeddings"
      : (this.#pick(Object.entries(customer.endpoints)) as Endpoint);
    const stream = !isEmbedding && this.#isDrawn(customer.streamedPercent);
    const speed = SPEEDS[model.id] ?? { firstMs: 600, tokensPerSecond: 50, answerFactor: 1 };
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
      endpoint,
      model: model.id,
      stream,
      ...recordedPrices(model.price),
      hold: this.#hold(whole, model),
    };
    if (provider === undefined || isBroken) {
      const broken = { outcome: "incomplete answer", status: 200, durationMs: answerMs };
      return {
        ...admitted,
        ...NOT_ANSWERED,
        attempts: provider === undefined ? failed : [...failed, { provider, ...broken }],
        durationMs: waitedMs + (provider === undefined ? 2 : answerMs),
        firstByteMs: provider !== undefined && stream ? waitedMs + firstMs : null,
      };
    }
    const usage = { ...whole, completionTokens };
    const operatorPrice = (
      model.routes.find((route) => route.provider === provider) ?? model.routes[0]
    )?.operatorPrice;
    const ok = isCancelled
      ? { outcome: "client disconnected", status: null }
      : { outcome: "ok", status: 200 };
    return {
      ...admitted,
      ...usage,
      status: isCancelled ? "cancelled" : "done",
      mayHaveRow: false,
      provider,
      charge: costOf(usage, model.price),
      writeOff: 0n,
      estimated: isEstimated,
      operatorCost: operatorPrice ? costOf(usage, operatorPrice) : null,
      attempts: [...failed, { provider, ...ok, durationMs: answerMs }],
      durationMs: waitedMs + answerMs,
      firstByteMs: waitedMs + (stream ? firstMs : answerMs),
    };
  }

  #usage(customer: Customer, model: ModelConfig, { answerFactor }: Speed): Usage {
    const promptTokens = Math.round(this.#spread(customer.promptTokens, 0.6));
    const cachedPercent = model.kind === "embedding" ? 0 : customer.cachedPercent;
    const cached = (promptTokens * cachedPercent * 2 * this.#random.fraction()) / 100;
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
    return BigInt(promptMax) * model.price.input + BigInt(bound) * model.price.output;
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
    const incident = this.#incidents.find(({ from, to }) => from <= at && at < to);
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

function incidentsUntil(until: number, localOffsetMs: number): Incident[] {
  const today = Math.floor(until / DAY_MS) * DAY_MS;
  const { fromMinutesAgo, toMinutesAgo, percent } = RECENT_INCIDENT;
  return [
    {
      from: until - fromMinutesAgo * MINUTE_MS,
      to: until - toMinutesAgo * MINUTE_MS,
      percent,
      failure: unavailable,
    },
    ...INCIDENTS.map(({ daysAgo, hour, hours, percent: part, failure }) => {
      const from = today - daysAgo * DAY_MS + hour * HOUR_MS + localOffsetMs;
      return { from, to: from + hours * HOUR_MS, percent: part, failure };
    }),
  ];
}

const NOT_ANSWERED = {
  ...noUsage,
  status: "failed",
  mayHaveRow: false,
  provider: null,
  charge: 0n,
  writeOff: 0n,
  estimated: false,
  operatorCost: null,
} as const;

function mayUse({ models }: CustomerKey, model: string): boolean {
  if (models === undefined) return true;
  return models.some((name) =>
    name.endsWith("*") ? model.startsWith(name.slice(0, -1)) : model === name,
  );
}
