import { TomlDate } from "smol-toml";
import { byPrice } from "../contract/figures.ts";
import { serviceTiers } from "../contract/priceList.ts";
import { formatDecimal, parseDecimal, type Decimal } from "../lib/decimal.ts";
import {
  priceTable,
  tomlLines,
  type DollarList,
  type DollarPrices,
  type DollarTiers,
} from "./dollarPrices.ts";
import { ConfigError } from "./inspection.ts";
import { isTable, type Table } from "./option.ts";
import { dollarKey } from "./prices.ts";
import { momentOf } from "./schedules.ts";
import { parseToml } from "./toml.ts";

/** One of the [[prices]] in the file that `tollgate prices sync` writes. */
export interface FilePrices {
  readonly model: string;
  /** When they come into force, as it stands in the file. Undefined: they are the first prices. */
  readonly from: string | undefined;
  readonly margin: Decimal | undefined;
  readonly prices: DollarList;
}

/** When the prices come into force, in milliseconds since 1970. */
export function fromMs({ from }: Pick<FilePrices, "from">): number {
  return from === undefined ? 0 : (momentOf(from) ?? 0);
}

/** Reads the text of the file. Throws {@link ConfigError} for what `tollgate prices sync` does not write. */
export function readFilePrices(file: string, text: string): readonly FilePrices[] {
  const tree = parseToml(file, text);
  const { prices = [], ...others } = isTable(tree) ? tree : {};
  if (!Array.isArray(prices) || Object.keys(others).length > 0)
    throw foreign(file, "only [[prices]]");
  return prices.map((table: unknown, index): FilePrices => {
    if (!isTable(table)) throw foreign(file, "only [[prices]]");
    const { model, from, margin_percent: margin } = table;
    if (typeof model !== "string") throw foreign(`${file}: prices[${index}]`, "a model");
    if (keysIn(table).some((key) => key.startsWith("rub_")))
      throw foreign(`${file}: prices[${index}]`, "prices in dollars, and these are in roubles");
    const services = Object.entries(tableOf(table["service_tiers"])).flatMap(([name, one]) => {
      const service = serviceTiers.find((known) => known === name);
      return service === undefined ? [] : [[service, tiersIn(tableOf(one))] as const];
    });
    return {
      model,
      from: from instanceof TomlDate ? from.toISOString() : undefined,
      margin: amountOf(margin),
      prices: { ...tiersIn(table), services: Object.fromEntries(services) },
    };
  });
}

function foreign(at: string, what: string): ConfigError {
  return new ConfigError([
    `${at}: the file of \`tollgate prices sync\` has ${what}: move the rest into the config`,
  ]);
}

/** The keys of a table and of the tables inside it. */
function keysIn(table: Table): readonly string[] {
  const inside = Object.values(table).flatMap((value): readonly unknown[] =>
    Array.isArray(value) ? value : [value],
  );
  return [...Object.keys(table), ...inside.filter(isTable).flatMap(keysIn)];
}

function tiersIn(table: Table): DollarTiers {
  const tiers: readonly unknown[] = Array.isArray(table["tiers"]) ? table["tiers"] : [];
  return {
    base: pricesIn(table),
    tiers: tiers.map((one) => {
      const tier = tableOf(one);
      const { above_prompt_tokens: above, from_prompt_tokens: from } = tier;
      return {
        abovePromptTokens: above === undefined ? Number(from) - 1 : Number(above),
        prices: pricesIn(tier),
      };
    }),
  };
}

function pricesIn(table: Table): DollarPrices {
  const found = byPrice.flatMap(({ price: { name, key } }) => {
    const amount = amountOf(table[dollarKey(key)]);
    return amount === undefined ? [] : [[name, amount] as const];
  });
  return Object.fromEntries(found);
}

function amountOf(value: unknown): Decimal | undefined {
  return typeof value === "number" || typeof value === "bigint"
    ? parseDecimal(String(value))
    : undefined;
}

function tableOf(value: unknown): Table {
  return isTable(value) ? value : {};
}

/** The text of the file. `about`: lines of a comment at its top. */
export function filePricesText(
  entries: readonly FilePrices[],
  about: readonly string[] = [],
): string {
  const head = about.map((line) => `# ${line}\n`).join("");
  return [head, ...entries.map(entryText)].filter((part) => part !== "").join("\n");
}

function entryText({ model, from, margin, prices }: FilePrices): string {
  const lines = [
    "[[prices]]",
    `model = ${JSON.stringify(model)}`,
    ...(from === undefined ? [] : [`from = ${from}`]),
    ...(margin === undefined ? [] : [`margin_percent = ${formatDecimal(margin)}`]),
    ...tomlLines(priceTable(prices)),
  ];
  return `${lines.join("\n")}\n`;
}
