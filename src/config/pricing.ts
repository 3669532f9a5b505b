import { matchesPattern } from "../lib/pattern.ts";
import { parseDecimal, plusPercent, zero, type Decimal } from "../lib/decimal.ts";
import type { Inspection } from "./inspection.ts";
import { file, readTable, readTables, text, type Table } from "./option.ts";
import { decimal } from "./prices.ts";
import { readNamedFile } from "./values.ts";

/** The exchange rate and the margin that turn a price in dollars into one in roubles. */
export interface Terms {
  /** Undefined: no rate is set. */
  readonly rate: Decimal | undefined;
  /** A price divided by what the vendor asks: 1.2 for a margin of 20 %. */
  readonly factor: Decimal;
}

export const marginPercent = decimal("margin_percent", {
  what: "a number",
  max: 10_000,
  example: false,
  doc: "What is added to prices in dollars, in percent. Prices in roubles stay as they are. The first of these counts: that of the model, of the first of [[price_rules]] whose pattern fits, of the provider of the first route, of [pricing]. Default: 0.",
});

export const currencyOptions = {
  usd: decimal("usd", {
    what: "the roubles for one dollar, a number such as 92.5",
    max: 1_000_000,
    example: "92.5",
    doc: "Roubles for one dollar. Prices and costs in dollars (usd_*) are turned into roubles by it when the config is loaded.",
  }),
  usdFile: file("usd_file", {
    example: false,
    doc: "Or a file that contains this number, for example one that a cron job writes. It is read again at each reload.",
  }),
} as const;

export const pricingOptions = {
  margin: { ...marginPercent, spec: { ...marginPercent.spec, example: "20" } },
  file: file("file", {
    example: false,
    doc: "A file with further [[prices]], such as `tollgate prices sync` writes it. It is read again at each reload.",
  }),
} as const;

export const priceRuleOptions = {
  models: text("models", {
    required: true,
    form: "a pattern of model ids, in which * is any text",
    example: '"gpt-*"',
    doc: "The ids of the models, in which * is any text. The first rule that fits a model counts.",
  }),
  margin: decimal("margin_percent", {
    required: true,
    what: "a number",
    max: 10_000,
    example: "20",
    doc: "What is added to their prices in dollars, in percent.",
  }),
} as const;

/** How prices in dollars are turned into roubles. */
export interface Pricing {
  readonly rate: Decimal | undefined;
  /** The file with further prices, as an absolute path. Undefined: none. */
  readonly file: string | undefined;
  readonly margin: Decimal;
  readonly rules: readonly { readonly models: string; readonly margin: Decimal }[];
}

/** Problems go to the inspection. */
export function readPricing(
  given: {
    readonly currency: Table;
    readonly pricing: Table;
    readonly priceRules: readonly unknown[];
  },
  inspection: Inspection,
): Pricing {
  const currency = readTable(currencyOptions, given.currency, "currency", inspection);
  const pricing = readTable(pricingOptions, given.pricing, "pricing", inspection);
  const rules = readTables(given.priceRules, "price_rules", inspection, (table, at) => {
    const { models = "", margin } = readTable(priceRuleOptions, table, at, inspection);
    return { models, margin: margin ?? zero };
  });
  return {
    rate: readRate(currency, inspection),
    file: pricing.file === "" ? undefined : inspection.absolutePath(pricing.file),
    margin: pricing.margin ?? zero,
    rules,
  };
}

/** Stands for a rate that is a problem, so that it is the only one. */
const ANY_RATE: Decimal = { digits: 1n, places: 0 };

function readRate(
  { usd, usdFile }: { readonly usd: Decimal | undefined; readonly usdFile: string },
  inspection: Inspection,
): Decimal | undefined {
  const key = "currency.usd_file";
  if (usd?.digits === 0n) {
    inspection.problem("currency.usd", "must be above 0");
    return ANY_RATE;
  }
  if (usdFile === "") return usd;
  if (usd !== undefined) inspection.problem(key, "is set beside usd: remove one of them");
  const written = readNamedFile(inspection, key, usdFile);
  if (written === undefined) return ANY_RATE;
  const rate = parseDecimal(written.trim());
  if (rate !== undefined && rate.digits > 0n) return rate;
  inspection.problem(key, "must name a file that contains only a number above 0, such as 92.5");
  return ANY_RATE;
}

/** The terms of a model. `own`: its own margin. */
export function termsFor(
  { rate, margin, rules }: Pricing,
  model: { readonly id: string; readonly own: Decimal | undefined },
  ofProvider: Decimal | undefined,
): Terms {
  const rule = rules.find(({ models }) => matchesPattern(models, model.id));
  return { rate, factor: plusPercent(model.own ?? rule?.margin ?? ofProvider ?? margin) };
}
