import type { DollarList } from "../../config/dollarPrices.ts";
import { dollarKey } from "../../config/prices.ts";
import { formatDecimal, type Decimal } from "../../lib/decimal.ts";
import { table, visible } from "../../lib/terminal.ts";
import type { Result } from "../cli/print.ts";
import { percentOf, type PriceChange } from "./priceChanges.ts";

/** What happens to the prices of a model, with its words in the table. */
const CHANGES = {
  new: "new",
  higher: "higher",
  lower: "lower",
  changed: "changed",
  gone: "gone",
  removed: "removed",
  unchanged: "unchanged",
  unknown: "not found",
  inConfig: "not synced",
  notSelected: "not selected",
} as const;
export type ChangeName = keyof typeof CHANGES;

/** A model of the config beside the list. */
export interface SyncedModel {
  readonly id: string;
  readonly listName: string | undefined;
  readonly change: ChangeName;
  readonly changes: readonly PriceChange[];
  /** `before`: the first list. `after`: the second one. */
  readonly disagreements: readonly PriceChange[];
  readonly notes: readonly string[];
  /** Why it is refused, or why it keeps its prices. */
  readonly reason: string | undefined;
  /** Its new prices are not written. */
  readonly isRefused: boolean;
  readonly proposal: DollarList | undefined;
  /** The lowest margin of all its prices in percent. Null: unknown. */
  readonly marginBefore: number | null;
  readonly marginAfter: number | null;
}

interface Report {
  readonly models: readonly SyncedModel[];
  readonly file: string | undefined;
  readonly source: { readonly name: string };
  readonly second: { readonly name: string } | undefined;
  readonly options: { readonly from?: { readonly text: string } };
  readonly changed: number;
}

export function syncResult(report: Report, isWritten: boolean): Result {
  const { models, file, source, second, options } = report;
  const unchanged = models.filter(({ change }) => change === "unchanged");
  const shown = models.filter(isShown);
  return {
    document: {
      written: isWritten,
      file: file ?? null,
      source: source.name,
      second: second?.name ?? null,
      from: options.from?.text ?? null,
      unchanged: unchanged.length,
      models: shown.map(modelDocument),
    },
    text: () => reportText(report, shown, unchanged.length),
  };
}

/** A model whose prices stay is shown only where the lists disagree. */
function isShown({ change, disagreements }: SyncedModel): boolean {
  if (change === "notSelected") return false;
  return change !== "unchanged" || disagreements.length > 0;
}

function modelDocument(model: SyncedModel) {
  return {
    id: model.id,
    list_name: model.listName ?? null,
    change: CHANGES[model.change],
    refused: model.isRefused,
    reason: model.reason ?? null,
    changes: model.changes.map((change) => ({
      ...placeOf(change),
      before: dollars(change.before),
      after: dollars(change.after),
      percent: percentOf(change),
    })),
    disagreements: model.disagreements.map((change) => ({
      ...placeOf(change),
      first: dollars(change.before),
      second: dollars(change.after),
    })),
    margin_before: model.marginBefore,
    margin_after: model.marginAfter,
    notes: model.notes,
  };
}

function placeOf({ figure, service, fromPromptTokens }: PriceChange) {
  return {
    price: dollarKey(figure.price.key),
    service_tier: service ?? null,
    from_prompt_tokens: fromPromptTokens,
  };
}

function dollars(amount: Decimal | undefined): string | null {
  return amount === undefined ? null : formatDecimal(amount);
}

function reportText(
  { second, changed, source }: Report,
  models: readonly SyncedModel[],
  unchanged: number,
): string {
  const changes = models.filter(({ change }) => change !== "unchanged");
  const disagreements = models.flatMap((model) =>
    model.disagreements.map((one) => [model.id, priceText(one), cell(one.before), cell(one.after)]),
  );
  const reasons = models.flatMap(({ id, isRefused, reason }) =>
    reason === undefined ? [] : [[id, isRefused ? "refused" : "kept", reason]],
  );
  const notes = changes.flatMap(({ id, notes: all }) => all.map((note) => [id, note]));
  const parts = [
    ...(changes.length > 0
      ? [
          `prices in dollars, from ${visible(source.name)}`,
          table(changeColumns, changes.flatMap(changeRows)),
        ]
      : []),
    ...(disagreements.length > 0
      ? ["the lists disagree:", table(listColumns(second?.name), disagreements)]
      : []),
    ...(reasons.length > 0 ? [table(reasonColumns, reasons)] : []),
    ...(notes.length > 0 ? [table([{ head: "model" }, { head: "note" }], notes)] : []),
    `${unchanged} models have the same prices, ${changed} change`,
  ];
  return parts.join("\n\n");
}

const changeColumns = [
  { head: "model" },
  { head: "prices" },
  { head: "price" },
  { head: "before", kind: "money" },
  { head: "after", kind: "money" },
  { head: "%", kind: "number" },
  { head: "margin before", kind: "number" },
  { head: "margin after", kind: "number" },
] as const;
const reasonColumns = [{ head: "model" }, { head: "" }, { head: "reason" }] as const;

function listColumns(second: string | undefined) {
  return [
    { head: "model" },
    { head: "price" },
    { head: "first list", kind: "money" },
    { head: second ?? "second list", kind: "money" },
  ] as const;
}

/** Only the first row of a model names it and its margins. */
function changeRows(model: SyncedModel): readonly (readonly string[])[] {
  const margins = [model.marginBefore, model.marginAfter].map((margin) =>
    margin === null ? "-" : `${margin} %`,
  );
  const name = [model.id, CHANGES[model.change]];
  const [first, ...others] = model.changes.map((change) => {
    const percent = percentOf(change);
    const sign = percent !== null && percent > 0 ? "+" : "";
    return [
      priceText(change),
      cell(change.before),
      cell(change.after),
      percent === null ? "-" : `${sign}${percent}`,
    ];
  });
  return [
    [...name, ...(first ?? ["", "", "", ""]), ...margins],
    ...others.map((cells) => ["", ""].concat(cells)),
  ];
}

/** Such as `usd_input_per_1m, flex, from 272001 tokens`. */
function priceText({ figure, service, fromPromptTokens }: PriceChange): string {
  return [
    dollarKey(figure.price.key),
    ...(service === undefined ? [] : [service]),
    ...(fromPromptTokens === 0 ? [] : [`from ${fromPromptTokens} tokens`]),
  ].join(", ");
}

function cell(amount: Decimal | undefined): string {
  return amount === undefined ? "-" : formatDecimal(amount);
}
