import type { FuzzBench } from "./bench.ts";
import { chanceOf } from "./chance.ts";
import {
  askHealth,
  atRest,
  GROWTH_BYTES_MAX,
  holdEverything,
  summaryOf,
  type Growth,
  type HealthTimes,
} from "./remains.ts";
import { context, type FuzzTally } from "./visit.ts";

/** What a run saw; `problems` is empty where all is well. */
export interface FuzzSeen extends Omit<FuzzTally, "whole"> {
  readonly seed: number;
  readonly seconds: number;
  /** Answers that cost something, each looked up in the books. */
  readonly charged: number;
  /** Requests whose client went before their answer came. */
  readonly cancelled: number;
  readonly reachedProvider: number;
  /** How long health checks took that were made all the while, in milliseconds; without what other programs took. */
  readonly health: HealthTimes;
  /** What the gateway has more of than after a tenth of the run. */
  readonly growth: Growth;
}

const connectionsAtOnce = 32;
/** A run that finds this much ends early. */
const problemsMax = 20;

/** Sends so many requests, drawn from the seed alone, many at once; then looks at what they left behind. */
export async function fuzzHttp(
  bench: FuzzBench,
  { seed, requests }: { readonly seed: number; readonly requests: number },
): Promise<FuzzSeen> {
  const startedMs = performance.now();
  const { pid } = bench.gateway;
  const tally: FuzzTally = {
    requests: 0,
    connections: 0,
    answers: {},
    unanswered: 0,
    whole: [],
    problems: [],
  };
  const over = new AbortController();
  const health = askHealth(bench.gateway, over.signal, tally.problems);
  await sendUntil(requests / 10, { bench, seed, tally });
  const before = await atRest(bench, tally.problems);
  await sendUntil(requests, { bench, seed, tally });
  over.abort();
  const times = await health;
  const after = await atRest(bench, tally.problems, before.bytes + GROWTH_BYTES_MAX / 2);
  if (bench.gateway.pid !== pid) tally.problems.push("the gateway is another process");
  tally.problems.push(...(await leftWrong(bench, tally)));
  const { whole, ...rest } = tally;
  return {
    seed,
    ...rest,
    charged: whole.length,
    cancelled: await cancelledCount(bench, requests),
    reachedProvider: bench.provider.requestCount,
    health: summaryOf(times),
    growth: { bytes: after.bytes - before.bytes, files: after.files - before.files },
    seconds: Math.round((performance.now() - startedMs) / 1000),
  };
}

/** What is wrong with the books, the log, and what the provider was asked, once all is over. */
async function leftWrong(
  bench: FuzzBench,
  { whole }: Pick<FuzzTally, "whole">,
): Promise<readonly string[]> {
  const { gateway, provider } = bench;
  const wrong: string[] = [];
  const failed = (error: unknown): number => wrong.push(String(error));
  gateway.auditor.seen.push(...whole);
  await gateway.checkBooks().catch(failed);
  await holdEverything(gateway, bench.world.rich).catch(failed);
  const errors = gateway.log.filter(({ level }) => level === "error");
  return [
    ...wrong,
    ...provider.problems,
    ...errors.map((line) => `the log says: ${JSON.stringify(line)}`),
  ];
}

async function cancelledCount({ gateway }: FuzzBench, limit: number): Promise<number> {
  const cancelled = ["--status", "cancelled", "--limit", String(limit)];
  return ((await gateway.desk.json("requests", ...cancelled)) as unknown[]).length;
}

/** Visits until the tally has so many requests. Which connection does what is settled by the seed and its number. */
async function sendUntil(
  requests: number,
  { bench, seed, tally }: { bench: FuzzBench; seed: number; tally: FuzzTally },
): Promise<void> {
  const visitor = async (): Promise<void> => {
    while (tally.requests < requests && tally.problems.length < problemsMax) {
      const number = tally.connections;
      const name = `seed ${seed}, connection ${number}`;
      await context(bench, chanceOf(seed, number), tally, name).catch((error: unknown) =>
        tally.problems.push(`${name}: ${error instanceof Error ? error.stack : String(error)}`),
      );
    }
  };
  await Promise.all(Array.from({ length: connectionsAtOnce }, visitor));
}
