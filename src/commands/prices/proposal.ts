import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { modelPricesOf } from "../../administration/reports/modelPrices.ts";
import { roubleList, type DollarList } from "../../config/dollarPrices.ts";
import { ConfigError, loadDraft } from "../../config/load.ts";
import {
  filePricesText,
  fromMs,
  readFilePrices,
  type FilePrices,
} from "../../config/pricesFile.ts";
import type { Config, ModelConfig } from "../../config/schema.ts";
import { lossesOf } from "../../contract/margins.ts";
import { pricesAt } from "../../contract/priceList.ts";
import { isoTime } from "../../lib/clock.ts";
import { formatDecimal, type Decimal } from "../../lib/decimal.ts";
import { matchesPattern } from "../../lib/pattern.ts";
import { fileErrorReason } from "../../lib/systemError.ts";
import { shortTime } from "../../lib/terminal.ts";
import { CommandFailure, printWarning } from "../cli/print.ts";
import { readPriceList } from "./litellmList.ts";
import { listedRoutes, type ListedRoute, type Lists } from "./modelPrices.ts";
import { changesOf, disagreementsOf, isJump, percentOf } from "./priceChanges.ts";
import { readSecondList } from "./secondList.ts";
import type { SourceText } from "./source.ts";
import type { ChangeName, SyncedModel } from "./syncReport.ts";

/** In percent. */
const CHANGE_MAX: Decimal = { digits: 50n, places: 0 };

/** What the command line gives. */
export interface SyncOptions {
  readonly second?: string;
  readonly from?: { readonly text: string; readonly ms: number };
  readonly output?: string;
  readonly allow?: readonly string[];
  readonly maxChange?: Decimal;
  readonly models?: readonly string[];
  readonly vendor?: ReadonlyMap<string, string>;
  readonly yes?: true;
}

interface SyncInput {
  readonly path: string | undefined;
  readonly options: SyncOptions;
  readonly source: SourceText;
  readonly second: SourceText | undefined;
  readonly nowMs: number;
}

interface Proposal {
  readonly models: readonly SyncedModel[];
  /** The whole file. */
  readonly entries: readonly FilePrices[];
  /** The models that change in the file. */
  readonly changed: number;
}

/** The prices of the config beside those of the lists. */
export class Sync {
  readonly config: Config;
  /** The file that the config names. */
  readonly named: string | undefined;
  /** The file that is written. */
  readonly file: string | undefined;
  readonly #input: SyncInput;
  readonly #lists: Lists;
  readonly #rate: Decimal | undefined;
  readonly #pricedInConfig: ReadonlySet<string>;
  /** What the file has now, of models of the config, and what it has of others. */
  readonly #current: readonly FilePrices[];
  readonly #foreign: readonly FilePrices[];
  readonly #marginsBefore: ReadonlyMap<string, number | null>;
  readonly #before: Findings;

  constructor(input: SyncInput) {
    this.#input = input;
    const { path, options, source, second } = input;
    const empty = loadDraft(path, { text: "", isComplete: false });
    this.named = empty.pricing.file;
    this.file = options.output === undefined ? this.named : resolve(options.output);
    const ids = new Set(empty.config.models.map(({ id }) => id));
    const all = this.file === undefined ? [] : readCurrent(this.file);
    this.#current = all.filter(({ model }) => ids.has(model));
    this.#foreign = all.filter(({ model }) => !ids.has(model));
    const text = filePricesText(this.#current);
    const draft = loadDraft(path, { text, isComplete: false });
    this.config = draft.config;
    this.#rate = draft.pricing.rate;
    this.#pricedInConfig = empty.pricedInConfig;
    this.#marginsBefore = this.#marginsOf(draft.config);
    this.#before = { ...findingsWith(path, text), warnings: draft.warnings };
    const day = isoTime(this.#atMs).slice(0, "2026-01-01".length);
    this.#lists = {
      first: readPriceList(source),
      second: second && readSecondList(second, day),
      vendors: options.vendor ?? new Map(),
    };
  }

  /** When the new prices come into force. */
  get #atMs(): number {
    return this.#input.options.from?.ms ?? this.#input.nowMs;
  }

  /** The comment at the top of the file. */
  head(): readonly string[] {
    const { source, second, nowMs } = this.#input;
    const beside = second === undefined ? "" : `, beside ${JSON.stringify(second.name)}`;
    return [
      `Written by \`tollgate prices sync\` on ${shortTime(nowMs)} from ${JSON.stringify(source.name)}${beside}.`,
      "Prices are the vendors', in dollars. The next run writes this file anew.",
    ];
  }

