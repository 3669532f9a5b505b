import { takeTurns, type Bench, type Measure } from "./bench.ts";
import type { Contestant } from "./contestants.ts";

const AT_ONCE = [64, 256, 1000];
const LARGE_BODY_BYTES = 200_000;

/** JSON answers: at 64, 256 and 1,000 at once, for many keys, and with large bodies. */
export async function measureJson(bench: Bench): Promise<void> {
  await takeTurns(bench, [
    ...steps(bench).map((atOnce) => jsonMeasure(bench, `json ${atOnce}`, { atOnce })),
    { ...jsonMeasure(bench, "json 64", { atOnce: 64 }), contestants: bench.rowKeepers },
    {
      ...jsonMeasure(bench, "json 64, many keys", { atOnce: 64, manyKeys: true }),
      contestants: bench.tollgates,
    },
    largeMeasure(bench, "json 200 KB"),
    largeMeasure(bench, "json 200 KB, an agent's", { isAgent: true }),
  ]);
}

/** Streams: events that come one by one, the same as fast as they go, and whole streams of 20 events. */
export async function measureStreams(bench: Bench): Promise<void> {
  const atOnce = 64;
  const { fast, slow } = bench;
  const paced = steps(bench).map((step) => pacedMeasure(bench, `event ${step}`, { atOnce: step }));
  const flood = { kind: "event 64, full speed", unit: "events", modelOf: () => "flood" } as const;
  const whole = { kind: "stream of 20", unit: "answers", modelOf: () => "stream-20" } as const;
  const others = bench.effort.isQuick
    ? []
    : [
        { ...flood, atOnce, contestants: fast },
        { ...whole, atOnce, contestants: [...fast, ...slow] },
      ];
  await takeTurns(bench, [...paced, ...others]);
}

/** The same with a provider behind TLS. */
export async function measureTls(bench: Bench): Promise<void> {
  await takeTurns(
    bench,
    steps(bench).flatMap((atOnce) => [
      jsonMeasure(bench, `tls json ${atOnce}`, { atOnce, secure: true }),
      pacedMeasure(bench, `tls event ${atOnce}`, { atOnce, secure: true }),
    ]),
  );
}

function steps({ effort }: Bench): readonly number[] {
  return effort.isQuick ? AT_ONCE.filter((atOnce) => atOnce !== 256) : AT_ONCE;
}

type Manner = Pick<Measure, "atOnce" | "secure" | "bodyBytes" | "isAgent" | "manyKeys">;

function jsonMeasure(bench: Bench, kind: string, manner: Manner): Measure {
  const contestants = contestantsFor(bench, manner);
  return { kind, unit: "answers", contestants, modelOf: () => "json", ...manner };
}

/** Portkey takes almost a minute for it. */
function largeMeasure(bench: Bench, kind: string, { isAgent = false } = {}): Measure {
  const manner = { atOnce: 64, bodyBytes: LARGE_BODY_BYTES, isAgent };
  const measure = jsonMeasure(bench, kind, manner);
  return bench.effort.isQuick ? { ...measure, contestants: bench.fast } : measure;
}

/** At a pace at which no contestant is saturated: a saturated one reads several events at once. */
function pacedMeasure(bench: Bench, kind: string, manner: Manner): Measure {
  return {
    kind,
    unit: "events",
    contestants: contestantsFor(bench, manner),
    modelOf: (contestant) => (bench.slow.includes(contestant) ? "paced-2000" : "paced-8000"),
    ...manner,
  };
}

function contestantsFor({ fast, slow }: Bench, { atOnce, secure }: Manner): readonly Contestant[] {
  if (secure) return fast.filter((contestant) => contestant.secure !== undefined);
  return atOnce === 64 ? [...fast, ...slow] : fast;
}
