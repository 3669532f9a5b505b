import type { Connection } from "../connection.ts";
import {
  addParts,
  figuresOf,
  inOrder,
  partsMaker,
  rowsText,
  type Figures,
  type Parts,
} from "../usage/sums.ts";
import { readAttempts } from "./attempts.ts";
import { latenciesOf, readLatencies, type Latencies, type Measured } from "./latency.ts";
import { sourcesOfSpan, stepOf, type SteppedSpan } from "./span.ts";

const FIGURES = [
  "requests",
  "charged",
  "operatorCost",
  "promptTokens",
  "cachedTokens",
  "cacheSaved",
  "operatorSaved",
] as const;
type ProviderSums = Pick<Figures, (typeof FIGURES)[number]>;

/** A provider in a span. Undefined in a list: the attempts of this step are folded. */
export interface ProviderFigures {
  readonly provider: string;
  readonly figures: ProviderSums;
  readonly attempts: number;
  readonly failed: number;
  /** Failed attempts by outcome, the most first. */
  readonly outcomes: readonly { readonly outcome: string; readonly attempts: number }[];
  /** Of done requests with one attempt. */
  readonly latencies: Latencies;
  readonly steps: readonly {
    readonly requests: number;
    readonly attempts: number | undefined;
    readonly failed: number | undefined;
    readonly latencies: Latencies;
  }[];
}

export interface ProvidersReport {
  readonly span: SteppedSpan;
  /** The first step whose attempts are all there. Those of earlier steps are folded, at least in part. */
  readonly attemptsFrom: number;
  readonly sample: { readonly requests: number; readonly isAll: boolean };
  /** The one with the most requests first. */
  readonly providers: readonly ProviderFigures[];
}

export async function readProviders(
  connection: Connection,
  span: SteppedSpan,
  retentionStart: number,
): Promise<ProvidersReport> {
  const byProvider = await readSteps(connection, span, retentionStart);
  const answered = new Map([...byProvider].map(([provider, { requests }]) => [provider, requests]));
  const attempts = await readAttempts(connection, span, retentionStart, answered);
  const { measured, isAll } = await readLatencies(connection, span);
  const direct = Map.groupBy(
    measured.filter((one) => one.attempts === 1),
    ({ provider }) => provider,
  );
  const [firstMs = span.from] = span.times;
  const providers = [...attempts].map(([provider, counts]): ProviderFigures => {
    const ofProvider = direct.get(provider) ?? [];
    const byStep = Map.groupBy(ofProvider, ({ at }) => Math.floor((at - firstMs) / span.stepMs));
    return {
      provider,
      figures: byProvider.get(provider)?.total ?? figuresOf(partsMaker(FIGURES)(), FIGURES),
      attempts: sumOf(counts.attempts),
      failed: sumOf(counts.failed),
      outcomes: [...counts.outcomes]
        .map(([outcome, count]) => ({ outcome, attempts: count }))
        .toSorted((a, b) => b.attempts - a.attempts || inOrder(a.outcome, b.outcome)),
      latencies: latenciesOf(ofProvider),
      steps: span.times.map((_, step) => ({
        requests: answered.get(provider)?.[step] ?? 0,
        attempts: counts.attempts[step],
        failed: counts.failed[step],
        latencies: latenciesOf(byStep.get(step) ?? NONE),
      })),
    };
  });
  return {
    span,
    attemptsFrom: span.times.find((at) => at >= retentionStart) ?? span.to - 1,
    sample: { requests: measured.length, isAll },
    providers: providers.toSorted(
      (a, b) => b.figures.requests - a.figures.requests || inOrder(a.provider, b.provider),
    ),
  };
}

/** The sums of a provider, and its requests in each step. */
interface SteppedSums {
  readonly total: ProviderSums;
  readonly requests: readonly number[];
}

/** The sums of each provider. */
async function readSteps(
  connection: Connection,
  span: SteppedSpan,
  retentionStart: number,
): Promise<ReadonlyMap<string, SteppedSums>> {
  const by = [span.step, "provider"] as const;
  const sources = sourcesOfSpan(connection, span, retentionStart);
  const noParts = partsMaker(FIGURES);
  const found = new Map<string, Parts[]>();
  const query = rowsText({ sources, by, figures: FIGURES });
  for (const row of await connection.plainRows<[step: number, provider: string]>(query)) {
    const [since1970, provider] = row;
    let steps = found.get(provider);
    if (steps === undefined) found.set(provider, (steps = span.times.map(noParts)));
    const parts = steps[stepOf(span, since1970)];
    if (parts !== undefined) addParts(parts, row, by.length);
  }
  const sumsOf = (steps: readonly Parts[]): SteppedSums => {
    const total = noParts();
    for (const parts of steps) addParts(total, parts);
    const requests = steps.map((parts) => figuresOf(parts, FIGURES).requests);
    return { total: figuresOf(total, FIGURES), requests };
  };
  return new Map([...found].map(([provider, steps]) => [provider, sumsOf(steps)]));
}

const NONE: readonly Measured[] = [];

function sumOf(counts: readonly (number | undefined)[]): number {
  return counts.reduce<number>((sum, count) => sum + (count ?? 0), 0);
}
