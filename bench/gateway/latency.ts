import type { Bench } from "./bench.ts";
import type { Contestant } from "./contestants.ts";
import { addCounts, countsOf, growth, sumOf } from "./counts.ts";
import { quantile } from "./figures.ts";
import { cpuUs } from "./processes.ts";
import { callOf, throwFailure, untilBegun } from "./turn.ts";
import { Load } from "./workers.ts";

const PER_SECOND = 100;
/** If the provider itself takes longer at p99, another process uses the processor. */
const QUIET_MS_MAX = 5;
const HELD_STREAMS = 1000;
const FIRST_BYTES = { perSecond: 20, count: 30 };
/** Groups of streams that open at once. Each group has ended when the next begins. */
const OPENED_AT_ONCE = 64;
const OPENINGS = { perSecond: 2, count: 5, atOnce: OPENED_AT_ONCE };

/**
 * Answers at a modest rate, from the provider itself and through each contestant: their duration, and for each of them the
 * CPU time of the process and the transactions of its database server.
 */
export async function measureLatency(bench: Bench, provider: Contestant): Promise<void> {
  const contestants = [provider, ...bench.fast, ...bench.rowKeepers];
  const all = new Map(
    contestants.map((contestant) => [contestant, { times: [] as number[], us: 0, counts: {} }]),
  );
  const count = Math.ceil((PER_SECOND * bench.effort.windowMs) / 1000) * 2;
  for (let round = 0; round < bench.effort.rounds; round += 1) {
    for (const contestant of contestants) {
      const call = callOf(contestant, { model: "json" });
      await bench.load.give({ kind: "rate", perSecond: PER_SECOND, count: 20, ...call });
      const order = { kind: "rate", perSecond: PER_SECOND, count, ...call } as const;
      const { pid } = contestant.child;
      const before = await countsOf(contestant);
      const beforeUs = cpuUs(pid);
      const { rate } = await bench.load.give(order);
      const us = cpuUs(pid) - beforeUs;
      const after = await countsOf(contestant);
      const { counters } = await bench.load.give({ kind: "stop" });
      throwFailure(contestant, counters);
      const seen = all.get(contestant);
      if (!seen) continue;
      seen.times.push(...(rate?.totalMs ?? []));
      seen.us += us;
      seen.counts = sumOf(seen.counts, growth(before, after));
    }
  }
  const bareMs = quantile(all.get(provider)?.times ?? [], 0.99) ?? NaN;
  const isBusy = bareMs > QUIET_MS_MAX;
  if (isBusy) {
    const took = `the provider itself took ${bareMs.toFixed(1)} ms at p99`;
    bench.note(`added latency at p99: the machine is too busy, ${took}`);
  }
  for (const [{ name }, { times, us, counts }] of all) {
    // A round is too short for a clock of 10 ms, so the rounds have one figure together.
    bench.figures.add("json, 100 a second", name, us / times.length);
    addCounts(bench.figures, "json, 100 a second", name, counts, times.length);
    for (const [label, part] of [
      ["p50", 0.5],
      ["p95", 0.95],
      ["p99", 0.99],
    ] as const) {
      const kind = label === "p99" && isBusy ? "latency p99, busy machine" : `latency ${label}`;
      bench.figures.add(kind, name, quantile(times, part) ?? NaN);
    }
    bench.figures.add("latency, requests", name, times.length);
  }
}

/** The first bytes of many streams that open at the same moment, from the provider itself and through each contestant. */
export async function measureOpening(bench: Bench, provider: Contestant): Promise<void> {
  for (let round = 0; round < bench.effort.rounds; round += 1) {
    for (const contestant of [provider, ...bench.fast]) {
      const call = callOf(contestant, { model: "stream-20" });
      const { rate } = await bench.load.give({ kind: "rate", ...OPENINGS, ...call });
      throwFailure(contestant, (await bench.load.give({ kind: "stop" })).counters);
      const medianMs = quantile(rate?.firstByteMs ?? [], 0.5) ?? NaN;
      bench.figures.add(`first byte, ${OPENED_AT_ONCE} at once`, contestant.name, medianMs);
    }
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
