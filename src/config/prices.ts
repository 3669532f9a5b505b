import { ofEachPrice, type Figure, type PriceName } from "../contract/figures.ts";
import { parseDecimal, type Decimal } from "../lib/decimal.ts";
import { joinKey } from "./inspection.ts";
import { entry, type Option, type Spec } from "./option.ts";

/** The highest price and the highest rate. */
export const BILLION = 1_000_000_000;

/**
 * The highest token limit of a model. At the highest prices, a hold of this many prompt tokens, eight such choices and a
 * million web searches is 1.9e18 nano-roubles, which fits into a signed 64-bit integer.
 */
export const MODEL_TOKENS_MAX = 100_000_000;

/** The example and the documentation of the keys. */
const specs: Readonly<Record<PriceName, { readonly price: Spec; readonly cost: Spec }>> = {
  input: {
    price: { example: "25000", doc: "Required: 25 roubles per 1,000,000 prompt tokens." },
    cost: {
      example: "12000",
      doc: "What the provider charges you, for the margin in reports and for a warning of a price below it. It and the next key: set both or neither.",
    },
  },
  cachedInput: {
    price: {
      example: "2500",
      doc: "Prompt tokens read from the provider's cache. Default: the input price.",
    },
    cost: {
      example: "1200",
      doc: "The same for tokens read from its cache. Default: what input costs.",
    },
  },
  cacheWrite: {
    price: {
      example: "25000",
      doc: "Prompt tokens written to the provider's cache. Default: the input price.",
    },
    cost: {
      example: "12000",
      doc: "The same for tokens written to its cache. Default: what input costs.",
    },
  },
  cacheWrite1h: {
    price: {
      example: "50000",
      doc: "Prompt tokens that are kept in the provider's cache for an hour, where the provider is of kind anthropic. Without this price a request for an hour is refused. A model that costs nothing needs no price.",
    },
    cost: {
      example: "12000",
      doc: "The same for tokens that it keeps in its cache for an hour. Default: what a token written to its cache costs.",
    },
  },
  output: {
    price: { example: "200000", doc: "Required: 200 roubles per 1,000,000 completion tokens." },
    cost: { example: "96000", doc: "The same for completion tokens." },
  },
  webSearch: {
    price: {
      example: "900000",
      doc: "1,000 web searches that the provider runs and bills one by one: 900 roubles. Without this price /v1/messages refuses them, and over the responses interface of a provider they are not charged.",
    },
    cost: { example: "0", doc: "The same for 1,000 web searches. Default: 0." },
  },
};

/** A price as it stands in the file: thousandths of a rouble, or dollars. */
export type GivenAmount = { readonly rub: bigint } | { readonly usd: Decimal };

/** What a client pays. */
export const priceOptions = ofEachPrice((figure) => {
  const { name, key } = figure.price;
  return option(figure, key, specs[name].price);
});

/** What a provider charges the operator: each has the name of the price that must cover it. */
export const costOptions = ofEachPrice((figure) =>
  option(figure, figure.costKey, specs[figure.price.name].cost),
);

/** "thousandths of a rouble per 1,000,000 tokens", with an example. */
export function unitText({ per, things, example }: Figure["unit"]): string {
  return `thousandths of a rouble per ${per} ${things} (${example})`;
}

/** The key of the same price in dollars. */
export function dollarKey(key: string): string {
  return key.replace("rub_", "usd_");
}

/** A price in roubles or in dollars. Undefined if neither is set. */
function option(figure: Figure, key: string, spec: Spec): Option<GivenAmount | undefined> {
  const { unit, ofEmbeddings } = figure;
  const only = ofEmbeddings ? {} : ({ only: "chat" } as const);
  const roubles = entry<bigint | undefined>(
    key,
    { ...spec, ...only },
    {
      form: `a whole number of ${unitText(unit)} from 0 to ${BILLION}`,
      accept: (value) =>
        typeof value === "bigint" && value >= 0n && value <= BILLION ? value : undefined,
      absent: undefined,
      range: `0 to ${BILLION}`,
    },
  );
  const dollars = decimal(dollarKey(key), {
    doc: "",
    what: `a number of dollars per ${unit.per} ${unit.things}, such as 1.25,`,
    max: 1_000_000,
  });
  return {
    ...roubles,
    keys: [...roubles.keys, ...dollars.keys],
    read(table, at, inspection) {
      const rub = roubles.read(table, at, inspection);
      const usd = dollars.read(table, at, inspection);
      if (rub !== undefined && usd !== undefined)
        inspection.problem(joinKey(at, dollarKey(key)), `is set beside ${key}: remove one of them`);
      if (rub !== undefined) return { rub };
      return usd && { usd };
    },
  };
}

/** A number from 0 that may have a fraction. It is read exactly. Undefined if it is not set. */
export function decimal(
  key: string,
  spec: Spec & { readonly what: string; readonly max: number; readonly required?: true },
): Option<Decimal | undefined> {
  const { what, max, required } = spec;
  return entry<Decimal | undefined>(key, spec, {
    form: `${what} from 0 to ${max}`,
    accept: (value) =>
      (typeof value === "number" || typeof value === "bigint") && value >= 0 && value <= max
        ? parseDecimal(String(value))
        : undefined,
    isRequired: required === true,
    absent: undefined,
    range: `0 to ${max}`,
  });
}
