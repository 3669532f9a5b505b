import {
  byPrice,
  costKeyOf,
  higherPrice,
  isExtra,
  ofEachPrice,
  type ExtraName,
  type Figure,
  type Price,
  type PriceName,
} from "../contract/figures.ts";
import {
  serviceTiers,
  withHighest,
  type PriceList,
  type PriceTiers,
  type PricingNote,
  type ServiceTier,
  type SoldPrices,
} from "../contract/priceList.ts";
import { lossesOf } from "../contract/margins.ts";
import { formatDecimal, multiply, roundUp } from "../lib/decimal.ts";
import type { Inspection } from "./inspection.ts";
import {
  entry,
  isTable,
  readTable,
  readTables,
  wholeNumber,
  type Options,
  type Table,
  type Values,
} from "./option.ts";
import {
  BILLION,
  costOptions,
  dollarKey,
  MODEL_TOKENS_MAX,
  priceOptions,
  unitText,
  type GivenAmount,
} from "./prices.ts";
import type { Terms } from "./pricing.ts";

/** The tables with further prices, as they stand in the file. Their keys are read by `readGivenList`. */
const furtherTables = {
  tiers: entry<readonly unknown[]>(
    "tiers",
    {
      only: "chat",
      example: false,
      doc: "Prices by the length of the prompt: a list of tables, such as [[models.tiers]], with above_prompt_tokens (exclusive) or from_prompt_tokens (inclusive) and the prices that differ. The whole request is charged at the tier of its prompt. Default: none.",
    },
    {
      form: "a list of tables, such as [[models.tiers]]",
      accept: (value) => (Array.isArray(value) && value.length <= 20 ? value : undefined),
      absent: [],
    },
  ),
  serviceTiers: entry<Table>(
    "service_tiers",
    {
      only: "chat",
      example: false,
      doc: `Prices of service tiers (${serviceTiers.join(", ")}): tables such as [models.service_tiers.flex] with the prices that differ, and tiers of their own. A client may ask for a service tier that has prices. The answer's tier is charged. Default: none.`,
    },
    {
      form: "a table, such as [models.service_tiers.flex]",
      accept: (value) => (isTable(value) ? value : undefined),
      absent: {},
    },
  ),
} as const;

/** The keys of what clients pay. */
export const priceTableOptions = { ...priceOptions, ...furtherTables } as const;
/** The keys of what a provider charges the operator. */
export const costTableOptions = { ...costOptions, ...furtherTables } as const;

const borderOptions = {
  above: wholeNumber("above_prompt_tokens", { min: 1, max: MODEL_TOKENS_MAX, doc: "" }),
  from: wholeNumber("from_prompt_tokens", { min: 1, max: MODEL_TOKENS_MAX, doc: "" }),
} as const;

type AmountOptions = typeof priceOptions;
export type GivenTable = Values<AmountOptions & typeof furtherTables>;

/** Nano-roubles of one, of the prices that stand in the file. */
export type Given = { readonly [Name in PriceName]?: bigint };

interface GivenTier {
  readonly fromPromptTokens: number;
  readonly given: Given;
}

interface GivenTiers {
  readonly base: Given;
  /** Ascending. */
  readonly tiers: readonly GivenTier[];
}

/** The prices of a model or the costs of a route that stand in the file. */
export interface GivenList extends GivenTiers {
  readonly services: { readonly [Name in ServiceTier]?: GivenTiers };
  /** Some are in dollars. */
  readonly hasDollars: boolean;
}

/** Whether no price is set. */
export function isEmpty({ base, tiers, services }: GivenList): boolean {
  return Object.keys(base).length === 0 && tiers.length === 0 && Object.keys(services).length === 0;
}

/** Reads the prices or the costs of a table, with those of its tiers. Problems go to the inspection. */
export function readGivenList(
  kind: "price" | "cost",
  table: GivenTable,
  at: string,
  terms: Terms,
  inspection: Inspection,
): GivenList {
  const reader = new ListReader(kind, terms, inspection);
  const services: { [Name in ServiceTier]?: GivenTiers } = {};
  for (const [name, value] of Object.entries(table.serviceTiers)) {
    const key = `${at}.service_tiers.${name}`;
    const service = serviceTiers.find((one) => one === name);
    if (service === undefined)
      inspection.problem(key, `unknown key; the keys here are ${serviceTiers.join(", ")}`);
    else if (!isTable(value)) inspection.problem(key, "must be a table");
    else {
      const given = readTable(
        { ...amountOptions(kind), tiers: furtherTables.tiers },
        value,
        key,
        inspection,
      );
      services[service] = reader.tiers(given, key);
    }
  }
  const standard = reader.tiers(table, at);
  return { ...standard, services, hasDollars: reader.hasDollars };
}

