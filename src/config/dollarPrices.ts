import { byPrice, type Figure, type PriceName } from "../contract/figures.ts";
import { serviceTiers, type PriceList, type ServiceTier } from "../contract/priceList.ts";
import { formatDecimal, multiply, roundUp, type Decimal } from "../lib/decimal.ts";
import { completeList, type Given, type GivenList } from "./priceLists.ts";
import { dollarKey } from "./prices.ts";

/** Dollars for as many as the unit of the price says. */
export type DollarPrices = { readonly [Name in PriceName]?: Decimal };

export interface DollarTier {
  readonly abovePromptTokens: number;
  /** The prices that differ from those of the shortest prompt. */
  readonly prices: DollarPrices;
}

export interface DollarTiers {
  readonly base: DollarPrices;
  /** Ascending. */
  readonly tiers: readonly DollarTier[];
}

/** What a vendor asks, as it stands in a price list or in the config. */
export interface DollarList extends DollarTiers {
  /** The prices that differ from the standard ones. */
  readonly services: { readonly [Name in ServiceTier]?: DollarTiers };
}

/** A whole number of 10^-15 dollars for as many as the unit says: the list as the config completes it, without rounding. */
export function exactList(list: DollarList): PriceList {
  return completeList(given(list, (dollars) => roundUp(dollars, 15)));
}

/** Nano-roubles of one, rounded up to whole thousandths of a rouble as those of the config. */
export function roubleList(list: DollarList, rate: Decimal): PriceList {
  return completeList(
    given(list, (dollars, { unit }) => roundUp(multiply(dollars, rate), 3) * unit.nanoOfOne),
  );
}

type AmountOf = (dollars: Decimal, figure: Figure) => bigint;

function given(list: DollarList, amountOf: AmountOf): GivenList {
  const prices = (dollars: DollarPrices): Given =>
    Object.fromEntries(
      byPrice.flatMap((figure) => {
        const amount = dollars[figure.price.name];
        return amount === undefined ? [] : [[figure.price.name, amountOf(amount, figure)]];
      }),
    );
  const tiersOf = ({ base, tiers }: DollarTiers) => ({
    base: prices(base),
    tiers: tiers.map((tier) => ({
      fromPromptTokens: tier.abovePromptTokens + 1,
      given: prices(tier.prices),
    })),
  });
  const services = ofEachService(list, tiersOf);
  return { ...tiersOf(list), services, hasDollars: true };
}

/** A value for each service tier that the list has. */
export function ofEachService<Value>(
  { services }: DollarList,
  valueOf: (tiers: DollarTiers, service: ServiceTier) => Value,
): { readonly [Name in ServiceTier]?: Value } {
  const values = serviceTiers.flatMap((service) => {
    const tiers = services[service];
    return tiers === undefined ? [] : [[service, valueOf(tiers, service)] as const];
  });
  return Object.fromEntries(values) as { readonly [Name in ServiceTier]?: Value };
}

/** The keys of a table of the config. */
export interface PriceTable {
  readonly [key: string]: Decimal | number | PriceTable | readonly PriceTable[];
}

/** A key of the config, and its value. */
type PriceEntry = readonly [key: string, value: Decimal | number];

/** The keys of a list, such as `usd_input_per_1m`, with `tiers` and `service_tiers`. */
export function priceTable(
  list: DollarList,
  entryOf: (dollars: Decimal, figure: Figure) => PriceEntry = (dollars, { price }) => [
    dollarKey(price.key),
    dollars,
  ],
): PriceTable {
  const prices = (dollars: DollarPrices): PriceTable =>
    Object.fromEntries(
      byPrice.flatMap((figure) => {
        const amount = dollars[figure.price.name];
        return amount === undefined ? [] : [entryOf(amount, figure)];
      }),
    );
  const tiersOf = ({ base, tiers }: DollarTiers): PriceTable => ({
    ...prices(base),
    ...(tiers.length > 0 && {
      tiers: tiers.map((tier) => ({
        above_prompt_tokens: tier.abovePromptTokens,
        ...prices(tier.prices),
      })),
    }),
  });
  const services = ofEachService(list, tiersOf);
  const hasServices = Object.keys(services).length > 0;
  return { ...tiersOf(list), ...(hasServices && { service_tiers: services }) };
}

/** The same with numbers, for a document. */
export function numbersOf(table: PriceTable): Readonly<Record<string, unknown>> {
  const numbers = Object.entries(table).map(([key, value]) => [key, numberOf(value)] as const);
  return Object.fromEntries(numbers);
}

function numberOf(value: PriceTable[string]): unknown {
  if (typeof value === "number") return value;
  if (isDecimal(value)) return Number(formatDecimal(value));
  return isList(value) ? value.map(numbersOf) : numbersOf(value);
}

/** Lines of TOML: one for each price, each tier by length and each service tier. */
export function tomlLines(table: PriceTable): readonly string[] {
  return Object.entries(table).flatMap(([key, value]) => linesOf(key, value));
}

function linesOf(key: string, value: PriceTable[string]): readonly string[] {
  if (typeof value === "number" || isDecimal(value)) return [`${key} = ${inline(value)}`];
  if (isList(value)) {
    const items = value.map((one) => `  ${inline(one)},`);
    return [`${key} = [`, ...items, "]"];
  }
  return Object.entries(value).map(([name, one]) => `${key}.${name} = ${inline(one)}`);
}

function inline(value: PriceTable[string]): string {
  if (typeof value === "number") return String(value);
  if (isDecimal(value)) return formatDecimal(value);
  if (isList(value)) return `[${value.map(inline).join(", ")}]`;
  const members = Object.entries(value).map(([key, one]) => `${key} = ${inline(one)}`);
  return `{ ${members.join(", ")} }`;
}

function isDecimal(value: PriceTable[string]): value is Decimal {
  return typeof value === "object" && "digits" in value;
}

function isList(value: PriceTable[string]): value is readonly PriceTable[] {
  return Array.isArray(value);
}
