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
import { plusPercent, roundUp, multiply, zero, type Decimal } from "../lib/decimal.ts";
import { matchesPattern } from "../lib/pattern.ts";
import type { Inspection } from "./inspection.ts";
import type { WrittenModel } from "./models.ts";
import {
  documentedElsewhere,
  readTable,
  readTables,
  tables,
  text,
  type Table,
  type Values,
} from "./option.ts";
import {
  allGiven,
  completeList,
  lossWarnings,
  noted,
  priceTableOptions,
  rateNote,
  readGivenList,
  soldExtras,
  type GivenList,
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
      if (id === "none")
        inspection.problem(`${at}.id`, "must be another name: `--plan none` takes a plan away");
      if (!/^[A-Za-z0-9._-]{1,64}$/.test(id))
        inspection.problem(
          `${at}.id`,
          "must be 1 to 64 letters, digits, dots, underscores or hyphens",
        );
      inspection.claimId(id, at, seen);
    }
    const rules = readTables(given, `${at}.rules`, inspection, (rule, place) =>
      readRule(rule, place, models, { rate }, inspection),
    );
    const planned = models.flatMap((model) => {
      const reached = rulesOf(model.model.id, rules);
      if (reached.length === 0) return [];
      const ofModel = reached.map((rule) => plannedBy(rule, model, { id, rate }, inspection));
      return [[model.model.id, ofModel] as const];
    });
    for (const rule of rules) warnAboutRule(rule, inspection);
    return { id: id ?? "", models: planned };
  });
}

function moreText(others: number): string {
  if (others === 0) return "";
  if (others === 1) return "; 1 more price of this rule is below its cost";
  return `; ${others} more prices of this rule are below their costs`;
}

type ReadRule = Rule & {
  readonly at: string;
  /** Undefined: it has percent or margin_percent. */
  readonly own: GivenList | undefined;
  /** The prices below their cost, each as the keys of a warning and its text. */
  readonly losses: (readonly [key: string, warning: string])[];
};

/** One warning for all models: a rule may be for thousands of them. */
function warnAboutRule({ losses: [first, ...others] }: ReadRule, inspection: Inspection): void {
  if (first === undefined) return;
  const [key, warning] = first;
  inspection.warning(key, `${warning}${moreText(others.length)}`);
}

function readRule(
  table: Table,
  at: string,
  models: readonly WrittenModel[],
  { rate }: Pick<Pricing, "rate">,
  inspection: Inspection,
): ReadRule {
  const rule = readTable(ruleOptions, table, at, inspection);
  // Prices in dollars of a rule are what the holder pays: no margin is added.
  const own = hasOwnPrices(rule)
    ? readGivenList("price", rule, at, { rate, factor: plusPercent(zero) }, inspection)
    : undefined;
  const read = { at, own, losses: [], ...rule };
  checkRule(read, models, inspection);
  return read;
}

function checkRule(rule: ReadRule, models: readonly WrittenModel[], inspection: Inspection): void {
  const { at, own, models: pattern = "", percent, margin, from = 0, until = Infinity } = rule;
  if (until <= from) inspection.problem(`${at}.until`, "must be later than from");
  if (percent?.digits === 0n)
    inspection.problem(`${at}.percent`, "must be above 0: a free model has free = true");
  for (const { price } of byPrice)
    if (own !== undefined && allGiven(own).some((given) => given[price.name] === 0n))
      inspection.problem(`${at}.${price.key}`, "must be above 0: a free model has free = true");
  if ([percent, margin, own].filter((kind) => kind !== undefined).length !== 1)
    inspection.problem(at, "must have one of percent, margin_percent and prices of its own");
  if (!models.some(({ model }) => matchesPattern(pattern, model.id)))
    inspection.warning(`${at}.models`, "fits no model");
}

/** The rules that fit the model, up to the first one that is always in force. */
function rulesOf(model: string, rules: readonly ReadRule[]): readonly ReadRule[] {
  const fitting = rules.filter(({ models = "" }) => matchesPattern(models, model));
  const last = fitting.findIndex(({ from, until }) => from === undefined && until === undefined);
  return last === -1 ? fitting : fitting.slice(0, last + 1);
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
  const { at, losses, from = 0, until = Number.MAX_SAFE_INTEGER, models = "" } = rule;
  if (rule.margin !== undefined && written.some(({ prices }) => prices.vendor === undefined))
    inspection.problem(
      `${at}.margin_percent`,
      `needs prices in dollars (usd_*), and ${model.id} has none: write percent, or name other models`,
    );
  const note: PricingNote = { plan, plan_rule: models };
  const schedule = written.map((one): ScheduledPrices => {
    const prices = pricesBy(rule, one, { note, rate }, inspection);
    const costs = model.routes.map((route) => route.costs ?? prices.vendor);
    for (const [key, warning] of lossWarnings(prices, costs))
      losses.push([`${at}: ${model.id}.${key}`, warning]);
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
  const { percent, margin, own } = rule;
  if (percent !== undefined)
    return { ...prices, ...partOf(prices, percent, { ...note, ...rateNote(given, { rate }) }) };
  if (margin !== undefined) {
    const terms = { rate, factor: plusPercent(margin) };
    const list = readGivenList("price", table, at, terms, inspection);
    return { ...prices, ...completeList(list, { note: { ...note, ...rateNote(list, terms) } }) };
  }
  if (own === undefined) return prices;
  const under = { given, list: prices };
  const isDollars = own.hasDollars || given.hasDollars;
  const list = completeList(own, {
    under,
    note: { ...note, ...rateNote({ ...own, hasDollars: isDollars }, { rate }) },
  });
  const extras = soldExtras(false, { ...given.base, ...own.base }, list.standard[0].price);
  return { ...prices, ...list, sells: { ...prices.sells, ...trueOnes(extras) } };
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
