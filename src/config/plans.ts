import { byPrice, ofEachPrice, type Figure, type Price } from "../contract/figures.ts";
import {
  serviceTiers,
  type PlannedPrices,
  type PriceList,
  type PriceSchedule,
  type PriceTiers,
  type PricingNote,
  type ScheduledPrices,
  type ServiceTier,
  type SoldPrices,
} from "../contract/priceList.ts";
import { plusPercent, roundUp, multiply, type Decimal } from "../lib/decimal.ts";
import { matchesPattern } from "../lib/pattern.ts";
import type { Inspection } from "./inspection.ts";
import type { WrittenModel } from "./models.ts";
import { documentedElsewhere, readTable, readTables, tables, text, type Values } from "./option.ts";
import {
  completeList,
  isEmpty,
  noted,
  priceTableOptions,
  rateNote,
  readGivenList,
  soldExtras,
  warnAboutLosses,
} from "./priceLists.ts";
import { decimal } from "./prices.ts";
import type { Pricing } from "./pricing.ts";
import { moment, type WrittenPrices } from "./schedules.ts";

const ruleOptions = {
  models: text("models", {
    required: true,
    form: "a pattern of model ids, in which * is any text",
    example: '"gpt-*"',
    doc: "The ids of the models, in which * is any text. The first rule of the plan that fits the model and is in force counts. Rules are never combined.",
  }),
  percent: decimal("percent", {
    what: "a number",
    max: 1000,
    example: "90",
    doc: "The price in percent of the model's price, rounded up to a whole thousandth of a rouble: 90 is a tenth less. Instead of it, a rule has margin_percent, or prices of its own with the keys of [[models]].",
  }),
  margin: decimal("margin_percent", {
    what: "a number",
    max: 10_000,
    example: false,
    doc: "The margin over the model's prices in dollars, instead of its own margin.",
  }),
  from: moment("from", "When the rule comes into force: a date (midnight in UTC) or a time."),
  until: moment("until", "When the rule ends, exclusive: a date (midnight in UTC) or a time."),
  ...documentedElsewhere(priceTableOptions),
} as const;

export const planOptions = {
  id: text("id", {
    required: true,
    form: "a short name that you choose, in quotes",
    example: '"wholesale"',
    doc: "The name of the plan: `tollgate accounts set NAME --plan wholesale` gives it to an account.",
  }),
  rules: tables("rules", ruleOptions, {
    required: true,
    form: "at least one rule: write [[plans.rules]]",
    max: 1000,
    doc: "The prices of the plan. A model without a rule has its own prices.",
  }),
} as const;

type Rule = Values<typeof ruleOptions>;

/** A plan: other prices for the accounts that have it. */
export interface PlanConfig {
  readonly id: string;
  /** By the id of the model: its rules, in their order. Models without a rule are left out. */
  readonly models: readonly (readonly [model: string, rules: readonly PlannedPrices[]])[];
}

/** Problems go to the inspection. */
export function readPlans(
  items: readonly unknown[],
  models: readonly WrittenModel[],
  { rate }: Pick<Pricing, "rate">,
  inspection: Inspection,
): readonly PlanConfig[] {
  const seen = new Map<string, string>();
  return readTables(items, "plans", inspection, (table, at) => {
    const { id, rules: given } = readTable(planOptions, table, at, inspection);
    if (id !== undefined) {
      if (!/^[A-Za-z0-9._-]{1,64}$/.test(id))
        inspection.problem(
          `${at}.id`,
          "must be 1 to 64 letters, digits, dots, underscores or hyphens",
        );
      inspection.claimId(id, at, seen);
    }
    const rules = readTables(given, `${at}.rules`, inspection, (rule, place) => {
      const read = { at: place, ...readTable(ruleOptions, rule, place, inspection) };
      checkRule(read, models, inspection);
      return read;
    });
    const planned = models.flatMap((model) => {
      const fitting = rules.filter((rule) => matchesPattern(rule.models ?? "", model.model.id));
      if (fitting.length === 0) return [];
      const ofModel = fitting.map((rule) => plannedBy(rule, model, { id, rate }, inspection));
      return [[model.model.id, ofModel] as const];
    });
    return { id: id ?? "", models: planned };
  });
}

type ReadRule = Rule & { readonly at: string };

