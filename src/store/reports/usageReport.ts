import type { Connection, TimeSpan } from "../connection.ts";
import {
  addParts,
  figureNames,
  figuresIn,
  figuresOf,
  inOrder,
  partsMaker,
  rowsText,
  sourcesOf,
  sumReader,
  type Figures,
  type Parts,
  type Source,
} from "../usage/sums.ts";
import { sourcesOfSpan, stepOf, type SteppedSpan } from "./span.ts";

const TOP = 10;

/** A span with its figures. */
interface SpanFigures extends TimeSpan {
  readonly figures: Figures;
}

/** The figures of each step. */
interface UsageSeries {
  readonly total: readonly Figures[];
  /** The ten models with the highest charges. `model` is null for the others together. */
  readonly models: readonly { readonly model: string | null; readonly steps: readonly Figures[] }[];
}

interface RankedKey {
  readonly key: string;
  readonly account: string;
  readonly label: string | null;
  readonly figures: Figures;
}

/** The usage of one span, and of the same part of the span before it. */
export interface UsageReport {
  readonly span: SteppedSpan;
  readonly now: SpanFigures;
  readonly before: SpanFigures;
  readonly series: UsageSeries;
  /** The ten with the highest charges. The name of an absent provider is "". */
  readonly top: {
    readonly accounts: readonly Named[];
    readonly keys: readonly RankedKey[];
    readonly models: readonly Named[];
    readonly providers: readonly Named[];
  };
}

interface Named {
  readonly name: string;
  readonly figures: Figures;
}

/** `account`: the row id, for one account only. */
export async function readUsage(
  connection: Connection,
  span: SteppedSpan,
  retentionStart: number,
  account?: number,
): Promise<UsageReport> {
  const condition = account === undefined ? undefined : `account_id = ${account}`;
  const { byModel, byProvider, byAccount, byKey } = await readCells(
    connection,
    span,
    sourcesOfSpan(connection, span, retentionStart, condition),
  );
  const { from, to, before, times } = span;
  const readBefore = sumReader({
    sources: sourcesOf(connection.paths, before, retentionStart, condition),
    by: [],
    figures: figureNames,
  });
  const [earlier = figuresIn({}, figureNames)] = await readBefore(connection);
  const models = ranked(byModel, totalOf);
  const topAccounts: Named[] = [];
  for (const { name: id, figures } of first(ranked(byAccount, (sums) => sums))) {
    const row = await connection.row<{ name: string }>("SELECT name FROM accounts WHERE id = $id", {
      id,
    });
    topAccounts.push({ name: row?.name ?? "", figures });
  }
  const topKeys: RankedKey[] = [];
  for (const { name: id, figures } of first(ranked(byKey, (sums) => sums))) {
    const key = await connection.row<Omit<RankedKey, "figures">>(
      `SELECT k.public_id AS key, a.name AS account, k.label FROM keys k
        JOIN accounts a ON a.id = k.account_id WHERE k.id = $id`,
      { id },
    );
    if (key !== undefined) topKeys.push({ ...key, figures });
  }
  return {
    span,
    now: { from, to, figures: allFiguresOf(totalOf(byKey.values())) },
    before: { ...before, figures: earlier },
    series: {
      total: times.map((_, step) => allFiguresOf(totalOf(atStep(byModel.values(), step)))),
      models: modelSeries(
        models.map(({ name }) => name),
        byModel,
        times.length,
      ),
    },
    top: {
      accounts: topAccounts,
      keys: topKeys,
      models: first(models),
      providers: first(ranked(byProvider, totalOf)),
    },
  };
}

const noSums = partsMaker(figureNames);

function totalOf(groups: Iterable<Parts>): Parts {
  const total = noSums();
  for (const sums of groups) addParts(total, sums);
  return total;
}

function allFiguresOf(sums: Parts): Figures {
  return figuresOf(sums, figureNames);
}

