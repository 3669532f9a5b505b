import type { Connection, TimeSpan } from "../connection.ts";
import {
  figureNames,
  figuresIn,
  inOrder,
  partNames,
  rowsText,
  sourcesOf,
  sumReader,
  type Figures,
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
    now: { from, to, figures: figuresOf(totalOf(byKey.values())) },
    before: { ...before, figures: earlier },
    series: {
      total: times.map((_, step) => figuresOf(totalOf(atStep(byModel.values(), step)))),
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

const parts = figureNames.flatMap(partNames);

/**
 * The parts of all figures. All are integers below 2^53: a row has at most 9.3e9 roubles, and less than 1e9 nano-roubles in
 * a rest.
 */
type Sums = Float64Array;

function noSums(): Sums {
  return new Float64Array(parts.length);
}

/** Adds the numbers from an index on. */
function add(to: Sums, values: ArrayLike<unknown>, first = 0): void {
  for (let at = 0; at < to.length; at += 1) to[at] = (to[at] ?? 0) + (values[first + at] as number);
}

function totalOf(groups: Iterable<Sums>): Sums {
  const total = noSums();
  for (const sums of groups) add(total, sums);
  return total;
}

function figuresOf(sums: Sums): Figures {
  return figuresIn(Object.fromEntries(parts.map((part, at) => [part, sums[at]])), figureNames);
}

/** The sums of a span by step and model, by step and provider, and by account and key. */
interface UsageCells {
  readonly byModel: ReadonlyMap<string, readonly Sums[]>;
  readonly byProvider: ReadonlyMap<string, readonly Sums[]>;
  readonly byAccount: ReadonlyMap<number, Sums>;
  readonly byKey: ReadonlyMap<number, Sums>;
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

/**
 * Reads each row of a span once, and sums in all groupings at the same time. In SQL each grouping would sort all rows:
 * three times as slow.
 */
async function readCells(
  connection: Connection,
  span: SteppedSpan,
  sources: readonly Source[],
): Promise<UsageCells> {
  const byModel = new Map<string, Sums[]>();
  const byProvider = new Map<string, Sums[]>();
  const byKey = new Map<number, Sums>();
  const byAccount = new Map<number, Sums>();
  const noSteps = () => span.times.map(noSums);
  const by = [span.step, ...cellGroups];
  const query = rowsText({ sources, by, figures: figureNames });
  for (const row of await connection.plainRows<Row>(query)) {
    const [since1970, account, key, model, provider] = row;
    const step = stepOf(span, since1970);
    const cells = [
      groupOf(byModel, model, noSteps)[step],
      groupOf(byProvider, provider, noSteps)[step],
      groupOf(byKey, key, noSums),
      groupOf(byAccount, account, noSums),
    ];
    for (const sums of cells) if (sums !== undefined) add(sums, row, by.length);
  }
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
  total: (cells: Cells) => Sums,
): readonly { readonly name: Name; readonly figures: Figures }[] {
  return [...groups]
    .map(([name, cells]) => ({ name, figures: figuresOf(total(cells)) }))
    .toSorted(
      ({ figures: a, name: one }, { figures: b, name: other }) =>
        Number(b.charged - a.charged) || b.requests - a.requests || inOrder(one, other),
    );
}

function first<Row>(rows: readonly Row[]): readonly Row[] {
  return rows.slice(0, TOP);
}

function* atStep(groups: Iterable<readonly Sums[]>, step: number): Generator<Sums> {
  for (const steps of groups) {
    const sums = steps[step];
    if (sums !== undefined) yield sums;
  }
}

function modelSeries(
  models: readonly string[],
  byModel: ReadonlyMap<string, readonly Sums[]>,
  steps: number,
): UsageSeries["models"] {
  const stepsOf = (names: readonly string[]): Figures[] => {
    const cells = names.flatMap((name) => [byModel.get(name) ?? []]);
    return Array.from({ length: steps }, (_, step) => figuresOf(totalOf(atStep(cells, step))));
  };
  const rest = models.slice(TOP);
  return [
    ...first(models).map((model) => ({ model, steps: stepsOf([model]) })),
    ...(rest.length > 0 ? [{ model: null, steps: stepsOf(rest) }] : []),
  ];
}
