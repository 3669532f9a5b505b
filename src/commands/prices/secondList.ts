import type { DollarList, DollarPrices } from "../../config/dollarPrices.ts";
import { byPrice, type PriceName } from "../../contract/figures.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { parseDecimal, type Decimal } from "../../lib/decimal.ts";
import { CommandFailure } from "../cli/print.ts";
import { listFigures } from "./listFigures.ts";
import { parsePriceList, textOf } from "./litellmList.ts";
import type { SourceText } from "./source.ts";

/** Finds a model in a second list. Undefined: the list does not have it, or has no price for it. */
export type SecondList = (vendor: string, model: string) => DollarList | undefined;

/**
 * Reads a list in the form of https://github.com/pydantic/genai-prices/blob/main/prices/data.json: prices in dollars per
 * 1,000,000 tokens. `at`: the date for which prices are wanted, such as `2026-12-01`. Throws CommandFailure.
 */
export function readSecondList(source: SourceText, at: string): SecondList {
  const list = parsePriceList(source);
  if (!Array.isArray(list))
    throw new CommandFailure(
      `${source.name} is not a second price list: it must be data.json of genai-prices, a list of providers`,
    );
  const vendors = new Map(
    list.map(fieldsOf).map((vendor) => [textOf(vendor["id"]), listOf(vendor["models"])] as const),
  );
  return (vendor, model) => {
    const found = vendors.get(vendor)?.find((one) => isMatch(one["match"], model));
    const prices = found && pricesAt(found["prices"], at);
    return prices && dollarsOf(prices);
  };
}

function listOf(value: unknown): readonly JsonFields[] {
  const items: readonly unknown[] = Array.isArray(value) ? value : [];
  return items.map(fieldsOf);
}

/** Regular expressions of the list are not run: a hostile one never ends. */
function isMatch(rule: unknown, model: string): boolean {
  const fields = fieldsOf(rule);
  const text = (key: string): string | undefined =>
    typeof fields[key] === "string" ? fields[key] : undefined;
  const [equals, start, end, part] = ["equals", "starts_with", "ends_with", "contains"].map(text);
  if (equals !== undefined) return model === equals;
  if (start !== undefined) return model.startsWith(start);
  if (end !== undefined) return model.endsWith(end);
  if (part !== undefined) return model.includes(part);
  if (Array.isArray(fields["or"])) return fields["or"].some((one) => isMatch(one, model));
  if (Array.isArray(fields["and"])) return fields["and"].every((one) => isMatch(one, model));
  return false;
}

/** The prices of the latest day that has come. Those of hours of the day are left out. */
function pricesAt(prices: unknown, at: string): JsonFields | undefined {
  if (isJsonObject(prices)) return fieldsOf(prices);
  const dated = listOf(prices).flatMap((one) => {
    const constraint = fieldsOf(one["constraint"]);
    const start = Object.keys(constraint).length === 0 ? "" : textOf(constraint["start_date"]);
    const isDated = Object.keys(constraint).every((key) => key === "start_date");
    return isDated && start <= at ? [{ start, prices: fieldsOf(one["prices"]) }] : [];
  });
  return dated.toSorted((one, other) => (one.start < other.start ? -1 : 1)).at(-1)?.prices;
}

/** A price is a number, or one with tiers by the length of the prompt. */
function dollarsOf(fields: JsonFields): DollarList | undefined {
  const base: { [Name in PriceName]?: Decimal } = {};
  const tiers = new Map<number, { [Name in PriceName]?: Decimal }>();
  for (const { price } of byPrice) {
    const value = fields[listFigures[price.name]?.genai ?? ""];
    const first = parseDecimal(textOf(isJsonObject(value) ? fieldsOf(value)["base"] : value));
    if (first === undefined) continue;
    base[price.name] = first;
    for (const tier of listOf(fieldsOf(value)["tiers"])) {
      const above = Number(textOf(tier["start"]));
      const cost = parseDecimal(textOf(tier["price"]));
      if (!Number.isSafeInteger(above) || cost === undefined) continue;
      tiers.set(above, { ...tiers.get(above), [price.name]: cost });
    }
  }
  if (base.input === undefined) return undefined;
  const ascending = [...tiers].toSorted(([one], [other]) => one - other);
  return {
    base,
    tiers: ascending.map(([abovePromptTokens, prices]: [number, DollarPrices]) => ({
      abovePromptTokens,
      prices,
    })),
    services: {},
  };
}