  proposed(): Proposal {
    const models = this.config.models.map((model) => this.#synced(model));
    const priced = this.#withMargins(models);
    const accepted = new Map(
      priced.flatMap(({ id, proposal, isRefused }) =>
        proposal === undefined || isRefused ? [] : [[id, proposal] as const],
      ),
    );
    const gone = this.#foreign.map(({ model }) => model);
    const removed = [...new Set(gone)].map((id) =>
      keeping(id, "removed", "the config has no such model: its prices leave the file"),
    );
    return {
      models: [...priced, ...removed],
      entries: this.#entriesWith(accepted),
      changed: accepted.size + removed.length,
    };
  }

  /** Throws ConfigError if the config does not load with the text. What was wrong before is a warning. */
  check(text: string): void {
    const { problems, warnings } = findingsWith(this.#input.path, text);
    const added = problems.filter((one) => !this.#before.problems.includes(one));
    if (added.length > 0)
      throw new ConfigError([
        ...added,
        "nothing was written: the config does not load with these prices",
      ]);
    problems.forEach(printWarning);
    for (const one of warnings) if (!this.#before.warnings.includes(one)) printWarning(one);
  }

  #synced(model: ModelConfig): SyncedModel {
    const { id } = model;
    const { options } = this.#input;
    if (options.models && !options.models.some((one) => matchesPattern(one, id)))
      return keeping(id, "notSelected");
    if (this.#pricedInConfig.has(id))
      return keeping(
        id,
        "inConfig",
        "its prices stand in the config itself: remove them there, and it is synced",
      );
    const current = this.#inForce(id)?.prices;
    const { found, reason } = listedRoutes(model, this.config, this.#lists);
    const [listed] = found;
    if (listed === undefined)
      return keeping(id, current === undefined ? "unknown" : "gone", reason);
    return this.#compared(model, current, listed);
  }

  #compared(
    { id }: ModelConfig,
    current: DollarList | undefined,
    { prices, second, listName, notes }: ListedRoute,
  ): SyncedModel {
    const { allow = [], maxChange = CHANGE_MAX, from } = this.#input.options;
    const changes = changesOf(current ?? noPrices, prices);
    const disagreements = second === undefined ? [] : disagreementsOf(prices, second);
    const isAllowed = allow.some((pattern) => matchesPattern(pattern, id));
    const change = current === undefined ? "new" : nameOf(changes.map(percentOf), changes.length);
    const refusals: string[] = [];
    if (change !== "unchanged" && !isAllowed) {
      if (current !== undefined && changes.some((one) => isJump(one, maxChange)))
        refusals.push(`a price changes by more than ${formatDecimal(maxChange)} %`);
      if (disagreements.length > 0) refusals.push("the lists disagree");
    }
    if (refusals.length > 0) refusals.push(`--allow ${id} takes the prices of the first list`);
    if (current === undefined && from !== undefined)
      refusals.push("it has no prices before that day: sync it without --from first");
    const isOld = change === "unchanged";
    return {
      ...keeping(id, change),
      listName,
      changes,
      disagreements,
      notes,
      reason: refusals.length > 0 ? refusals.join("; ") : undefined,
      isRefused: refusals.length > 0,
      proposal: isOld ? undefined : prices,
    };
  }

  /** Adds the margins, and refuses what would be sold below a route's cost. */
  #withMargins(models: readonly SyncedModel[]): readonly SyncedModel[] {
    const proposals = new Map(
      models.flatMap(({ id, proposal, isRefused }) =>
        proposal === undefined || isRefused ? [] : [[id, proposal] as const],
      ),
    );
    const draft = loadDraft(this.#input.path, {
      text: filePricesText(this.#entriesWith(proposals)),
      isComplete: false,
    });
    const after = this.#marginsOf(draft.config);
    return models.map((model) => {
      const marginBefore = this.#marginsBefore.get(model.id) ?? null;
      if (!proposals.has(model.id)) return { ...model, marginBefore, marginAfter: marginBefore };
      const sold = draft.config.models.find(({ id }) => id === model.id);
      const losses = sold === undefined ? [] : this.#losses(sold);
      return {
        ...model,
        marginBefore,
        marginAfter: after.get(model.id) ?? null,
        reason: losses.length > 0 ? losses.join("; ") : undefined,
        isRefused: losses.length > 0,
      };
    });
  }

  #losses(model: ModelConfig): readonly string[] {
    const prices = pricesAt(model.schedule, this.#atMs);
    const rate = this.#rate;
    const { found } = listedRoutes(model, this.config, this.#lists);
    return model.routes.flatMap((route) => {
      const listed = found.find(
        (one) => one.route.provider === route.provider && one.route.model === route.model,
      );
      const ofVendor = listed && rate && roubleList(listed.prices, rate);
      const costs = route.costs ?? ofVendor ?? prices.vendor;
      if (costs === undefined) return [];
      const losses = lossesOf({ list: prices, sells: prices.sells, costs });
      return losses.map(
        ({ figure, sold, cost }) =>
          `below the cost of the route to ${route.provider}: ${figure.price.key} ${sold / figure.unit.nanoOfOne} for ${cost / figure.unit.nanoOfOne}`,
      );
    });
  }

  /** The lowest margin of each model. */
  #marginsOf(config: Config): ReadonlyMap<string, number | null> {
    const shown = modelPricesOf(config, this.#atMs).data;
    return new Map(
      shown.map(({ id, routes, prices }) => {
        const isPriced = prices.rub_input_per_1m > 0;
        const all = routes.flatMap(({ lowest_margin }) => lowest_margin?.percent ?? []);
        return [id, isPriced && all.length > 0 ? Math.min(...all) : null] as const;
      }),
    );
  }

  /** The entry of a model that counts when the new prices come into force. */
  #inForce(id: string): FilePrices | undefined {
    const entries = this.#current.filter(({ model }) => model === id);
    return latest(entries, this.#atMs);
  }

  /** The file with these prices. What is over and followed by prices in force is left out. */
  #entriesWith(proposals: ReadonlyMap<string, DollarList>): readonly FilePrices[] {
    const { nowMs, options } = this.#input;
    const { from } = options;
    return this.config.models.flatMap(({ id }) => {
      const entries = this.#current.filter(({ model }) => model === id);
      const prices = proposals.get(id);
      const current = latest(entries, nowMs);
      const coming = entries.filter((one) => fromMs(one) > nowMs);
      const base = current && [{ ...current, from: undefined }];
      if (prices === undefined) return [...(base ?? []), ...coming];
      const margin = this.#inForce(id)?.margin;
      const added: FilePrices = { model: id, from: from?.text, margin, prices };
      if (from === undefined) return [added, ...coming];
      const others = coming.filter((one) => fromMs(one) !== from.ms);
      const later = [...others, added].toSorted((one, other) => fromMs(one) - fromMs(other));
      return [...(base ?? []), ...later];
    });
  }
}

const noPrices: DollarList = { base: {}, tiers: [], services: {} };

/** A model without new prices. */
function keeping(id: string, change: ChangeName, reason?: string): SyncedModel {
  return {
    id,
    listName: undefined,
    change,
    changes: [],
    disagreements: [],
    notes: [],
    reason,
    isRefused: false,
    proposal: undefined,
    marginBefore: null,
    marginAfter: null,
  };
}

function nameOf(percents: readonly (number | null)[], count: number): ChangeName {
  if (count === 0) return "unchanged";
  const isHigher = percents.some((percent) => percent !== null && percent > 0);
  const isLower = percents.some((percent) => percent !== null && percent < 0);
  if (isHigher) return isLower ? "changed" : "higher";
  return isLower ? "lower" : "changed";
}

function latest(entries: readonly FilePrices[], atMs: number): FilePrices | undefined {
  return entries
    .toSorted((one, other) => fromMs(one) - fromMs(other))
    .findLast((one) => fromMs(one) <= atMs);
}

interface Findings {
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** What is wrong with the config, with this text as its file with prices. */
function findingsWith(path: string | undefined, text: string): Findings {
  try {
    return { problems: [], warnings: loadDraft(path, { text, isComplete: true }).warnings };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { problems: error.problems, warnings: [] };
  }
}

function readCurrent(file: string): readonly FilePrices[] {
  if (!existsSync(file)) return [];
  try {
    return readFilePrices(file, readFileSync(file, "utf8"));
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new CommandFailure(`${file} cannot be read: ${fileErrorReason(cause)}`, { cause });
  }
}
