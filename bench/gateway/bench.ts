import type { Contestant } from "./contestants.ts";
import { addCounts } from "./counts.ts";
import type { Figures } from "./figures.ts";
import { watch, type Turn } from "./turn.ts";
import type { Load } from "./workers.ts";

/** If fewer than this share of the paced events arrive, the cost is that of another pace. */
const PACE_KEPT = 0.9;

/** The duration of each part. */
export interface Effort {
  /** Leaves out measurements without a goal. */
  readonly isQuick: boolean;
  readonly rounds: number;
  readonly warmMs: number;
  readonly windowMs: number;
  /** Answers of each kind before anything is measured. */
  readonly warmUpAnswers: number;
  /** The share of the warm-up for a contestant that takes several times as long. */
  readonly slowWarmUpShare: number;
}

/** What every part of the benchmark works with. */
export interface Bench {
  readonly effort: Effort;
  readonly figures: Figures;
  readonly load: Load;
  /** nginx, every build of Tollgate, and plain Bun if requested; without those that could not be started. */
  readonly fast: readonly Contestant[];
  /** Portkey, which is measured less often because it is slow. */
  readonly slow: readonly Contestant[];
  /** A gateway that keeps one row of an answer and nothing else. Measured where a commit matters only. */
  readonly rowKeepers: readonly Contestant[];
  /** Only the builds of Tollgate, on SQLite and on PostgreSQL. */
  readonly tollgates: readonly Contestant[];
  note(words: string): void;
}

/** A figure that is measured for all contestants in turns. */
export interface Measure extends Pick<
  Turn,
  "atOnce" | "secure" | "bodyBytes" | "isAgent" | "manyKeys"
> {
  readonly kind: string;
  readonly unit: "answers" | "events";
  readonly contestants: readonly Contestant[];
  /** A slow contestant gets events at a slower pace, or it would get several in one read. */
  modelOf(contestant: Contestant): string;
}

/**
 * CPU microseconds for each answer or event. All measures and contestants take turns in every round, in
 * an order that moves on, so that whatever disturbs the machine disturbs them alike.
 */
export async function takeTurns(bench: Bench, measures: readonly Measure[]): Promise<void> {
  const fairQueue = measures.flatMap((measure) =>
    measure.contestants.map((contestant) => ({ measure, contestant })),
  );
  const failed = new Set<object>();
  for (let round = 0; round < bench.effort.rounds; round += 1) {
    for (let at = 0; at < fairQueue.length; at += 1) {
      const turn = fairQueue[(at + round) % fairQueue.length];
      if (!turn || failed.has(turn)) continue;
      try {
        await takeTurn(bench, turn.measure, turn.contestant);
      } catch (error) {
        failed.add(turn);
        await bench.load.give({ kind: "stop" });
        bench.note(`${turn.measure.kind}, ${turn.contestant.name}: ${String(error)}`);
      }
    }
  }
}

async function takeTurn(bench: Bench, measure: Measure, contestant: Contestant): Promise<void> {
  const { figures, effort } = bench;
  const { kind, unit } = measure;
  const model = measure.modelOf(contestant);
  const seen = await watch(bench.load, contestant, {
    ...measure,
    model,
    warmMs: effort.warmMs,
    windowMs: effort.windowMs,
  });
  if (seen[unit] === 0) throw new Error("nothing came");
  const perSecond = (seen[unit] * 1000) / seen.elapsedMs;
  figures.add(kind, contestant.name, seen.cpuUs / seen[unit]);
  figures.add(`${kind}, a second`, contestant.name, perSecond);
  const asked = Number(/^paced-(\d+)$/.exec(model)?.[1] ?? 0);
  if (perSecond < asked * PACE_KEPT) {
    const came = `${perSecond.toFixed(0)} of ${asked} a second came`;
    bench.note(
      `${kind}, ${contestant.name}, round ${figures.rounds(kind, contestant.name).length}: only ${came}`,
    );
  }
  addCounts(figures, kind, contestant.name, seen.counts, seen[unit]);
  if (unit === "events") {
    figures.add(`${kind}, a read`, contestant.name, seen.events / seen.eventReads);
  }
}