/**
 * The same list without the margin: what the vendor asks. Undefined unless prompt and answer have prices in dollars. The
 * answer of an embedding model has no price.
 */
export function readVendorList(
  table: GivenTable,
  at: string,
  terms: Terms,
  inspection: Inspection,
): GivenList | undefined {
  const { input, output } = table;
  if (input === undefined || !("usd" in input) || (output && !("usd" in output))) return undefined;
  const cost = { ...terms, factor: { digits: 1n, places: 0 } };
  return readGivenList("price", table, at, cost, inspection);
}

function amountOptions(kind: "price" | "cost"): AmountOptions {
  return kind === "price" ? priceOptions : costOptions;
}

class ListReader {
  hasDollars = false;
  readonly #kind: "price" | "cost";
  readonly #terms: Terms;
  readonly #inspection: Inspection;

  constructor(kind: "price" | "cost", terms: Terms, inspection: Inspection) {
    this.#kind = kind;
    this.#terms = terms;
    this.#inspection = inspection;
  }

  tiers(table: Omit<GivenTable, "serviceTiers">, at: string): GivenTiers {
    const options: Options & typeof borderOptions & AmountOptions = {
      ...borderOptions,
      ...amountOptions(this.#kind),
    };
    const tiers = readTables(table.tiers, `${at}.tiers`, this.#inspection, (one, place) => {
      const given = readTable(options, one, place, this.#inspection);
      return { fromPromptTokens: this.#border(given, place), given: this.#amounts(given, place) };
    });
    for (const [index, { fromPromptTokens }] of tiers.entries())
      if (index > 0 && fromPromptTokens <= (tiers[index - 1]?.fromPromptTokens ?? 0))
        this.#inspection.problem(
          `${at}.tiers[${index}]`,
          "must begin at more tokens than the tier before it",
        );
    return { base: this.#amounts(table, at), tiers };
  }

  #border({ above, from }: Values<typeof borderOptions>, at: string): number {
    if ((above === undefined) === (from === undefined))
      this.#inspection.problem(
        at,
        "must have above_prompt_tokens (exclusive) or from_prompt_tokens (inclusive), and not both",
      );
    return above === undefined ? (from ?? 0) : above + 1;
  }

  #amounts(values: Values<AmountOptions>, at: string): Given {
    const given: { [Name in PriceName]?: bigint } = {};
    for (const figure of byPrice) {
      const { name } = figure.price;
      const amount = values[name];
      if (amount !== undefined) given[name] = this.#amountOf(amount, figure, at);
    }
    return given;
  }

  #amountOf(amount: GivenAmount, figure: Figure, at: string): bigint {
    const { unit } = figure;
    if ("rub" in amount) return amount.rub * unit.nanoOfOne;
    this.hasDollars = true;
    const { rate, factor } = this.#terms;
    const key = `${at}.${dollarKey(this.#kind === "price" ? figure.price.key : costKeyOf(figure))}`;
    if (rate === undefined) {
      this.#inspection.problem(
        key,
        "is in dollars: set [currency] usd, the roubles for one dollar",
      );
      // Any price that is no problem of its own.
      return unit.nanoOfOne;
    }
    const sold = this.#kind === "price" ? multiply(rate, factor) : rate;
    const thousandths = roundUp(multiply(amount.usd, sold), 3);
    if (thousandths > BILLION)
      this.#inspection.problem(key, `is ${thousandths} ${unitText(unit)}: the most is ${BILLION}`);
    return thousandths * unit.nanoOfOne;
  }
}

/** What a complete list adds to the given one. */
interface Completion {
  /** The list that this one changes, complete and as given. */
  readonly under?: { readonly given: GivenList; readonly list: PriceList } | undefined;
  readonly note?: PricingNote;
}