/** The sums of a span by step and model, by step and provider, and by account and key. */
interface UsageCells {
  readonly byModel: ReadonlyMap<string, readonly Parts[]>;
  readonly byProvider: ReadonlyMap<string, readonly Parts[]>;
  readonly byAccount: ReadonlyMap<number, Parts>;
  readonly byKey: ReadonlyMap<number, Parts>;
}

const cellGroups = ["account", "key", "model", "provider"] as const;
/** The step and the groups, and then the parts of the figures. */
type Row = readonly [
  step: number,
  account: number,
  key: number,
  model: string,
  provider: string,
  ...parts: number[],
];

/** Reads each row of a span once, and adds it to its model and provider in its step, and to its key. */
async function readCells(
  connection: Connection,
  span: SteppedSpan,
  sources: readonly Source[],
): Promise<UsageCells> {
  const byBoth = new Map<string, Map<string, Parts[]>>();
  const keys = new Map<number, { readonly account: number; readonly sums: Parts }>();
  const noSteps = () => span.times.map(noSums);
  const by = [span.step, ...cellGroups];
  const query = rowsText({ sources, by, figures: figureNames });
  for (const row of await connection.plainRows<Row>(query)) {
    const [since1970, account, key, model, provider] = row;
    const ofModel = groupOf(byBoth, model, () => new Map<string, Parts[]>());
    const cell = groupOf(ofModel, provider, noSteps)[stepOf(span, since1970)];
    if (cell !== undefined) addParts(cell, row, by.length);
    addParts(groupOf(keys, key, () => ({ account, sums: noSums() })).sums, row, by.length);
  }
  const byModel = new Map<string, Parts[]>();
  const byProvider = new Map<string, Parts[]>();
  const addSteps = (to: readonly Parts[], steps: readonly Parts[]) =>
    to.forEach((total, step) => addParts(total, steps[step] ?? noSums()));
  for (const [model, ofModel] of byBoth)
    for (const [provider, steps] of ofModel) {
      addSteps(groupOf(byModel, model, noSteps), steps);
      addSteps(groupOf(byProvider, provider, noSteps), steps);
    }
  const byAccount = new Map<number, Parts>();
  for (const { account, sums } of keys.values())
    addParts(groupOf(byAccount, account, noSums), sums);
  const byKey = new Map([...keys].map(([key, { sums }]) => [key, sums]));
  return { byModel, byProvider, byAccount, byKey };
}

function groupOf<Name, Group>(groups: Map<Name, Group>, name: Name, empty: () => Group): Group {
  let group = groups.get(name);
  if (group === undefined) groups.set(name, (group = empty()));
  return group;
}

/** The groups with their figures, the highest charges first. */
function ranked<Name extends string | number, Cells>(
  groups: ReadonlyMap<Name, Cells>,
  total: (cells: Cells) => Parts,
): readonly { readonly name: Name; readonly figures: Figures }[] {
  return [...groups]
    .map(([name, cells]) => ({ name, figures: allFiguresOf(total(cells)) }))
    .toSorted(
      ({ figures: a, name: one }, { figures: b, name: other }) =>
        Number(b.charged - a.charged) || b.requests - a.requests || inOrder(one, other),
    );
}

function first<Row>(rows: readonly Row[]): readonly Row[] {
  return rows.slice(0, TOP);
}

function* atStep(groups: Iterable<readonly Parts[]>, step: number): Generator<Parts> {
  for (const steps of groups) {
    const sums = steps[step];
    if (sums !== undefined) yield sums;
  }
}

function modelSeries(
  models: readonly string[],
  byModel: ReadonlyMap<string, readonly Parts[]>,
  steps: number,
): UsageSeries["models"] {
  const stepsOf = (names: readonly string[]): Figures[] => {
    const cells = names.flatMap((name) => [byModel.get(name) ?? []]);
    return Array.from({ length: steps }, (_, step) => allFiguresOf(totalOf(atStep(cells, step))));
  };
  const rest = models.slice(TOP);
  return [
    ...first(models).map((model) => ({ model, steps: stepsOf([model]) })),
    ...(rest.length > 0 ? [{ model: null, steps: stepsOf(rest) }] : []),
  ];
}
