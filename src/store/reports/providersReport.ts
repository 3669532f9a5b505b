import type { Connection } from "../connection.ts";
import type { Steps } from "../steps.ts";
import { readAttempts } from "./attempts.ts";
import { figuresOf, inOrder, readProviderSteps, totalOf, type Figures } from "./figures.ts";
import { latenciesOf, readLatencies, type Latencies, type Measured } from "./latency.ts";
import type { SteppedSpan } from "./span.ts";

/** A provider in a span. Undefined in a list: the attempts of this step are folded. */
export interface ProviderFigures {
  readonly provider: string;
  readonly figures: Figures;
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

export function* readProviders(
  connection: Connection,
  span: SteppedSpan,
  retentionStart: number,
): Steps<ProvidersReport> {
  const byProvider = yield* readProviderSteps(connection, span, { retentionStart });
  const answered = new Map(
    [...byProvider]
      .filter(([provider]) => provider !== "")
      .map(([provider, steps]) => [provider, steps.map((sums) => figuresOf(sums).requests)]),
  );
  const attempts = yield* readAttempts(connection, span, retentionStart, answered);
  const { measured, isAll } = yield* readLatencies(connection, span);
  const direct = Map.groupBy(
    measured.filter((one) => one.attempts === 1),
    ({ provider }) => provider,
  );
  const [firstMs = span.from] = span.times;
  const providers = [...attempts].map(([provider, counts]): ProviderFigures => {
    const ofProvider = direct.get(provider) ?? [];
    const byStep = Map.groupBy(ofProvider, ({ at }) => Math.floor((at - firstMs) / span.stepMs));
    const sums = byProvider.get(provider) ?? [];
    return {
      provider,
      figures: figuresOf(totalOf(sums)),
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

const NONE: readonly Measured[] = [];

function sumOf(counts: readonly (number | undefined)[]): number {
  return counts.reduce<number>((sum, count) => sum + (count ?? 0), 0);
}