/**
 * The list with every price. A tier has the prices that differ from the first one, and a service tier those that differ
 * from the standard one. Where only the list under this one has a tier, the higher of both prices counts.
 */
export function completeList(own: GivenList, { under, note = {} }: Completion = {}): PriceList {
  const base = { ...under?.given.base, ...own.base };
  const standard = completeTiers({ ...own, base }, under?.list.standard, note);
  const services: { [Name in ServiceTier]?: PriceTiers } = {};
  for (const service of serviceTiers) {
    const given = own.services[service];
    const ofUnder = under?.list.services[service];
    const serviceNote = { ...note, service_tier: service };
    if (given !== undefined) {
      const layered = { ...given, base: { ...base, ...given.base } };
      services[service] = completeTiers(layered, standard, serviceNote);
    } else if (ofUnder !== undefined) services[service] = noted(ofUnder, serviceNote);
  }
  return { standard, services };
}

function completeTiers(
  { base, tiers }: GivenTiers,
  under: PriceTiers | undefined,
  note: PricingNote,
): PriceTiers {
  const borders = new Set(tiers.map(({ fromPromptTokens }) => fromPromptTokens));
  for (const { fromPromptTokens } of under ?? [])
    if (fromPromptTokens > 0) borders.add(fromPromptTokens);
  let inForce = completePrice(base);
  const later = [...borders]
    .toSorted((one, other) => one - other)
    .map((fromPromptTokens) => {
      const own = tiers.find((tier) => tier.fromPromptTokens === fromPromptTokens);
      if (own !== undefined) inForce = completePrice({ ...base, ...own.given });
      const beneath = under?.findLast((tier) => tier.fromPromptTokens <= fromPromptTokens);
      const price = own || !beneath ? inForce : higherPrice(inForce, beneath.price);
      return { fromPromptTokens, price };
    });
  const first = { fromPromptTokens: 0, price: completePrice(base) };
  return noted([first, ...later], note);
}

/** The same tiers with the note of a request at each. */
export function noted(
  tiers: readonly { readonly fromPromptTokens: number; readonly price: Price }[],
  note: PricingNote,
): PriceTiers {
  const all = tiers.map(({ fromPromptTokens, price }) => {
    const whole: PricingNote =
      fromPromptTokens === 0 ? note : { ...note, from_prompt_tokens: fromPromptTokens };
    const isEmptyNote = Object.keys(whole).length === 0;
    return { fromPromptTokens, price, note: isEmptyNote ? null : JSON.stringify(whole) };
  });
  return withHighest(all);
}

/** A fallback comes before the prices that fall back to it. */
function completePrice(given: Given): Price {
  const price = ofEachPrice(() => 0n);
  for (const {
    price: { name },
    fallback,
  } of byPrice)
    price[name] = given[name] ?? (fallback === undefined ? 0n : price[fallback]);
  return price;
}

/** The note of prices that were turned into roubles. */
export function rateNote({ hasDollars }: GivenList, { rate }: Pick<Terms, "rate">): PricingNote {
  return hasDollars && rate !== undefined ? { usd_rate: formatDecimal(rate) } : {};
}

/** A model as far as its prices are checked. */
interface SoldModel {
  readonly kind: string;
  readonly free: boolean;
  /** False: its prices may be missing. */
  readonly needsPrices: boolean;
}

/** Checks that each price of a model is there, and that one of 0 is intended. Problems go to the inspection. */
export function checkPrices(
  { kind, free, needsPrices }: SoldModel,
  given: GivenList,
  at: string,
  inspection: Inspection,
): void {
  const sold = byPrice.filter((figure) => isOf(kind, figure));
  const all = allGiven(given);
  for (const figure of sold) {
    const { name, key } = figure.price;
    if (!free && all.some((one) => one[name] === 0n))
      inspection.problem(`${at}.${key}`, "is 0: add free = true if the model costs nothing");
    if (given.base[name] === undefined && isRequired(figure) && !free && needsPrices)
      inspection.problem(
        `${at}.${key}`,
        `is required: a whole number of ${unitText(figure.unit)}, or write free = true`,
      );
  }
  const price = completePrice(given.base);
  const counts = (figure: Figure) =>
    !isExtra(figure) ||
    (figure.fallback !== undefined && !figure.isRare) ||
    given.base[figure.price.name] !== undefined;
  if (free && sold.filter(counts).every(({ price: { name } }) => price[name] > 0n))
    inspection.problem(`${at}.free`, "is true, but no price is 0: remove it, or set a price to 0");
}

