import { higherPrice, type ExtraName, type Price } from "./figures.ts";

/** The services that a provider may sell at prices of their own, beside the standard one. */
export const serviceTiers = ["flex", "priority", "batch", "fast"] as const;
export type ServiceTier = (typeof serviceTiers)[number];

/** The prices of a request whose prompt has this many tokens or more, up to those of the next tier. */
export interface PriceTier {
  readonly fromPromptTokens: number;
  readonly price: Price;
  /** For each figure the highest price of this tier and of those before it. */
  readonly highest: Price;
  /** What the record of a request says of the price besides the amounts: a `PricingNote` in JSON; null: nothing. */
  readonly note: string | null;
}

/** Ascending. The first tier is from 0 on. */
export type PriceTiers = readonly [PriceTier, ...PriceTier[]];

/** What a model or a route costs. */
export interface PriceList {
  readonly standard: PriceTiers;
  readonly services: { readonly [Name in ServiceTier]?: PriceTiers };
}

/** The prices at which a model is sold. */
export interface SoldPrices extends PriceList {
  /** The figures that the model sells only because they have a price. */
  readonly sells: Readonly<Record<ExtraName, boolean>>;
  /** What the vendor asks, from prices in dollars without the margin: the cost of routes that name none. */
  readonly vendor: PriceList | undefined;
}

/** The tiers with the highest prices so far. They are ascending, and there is at least one. */
export function withHighest(tiers: readonly Omit<PriceTier, "highest">[]): PriceTiers {
  let highest: Price | undefined;
  const all = tiers.map((tier): PriceTier => {
    highest = highest ? higherPrice(highest, tier.price) : tier.price;
    return { ...tier, highest };
  });
  return all as unknown as PriceTiers;
}

/** Prices from a moment on, in milliseconds since 1970. */
export interface ScheduledPrices {
  readonly fromMs: number;
  readonly prices: SoldPrices;
}

/** Ascending. The first prices are from 0 on. */
export type PriceSchedule = readonly [ScheduledPrices, ...ScheduledPrices[]];

/** The prices of a model for accounts with a plan, by one rule of the plan. `untilMs` is exclusive. */
export interface PlannedPrices {
  /** The pattern of models of the rule. */
  readonly models: string;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly schedule: PriceSchedule;
}

/** Why a request has its prices. A field is absent where it says nothing. */
export interface PricingNote {
  /** The tier by the length of the prompt. */
  readonly from_prompt_tokens?: number;
  readonly service_tier?: ServiceTier;
  readonly plan?: string;
  /** The pattern of models of the rule of the plan. */
  readonly plan_rule?: string;
  /** Roubles for a dollar, as a decimal text, where the config has a price in dollars. */
  readonly usd_rate?: string;
}

/** The tier of a service and of a prompt of this length. A service without prices has the standard ones. */
export function tierOf(
  { standard, services }: PriceList,
  service: ServiceTier | undefined,
  promptTokens: number,
): PriceTier {
  return tierAt((service && services[service]) ?? standard, promptTokens);
}

function tierAt(tiers: PriceTiers, promptTokens: number): PriceTier {
  let found = tiers[0];
  for (const tier of tiers) {
    if (tier.fromPromptTokens > promptTokens) break;
    found = tier;
  }
  return found;
}

/** The highest price, for each figure, of a prompt of at most this length, in the standard tier or one of the services. */
export function highestPrice(
  { standard, services }: PriceList,
  asked: readonly ServiceTier[],
  promptTokensMax: number,
): Price {
  let { highest } = tierAt(standard, promptTokensMax);
  for (const service of asked) {
    const tiers = services[service];
    if (tiers) highest = higherPrice(highest, tierAt(tiers, promptTokensMax).highest);
  }
  return highest;
}

/** The prices in force at a moment. */
export function pricesAt([first, ...later]: PriceSchedule, atMs: number): SoldPrices {
  let { prices } = first;
  for (const next of later) {
    if (next.fromMs > atMs) break;
    ({ prices } = next);
  }
  return prices;
}

/** The prices in force at a moment for an account: those of the first rule of its plan in force, else the model's own. */
export function plannedPricesAt(
  own: PriceSchedule,
  planned: readonly PlannedPrices[] | undefined,
  atMs: number,
): SoldPrices {
  return pricesAt(ruleAt(planned, atMs)?.schedule ?? own, atMs);
}

/** The first rule in force. */
export function ruleAt(
  planned: readonly PlannedPrices[] | undefined,
  atMs: number,
): PlannedPrices | undefined {
  return planned?.find(({ fromMs, untilMs }) => fromMs <= atMs && atMs < untilMs);
}

/** The moments after `afterMs` at which other prices may come into force, ascending. */
export function changesAfter(
  own: PriceSchedule,
  planned: readonly PlannedPrices[] | undefined,
  afterMs: number,
): readonly number[] {
  const schedules = [own, ...(planned ?? []).map(({ schedule }) => schedule)].flat();
  const starts = [...schedules, ...(planned ?? [])].map(({ fromMs }) => fromMs);
  const ends = (planned ?? []).map(({ untilMs }) => untilMs);
  return [...new Set([...starts, ...ends])]
    .filter((moment) => moment > afterMs && moment < Number.MAX_SAFE_INTEGER)
    .toSorted((one, other) => one - other);
}
