import { TomlDate } from "smol-toml";
import type { PriceSchedule, ScheduledPrices, SoldPrices } from "../contract/priceList.ts";
import type { Decimal } from "../lib/decimal.ts";
import type { Inspection } from "./inspection.ts";
import {
  documentedElsewhere,
  entry,
  readTable,
  readTables,
  text,
  type Option,
  type Table,
} from "./option.ts";
import {
  checkPrices,
  completeList,
  isEmpty,
  priceTableOptions,
  rateNote,
  readGivenList,
  readVendorList,
  soldExtras,
  type GivenList,
  type GivenTable,
} from "./priceLists.ts";
import { marginPercent, type Terms } from "./pricing.ts";

/** A moment: a date (midnight in UTC) or a time with its offset. Milliseconds since 1970. */
export function moment(key: string, doc: string): Option<number | undefined> {
  return entry<number | undefined>(
    key,
    { doc, example: false },
    {
      form: "a date such as 2026-12-01 (midnight in UTC), or a time with its offset such as 2026-12-01T00:00:00+03:00",
      accept: momentOf,
      absent: undefined,
    },
  );
}

/** Milliseconds since 1970. Undefined for what is no date and no time with an offset. */
export function momentOf(value: unknown): number | undefined {
  if (typeof value === "string") return momentOf(new TomlDate(value));
  if (!(value instanceof TomlDate) || !value.isValid()) return undefined;
  if (value.isDate()) return Date.parse(`${value.toISOString()}T00:00:00Z`);
  return value.isDateTime() && !value.isLocal() ? value.getTime() : undefined;
}

export const priceEntryOptions = {
  model: text("model", {
    required: true,
    form: "the id of a model, in quotes",
    example: false,
    doc: "The id of the model that has the prices.",
  }),
  from: moment(
    "from",
    "When the prices come into force: a date (midnight in UTC) or a time with its offset. Until then the model has its earlier prices. Without it they are the first prices of the model, which then has none in [[models]].",
  ),
  ...documentedElsewhere({ ...priceTableOptions, margin: marginPercent }),
} as const;

/** One of the [[prices]]. */
export interface PriceEntry {
  readonly at: string;
  readonly table: GivenTable;
  readonly fromMs: number | undefined;
  readonly margin: Decimal | undefined;
}

/** The [[prices]] of some lists by the id of their model. `place`: how a list is named in problems, which go to the inspection. */
export function readPriceEntries(
  lists: readonly (readonly [place: string, items: readonly unknown[]])[],
  ids: ReadonlySet<string>,
  inspection: Inspection,
): ReadonlyMap<string, readonly PriceEntry[]> {
  const read = (one: Table, at: string) => {
    const {
      model = "",
      from,
      margin,
      ...table
    } = readTable(priceEntryOptions, one, at, inspection);
    const key = `${at}.model`;
    if (model !== "" && !ids.has(model))
      inspection.problem(key, `no model has the id ${inspection.quote(key, model)}`);
    return { model, at, table, fromMs: from, margin };
  };
  const entries = lists.flatMap(([place, items]) => readTables(items, place, inspection, read));
  return Map.groupBy(entries, ({ model }) => model);
}

/** Prices from a moment on, as they are written. */
export interface WrittenPrices {
  readonly fromMs: number;
  readonly table: GivenTable;
  readonly at: string;
  readonly given: GivenList;
  readonly prices: SoldPrices;
}

/** The prices of a model: its own, and those of its [[prices]], in the order of time. Problems go to the inspection. */
export function readSchedule(
  model: {
    readonly id: string;
    readonly kind: string;
    readonly free: boolean;
    readonly needsPrices: boolean;
  },
  source: {
    readonly table: GivenTable;
    readonly at: string;
    readonly entries: readonly PriceEntry[];
    /** `own`: the margin of an entry. */
    readonly terms: (own?: Decimal) => Terms;
  },
  inspection: Inspection,
): { readonly schedule: PriceSchedule; readonly written: readonly WrittenPrices[] } {
  const { table, at, entries, terms } = source;
  const read = (one: GivenTable, place: string, fromMs: number, own?: Decimal): WrittenPrices => {
    const used = terms(own);
    const given = readGivenList("price", one, place, used, inspection);
    const vendor = readVendorList(one, place, used, inspection);
    return {
      fromMs,
      table: one,
      at: place,
      given,
      prices: soldAt(model.free, given, vendor, used),
    };
  };
  const own = read(table, at, 0);
  const later = entries.map((one) => read(one.table, one.at, one.fromMs ?? 0, one.margin));
  const sorted = later.toSorted((one, other) => one.fromMs - other.fromMs);
  for (const [index, { at: place, fromMs }] of sorted.entries())
    if (index > 0 && fromMs === sorted[index - 1]?.fromMs)
      inspection.problem(`${place}.from`, `is the same moment as that of ${sorted[index - 1]?.at}`);
  const first = sorted[0]?.fromMs === 0 ? sorted[0] : undefined;
  if (first !== undefined && !isEmpty(own.given))
    inspection.problem(
      first.at,
      `the model has prices in ${at} too: remove one of them, or set from here`,
    );
  const written = first === undefined ? [own, ...sorted] : sorted;
  for (const one of written) checkPrices(model, one.given, one.at, inspection);
  const schedule = written.map(({ fromMs, prices }): ScheduledPrices => ({ fromMs, prices }));
  return { schedule: schedule as unknown as PriceSchedule, written };
}

function soldAt(
  free: boolean,
  given: GivenList,
  vendor: GivenList | undefined,
  terms: Terms,
): SoldPrices {
  const list = completeList(given, { note: rateNote(given, terms) });
  return {
    ...list,
    sells: soldExtras(free, given.base, list.standard[0].price),
    vendor: vendor && completeList(vendor),
  };
}