/** Every table of prices of a list. */
export function allGiven({ base, tiers, services }: GivenList): readonly Given[] {
  const lists = [{ base, tiers }, ...Object.values(services)];
  return lists.flatMap((one) => [one.base].concat(one.tiers.map(({ given }) => given)));
}

/**
 * Whether the model sells each of them: the operator set the price, or that of the figure whose price it has otherwise, or the
 * model costs nothing.
 */
export function soldExtras(
  free: boolean,
  given: Given,
  price: Price,
): Readonly<Record<ExtraName, boolean>> {
  const isFree = free && Object.values(price).every((amount) => amount === 0n);
  const isSold = ({ price: { name }, fallback, needsPrice }: Figure): boolean => {
    if (isFree || given[name] !== undefined) return true;
    if (!needsPrice) return false;
    const other = byPrice.find((figure) => figure.price.name === fallback);
    return other?.needsPrice === true && isSold(other);
  };
  const sold = byPrice.filter(isExtra).map((figure) => [figure.name, isSold(figure)] as const);
  return Object.fromEntries<boolean>(sold) as Record<ExtraName, boolean>;
}

/** Checks that the costs of a route are there together. True if there are any. Problems go to the inspection. */
export function checkCosts(
  given: GivenList,
  at: string,
  modelKind: string,
  inspection: Inspection,
): boolean {
  const known = byPrice.filter((figure) => isOf(modelKind, figure));
  const first = known.find(({ price: { name } }) => given.base[name] !== undefined);
  const isTiered = given.tiers.length > 0 || Object.keys(given.services).length > 0;
  if (first === undefined && !isTiered) return false;
  for (const figure of known.filter(isRequired))
    if (given.base[figure.price.name] === undefined)
      inspection.problem(
        `${at}.${costKeyOf(figure)}`,
        `is required with ${first ? costKeyOf(first) : "the costs of tiers"}`,
      );
  return true;
}

function isOf(modelKind: string, { ofEmbeddings }: Figure): boolean {
  return modelKind !== "embedding" || ofEmbeddings === true;
}

function isRequired(figure: Figure): boolean {
  return figure.fallback === undefined && !isExtra(figure);
}

/** Warns of each price below the cost of a route. It is probably in a wrong unit. */
export function warnAboutLosses(
  prices: SoldPrices,
  costs: readonly (PriceList | undefined)[],
  at: string,
  inspection: Inspection,
): void {
  for (const [key, warning] of lossWarnings(prices, costs))
    inspection.warning(`${at}.${key}`, warning);
  const { price } = prices.standard[0];
  if (price.cachedInput > price.input) {
    inspection.warning(
      `${at}.rub_cached_input_per_1m`,
      `is higher than the input price, ${price.cachedInput} to ${price.input}: prices are thousandths of a rouble per 1,000,000 tokens`,
    );
  }
}

/** A warning for each price below the cost of a route, with the key of the price. */
export function lossWarnings(
  prices: SoldPrices,
  costs: readonly (PriceList | undefined)[],
): readonly (readonly [key: string, warning: string])[] {
  return costs.flatMap((ofRoute, index) => {
    if (ofRoute === undefined) return [];
    const compared = { list: prices, sells: prices.sells, costs: ofRoute };
    return lossesOf(compared).map(({ figure, sold, cost, service, fromPromptTokens }) => {
      const { price, unit } = figure;
      const where = placeOf(service, fromPromptTokens);
      const amounts = `${sold / unit.nanoOfOne} for ${cost / unit.nanoOfOne}`;
      return [
        price.key,
        `is below the cost of routes[${index}]${where}, ${amounts}: prices are thousandths of a rouble per ${unit.per} ${unit.things}`,
      ] as const;
    });
  });
}

/** Such as " for prompts of 272001 tokens and more". Empty for the first tier. */
function placeOf(service: ServiceTier | undefined, from: number): string {
  return [
    service === undefined ? "" : ` in the service tier ${service}`,
    from === 0 ? "" : ` for prompts of ${from} tokens and more`,
  ].join("");
}
