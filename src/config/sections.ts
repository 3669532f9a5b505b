import { databaseOptions } from "./database.ts";
import { modelOptions } from "./models.ts";
import { notifyOptions } from "./notify.ts";
import { isTable, section, tables, type Options, type Table } from "./option.ts";
import { providerOptions } from "./providers.ts";
import type { Config } from "./schema.ts";
import { pageOptions, serverOptions } from "./server.ts";
import {
  apiOptions,
  billingOptions,
  limitsOptions,
  logOptions,
  metricsOptions,
  telemetryOptions,
} from "./settings.ts";

/** What a config file may have, in the order of the example. */
export const sections = {
  server: section("server", serverOptions),
  page: section("page", pageOptions),
  database: section("database", databaseOptions),
  api: section("api", apiOptions),
  billing: section("billing", billingOptions),
  limits: section("limits", limitsOptions),
  log: section("log", logOptions),
  metrics: section("metrics", metricsOptions),
  telemetry: section("telemetry", telemetryOptions),
  notify: section("notify", notifyOptions),
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
  const reduced = Object.entries(tree).map(([key, value]) => {
    const options = key === kept ? undefined : optionsOf(key);
    if (options === undefined) return [key, value] as const;
    if (Array.isArray(value))
      return [key, value.map((one: unknown) => reducedTable(one, options))] as const;
    return [key, reducedTable(value, options)] as const;
  });
  return Object.fromEntries(reduced);
}

function reducedTable(table: unknown, options: Options): unknown {
  if (!isTable(table)) return table;
  const dropped = new Set(
    Object.values(options).flatMap(({ keys, spec }) => (spec.serveOnly === true ? keys : [])),
  );
  return Object.fromEntries(Object.entries(table).filter(([key]) => !dropped.has(key)));
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

/** The tables of a parsed config, with the entries that each may have. */
function tablesIn(tree: unknown): readonly (readonly [Table, Options])[] {
  if (!isTable(tree)) return [];
  return Object.entries(tree).flatMap(([key, value]) => {
    const options = optionsOf(key);
    const found: readonly unknown[] = Array.isArray(value) ? value : [value];
    return options === undefined
      ? []
      : found.filter(isTable).map((table) => [table, options] as const);
  });
}

function optionsOf(key: string): Options | undefined {
  return Object.values(sections).find(({ keys }) => keys[0] === key)?.options;
}
