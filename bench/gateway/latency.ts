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
/** Half a second of JSON requests, and then streams. */
const TRAFFIC = { perSecond: 20, count: 10, atOnce: OPENED_AT_ONCE };
const AFTER_TRAFFIC = { perSecond: 1, count: 1, atOnce: OPENED_AT_ONCE };
const AFTER_TRAFFIC_OPENINGS = 4;
/** New connections at once. */
const CONNECTED_AT_ONCE = 1000;
const CONNECTIONS = { perSecond: 1, count: 2, atOnce: CONNECTED_AT_ONCE, isNew: true };
const SILENCE_MS = 10_000;
const SILENCES = 4;

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
  const { load, figures } = bench;
  for (let round = 0; round < bench.effort.rounds; round += 1) {
    for (const contestant of [provider, ...bench.fast]) {
      const add = (kind: string, times: readonly number[], part: number): void =>
        figures.add(`first byte, ${kind}`, contestant.name, quantile(times, part) ?? NaN);
      const firstBytes = async (order: typeof OPENINGS, model: string) => {
        const { rate } = await load.give({
          kind: "rate",
          ...order,
          ...callOf(contestant, { model }),
        });
        return rate?.firstByteMs ?? [];
      };
      add(`${OPENED_AT_ONCE} at once`, await firstBytes(OPENINGS, "stream-20"), 0.5);
      const after: number[] = [];
      for (let opening = 0; opening < AFTER_TRAFFIC_OPENINGS; opening += 1) {
        await firstBytes(TRAFFIC, "json");
        after.push(...(await firstBytes(AFTER_TRAFFIC, "stream-20")));
      }
      add(`${OPENED_AT_ONCE} after traffic`, after, 0.5);
      const fresh = await firstBytes(CONNECTIONS, "json");
      add(`${CONNECTED_AT_ONCE} connections, p50`, fresh, 0.5);
      add(`${CONNECTED_AT_ONCE} connections, p99`, fresh, 0.99);
      throwFailure(contestant, (await load.give({ kind: "stop" })).counters);
    }
  }
}

/** The first answer after ten seconds without a request, from the provider itself and through each contestant. */
export async function measureSilence(bench: Bench, provider: Contestant): Promise<void> {
  for (let silence = 0; silence < SILENCES; silence += 1) {
    await Bun.sleep(SILENCE_MS);
    for (const contestant of [provider, ...bench.fast, ...bench.rowKeepers]) {
      const call = callOf(contestant, { model: "json" });
      const { rate } = await bench.load.give({ kind: "rate", perSecond: 1, count: 1, ...call });
      throwFailure(contestant, (await bench.load.give({ kind: "stop" })).counters);
      bench.figures.add("first after silence", contestant.name, rate?.totalMs[0] ?? NaN);
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
