import type { Bench } from "./bench.ts";
import type { Contestant } from "./contestants.ts";
import { quantile } from "./figures.ts";
import { callOf, throwFailure, untilBegun } from "./turn.ts";
import { Load } from "./workers.ts";

const PER_SECOND = 100;
/** If the provider itself takes longer at p99, another process uses the processor. */
const QUIET_MS_MAX = 5;
const HELD_STREAMS = 1000;
const FIRST_BYTES = { perSecond: 20, count: 30 };

/** The duration of answers at a modest rate: from the provider itself, and through each contestant. */
export async function measureLatency(bench: Bench, provider: Contestant): Promise<void> {
  const contestants = [provider, ...bench.fast, ...bench.rowKeepers];
  const all = new Map(contestants.map((contestant) => [contestant, [] as number[]]));
  const count = Math.ceil((PER_SECOND * bench.effort.windowMs) / 1000) * 2;
  for (let round = 0; round < bench.effort.rounds; round += 1) {
    for (const contestant of contestants) {
      const call = callOf(contestant, { model: "json" });
      await bench.load.give({ kind: "rate", perSecond: PER_SECOND, count: 20, ...call });
      const order = { kind: "rate", perSecond: PER_SECOND, count, ...call } as const;
      const { rate } = await bench.load.give(order);
      const { counters } = await bench.load.give({ kind: "stop" });
      throwFailure(contestant, counters);
      all.get(contestant)?.push(...(rate?.totalMs ?? []));
    }
  }
  const bareMs = quantile(all.get(provider) ?? [], 0.99) ?? NaN;
  const isBusy = bareMs > QUIET_MS_MAX;
  if (isBusy) {
    const took = `the provider itself took ${bareMs.toFixed(1)} ms at p99`;
    bench.note(`added latency at p99: the machine is too busy, ${took}`);
  }
  for (const [{ name }, times] of all) {
    for (const [label, part] of [
      ["p50", 0.5],
      ["p99", 0.99],
    ] as const) {
      const kind = label === "p99" && isBusy ? "latency p99, busy machine" : `latency ${label}`;
      bench.figures.add(kind, name, quantile(times, part) ?? NaN);
    }
    bench.figures.add("latency, requests", name, times.length);
  }
}

/** The first byte of one provider's answers, without other streams and with another provider's streams open. */
export async function measureFirstByte(bench: Bench): Promise<void> {
  const prober = await Load.start();
  try {
    for (let round = 0; round < bench.effort.rounds; round += 1) {
      for (const contestant of bench.tollgates) {
        await firstByte(bench, prober, contestant, "first byte, none open");
        const held = callOf(contestant, { model: "silent" });
        await bench.load.give({ kind: "loop", atOnce: HELD_STREAMS, ...held });
        await untilBegun(bench.load, HELD_STREAMS);
        await firstByte(bench, prober, contestant, `first byte, ${HELD_STREAMS} open`);
        throwFailure(contestant, (await bench.load.give({ kind: "stop" })).counters);
      }
    }
  } finally {
    await prober.end();
  }
}

async function firstByte(
  bench: Bench,
  prober: Load,
  contestant: Contestant,
  kind: string,
): Promise<void> {
  const call = callOf(contestant, { model: "other:stream-1" });
  const { rate } = await prober.give({ kind: "rate", ...FIRST_BYTES, ...call });
  throwFailure(contestant, (await prober.give({ kind: "stop" })).counters);
  bench.figures.add(kind, contestant.name, quantile(rate?.firstByteMs ?? [], 0.5) ?? NaN);
}
