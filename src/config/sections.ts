import { databaseOptions } from "./database.ts";
import { modelOptions } from "./models.ts";
import { notifyOptions } from "./notify.ts";
import { isTable, section, tables, type Options, type Table } from "./option.ts";
import { planOptions } from "./plans.ts";
import { currencyOptions, priceRuleOptions, pricingOptions } from "./pricing.ts";
import { providerOptions } from "./providers.ts";
import { priceEntryOptions } from "./schedules.ts";
import type { Config } from "./schema.ts";
import { pageOptions, serverOptions } from "./server.ts";
import {
  apiOptions,
  billingOptions,
  limitsOptions,
  logOptions,
  metricsOptions,
  routingOptions,
  telemetryOptions,
} from "./settings.ts";

/** What a config file may have, in the order of the example. */
export const sections = {
  server: section("server", serverOptions),
  page: section("page", pageOptions),
  database: section("database", databaseOptions),
  api: section("api", apiOptions),
  billing: section("billing", billingOptions),
  routing: section("routing", routingOptions),
  limits: section("limits", limitsOptions),
  log: section("log", logOptions),
  metrics: section("metrics", metricsOptions),
  telemetry: section("telemetry", telemetryOptions),
  notify: section("notify", notifyOptions),
  currency: section("currency", currencyOptions),
  pricing: section("pricing", pricingOptions),
  priceRules: tables("price_rules", priceRuleOptions, {
    form: "a list of tables: write [[price_rules]]",
    max: 1000,
    doc: "",
  }),
  providers: tables("providers", providerOptions, {
    form: "a list of tables: write [[providers]]",
    max: 1000,
    doc: "",
  }),
  models: tables("models", modelOptions, {
    form: "a list of tables: write [[models]]",
    max: 10_000,
    doc: "",
  }),
  prices: tables("prices", priceEntryOptions, {
    form: "a list of tables: write [[prices]]",
    max: 100_000,
    doc: "",
  }),
  plans: tables("plans", planOptions, {
    form: "a list of tables: write [[plans]]",
    max: 1000,
    doc: "",
  }),
} as const;

/** The names of the files that a parsed config names, as they stand there. */
export function namedFiles(tree: unknown): readonly string[] {
  return tablesIn(tree).flatMap(([table, options]) =>
    Object.values(options)
      .flatMap(({ fileKeys }) => fileKeys.map((key) => table[key]))
      .filter((value) => typeof value === "string"),
  );
}

/** A copy of a parsed config without the values that only `serve` needs. `kept`: the section that stays whole. */
export function withoutServeOnly(tree: unknown, kept: "notify" | undefined): unknown {
  if (!isTable(tree)) return tree;
  const reducedTree = Object.entries(tree).map(([key, value]) => {
    const options = key === kept ? undefined : optionsOf(key);
    return [key, options ? reduced(value, options) : value] as const;
  });
  return Object.fromEntries(reducedTree);
}

/** A table or a list of tables without those values. */
function reduced(value: unknown, options: Options): unknown {
  if (!Array.isArray(value)) return reducedTable(value, options);
  return value.map((one: unknown) => reducedTable(one, options));
}

function reducedTable(table: unknown, options: Options): unknown {
  if (!isTable(table)) return table;
  const entries = Object.values(options);
  const kept = Object.entries(table).flatMap(([key, value]) => {
    const entry = entries.find(({ keys }) => keys.includes(key));
    if (entry?.spec.serveOnly === true) return [];
    return [[key, entry?.options ? reduced(value, entry.options) : value] as const];
  });
  return Object.fromEntries(kept);
}

/** The keys that differ and take effect only after a restart. `inUnit`: the unit of systemd contains the value. */
export function changedAtStart(
  before: Config,
  after: Config,
): readonly { readonly key: string; readonly inUnit: boolean }[] {
  return Object.entries(sections).flatMap(([name, { options = {} }]) =>
    Object.entries(options).flatMap(([field, { keys, spec }]) => {
      const { restart, inUnit = false } = spec;
      if (restart === undefined) return [];
      const fixed = ({ [name as keyof Config]: values }: Config): unknown =>
        restart === true
          ? (values as Table | undefined)?.[field]
          : restart(values as unknown as never);
      if (Bun.deepEquals(fixed(before), fixed(after))) return [];
      return [{ key: `${name}.${keys[0]}`, inUnit }];
    }),
  );
}

/** The tables of a parsed config and those inside them, with the entries that each may have. */
function tablesIn(
  tree: unknown,
  entriesOf: (key: string) => Options | undefined = optionsOf,
): readonly (readonly [Table, Options])[] {
  if (!isTable(tree)) return [];
  return Object.entries(tree).flatMap(([key, value]) => {
    const options = entriesOf(key);
    if (options === undefined) return [];
    const found: readonly unknown[] = Array.isArray(value) ? value : [value];
    return found.filter(isTable).flatMap((table) => {
      const inside = tablesIn(table, (name) => optionsIn(options, name));
      return [[table, options] as const].concat(inside);
    });
  });
}

function optionsOf(key: string): Options | undefined {
  return optionsIn(sections, key);
}

function optionsIn(options: Options, key: string): Options | undefined {
  return Object.values(options).find(({ keys }) => keys[0] === key)?.options;
}