function checkRule(rule: ReadRule, models: readonly WrittenModel[], inspection: Inspection): void {
  const { at, models: pattern = "", percent, margin, from = 0, until = Infinity } = rule;
  if (until <= from) inspection.problem(`${at}.until`, "must be later than from");
  if (percent?.digits === 0n)
    inspection.problem(`${at}.percent`, "must be above 0: a free model has free = true");
  const own = hasOwnPrices(rule);
  const kinds = [percent !== undefined, margin !== undefined, own];
  if (kinds.filter(Boolean).length !== 1)
    inspection.problem(at, "must have one of percent, margin_percent and prices of its own");
  const fitting = models.filter(({ model }) => matchesPattern(pattern, model.id));
  if (fitting.length === 0) inspection.warning(`${at}.models`, "fits no model");
  for (const { model } of margin === undefined ? [] : fitting)
    if (model.schedule.some(({ prices }) => prices.vendor === undefined))
      inspection.problem(
        `${at}.margin_percent`,
        `needs prices in dollars (usd_*), and ${model.id} has none: write percent, or name other models`,
      );
}

function hasOwnPrices(rule: Rule): boolean {
  return (
    byPrice.some(({ price: { name } }) => rule[name] !== undefined) ||
    rule.tiers.length > 0 ||
    Object.keys(rule.serviceTiers).length > 0
  );
}

function plannedBy(
  rule: ReadRule,
  { model, written }: WrittenModel,
  { id: plan = "", rate }: { readonly id: string | undefined; readonly rate: Decimal | undefined },
  inspection: Inspection,
): PlannedPrices {
  const { at, from = 0, until = Number.MAX_SAFE_INTEGER, models = "" } = rule;
  const note: PricingNote = { plan, plan_rule: models };
  const schedule = written.map((one): ScheduledPrices => {
    const prices = pricesBy(rule, one, { note, rate }, inspection);
    const costs = model.routes.map((route) => route.costs ?? prices.vendor);
    warnAboutLosses(prices, costs, `${at}: ${model.id}`, inspection);
    return { fromMs: one.fromMs, prices };
  });
  return { models, fromMs: from, untilMs: until, schedule: schedule as unknown as PriceSchedule };
}

function pricesBy(
  rule: ReadRule,
  { prices, given, table, at }: WrittenPrices,
  { note, rate }: { readonly note: PricingNote; readonly rate: Decimal | undefined },
  inspection: Inspection,
): SoldPrices {
  const { percent, margin } = rule;
  if (percent !== undefined)
    return { ...prices, ...partOf(prices, percent, { ...note, ...rateNote(given, { rate }) }) };
  if (margin !== undefined) {
    const terms = { rate, factor: plusPercent(margin) };
    const list = readGivenList("price", table, at, terms, inspection);
    return { ...prices, ...completeList(list, { note: { ...note, ...rateNote(list, terms) } }) };
  }
  // Prices in dollars of a rule are what the holder pays: no margin is added.
  const terms = { rate, factor: plusPercent({ digits: 0n, places: 0 }) };
  const own = readGivenList("price", rule, rule.at, terms, inspection);
  const under = { given, list: prices };
  const isDollars = own.hasDollars || given.hasDollars;
  const list = completeList(own, {
    under,
    note: { ...note, ...rateNote({ ...own, hasDollars: isDollars }, terms) },
  });
  const extras = soldExtras(false, { ...given.base, ...own.base }, list.standard[0].price);
  const sells = isEmpty(own) ? prices.sells : { ...prices.sells, ...trueOnes(extras) };
  return { ...prices, ...list, sells };
}

function trueOnes<Key extends string>(
  flags: Readonly<Record<Key, boolean>>,
): Partial<Record<Key, boolean>> {
  const found = Object.entries<boolean>(flags).filter(([, isTrue]) => isTrue);
  return Object.fromEntries(found) as Partial<Record<Key, boolean>>;
}

/** Every price times a percentage. */
function partOf(list: PriceList, percent: Decimal, note: PricingNote): PriceList {
  const services: { [Name in ServiceTier]?: PriceTiers } = {};
  for (const service of serviceTiers) {
    const tiers = list.services[service];
    if (tiers) services[service] = partOfTiers(tiers, percent, { ...note, service_tier: service });
  }
  return { standard: partOfTiers(list.standard, percent, note), services };
}

function partOfTiers(tiers: PriceTiers, percent: Decimal, note: PricingNote): PriceTiers {
  const parts = tiers.map(({ fromPromptTokens, price }) => ({
    fromPromptTokens,
    price: partOfPrice(price, percent),
  }));
  return noted(parts, note);
}

function partOfPrice(price: Price, percent: Decimal): Price {
  return ofEachPrice(({ price: { name }, unit }: Figure) => {
    const thousandths = { digits: price[name] / unit.nanoOfOne, places: 2 };
    return roundUp(multiply(thousandths, percent), 0) * unit.nanoOfOne;
  });
}
