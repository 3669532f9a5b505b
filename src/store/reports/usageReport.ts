import type { Connection } from "../connection.ts";
import type { Steps } from "../steps.ts";
import type { TimeSpan } from "../tables/usage.ts";
import {
  figuresOf,
  inOrder,
  readCells,
  readTotal,
  totalOf,
  type Figures,
  type Sums,
} from "./figures.ts";
import type { SteppedSpan } from "./span.ts";

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
export function* readUsage(
  connection: Connection,
  span: SteppedSpan,
  options: { readonly account?: number | undefined; readonly retentionStart: number },
): Steps<UsageReport> {
  const { byModel, byProvider, byAccount, byKey } = yield* readCells(connection, span, options);
  const { from, to, before, times } = span;
  const models = ranked(byModel, totalOf);
  const topAccounts: Named[] = [];
  for (const { name: id, figures } of first(ranked(byAccount, (sums) => sums))) {
    const row = yield* connection.row<{ name: string }>(
      "SELECT name FROM accounts WHERE id = $id",
      { id },
    );
    topAccounts.push({ name: row?.name ?? "", figures });
  }
  const topKeys: RankedKey[] = [];
  for (const { name: id, figures } of first(ranked(byKey, (sums) => sums))) {
    const key = yield* connection.row<Omit<RankedKey, "figures">>(
      `SELECT k.public_id AS key, a.name AS account, k.label FROM keys k
        JOIN accounts a ON a.id = k.account_id WHERE k.id = $id`,
      { id },
    );
    if (key !== undefined) topKeys.push({ ...key, figures });
  }
  return {
    span,
    now: { from, to, figures: figuresOf(totalOf(byKey.values())) },
    before: { ...before, figures: yield* readTotal(connection, before, options) },
    series: {
      total: times.map((_, step) => figuresOf(totalOf(stepOf(byModel.values(), step)))),
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

function* stepOf(groups: Iterable<readonly Sums[]>, step: number): Generator<Sums> {
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
    return Array.from({ length: steps }, (_, step) => figuresOf(totalOf(stepOf(cells, step))));
  };
  const rest = models.slice(TOP);
  return [
    ...first(models).map((model) => ({ model, steps: stepsOf([model]) })),
    ...(rest.length > 0 ? [{ model: null, steps: stepsOf(rest) }] : []),
  ];
}
