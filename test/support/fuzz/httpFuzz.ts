import type { FuzzSetup } from "./setup.ts";
import { chanceOf } from "../seededRandom.ts";
import {
  measureHealth,
  whenIdle,
  GROWTH_BYTES_MAX,
  holdEverything,
  summaryOf,
  type Growth,
  type HealthTimes,
} from "./resources.ts";
import { runConnection, type FuzzTally } from "./connectionRun.ts";

/** The result of a run; `problems` is empty if all is well. */
export interface FuzzSeen extends Omit<FuzzTally, "whole"> {
  readonly seed: number;
  readonly seconds: number;
  /** Answers with a cost, each found in the database. */
  readonly charged: number;
  /** Requests whose client disconnected before the answer. */
  readonly cancelled: number;
  readonly reachedProvider: number;
  /** The duration of health checks during the run, in milliseconds, without the time that other processes took. */
  readonly health: HealthTimes;
  /** The growth of the gateway after the first tenth of the run. */
  readonly growth: Growth;
}

const connectionsAtOnce = 32;
/** A run that finds this much ends early. */
const problemsMax = 20;

/** Sends this number of requests, drawn from the seed alone, many at once; then checks what remains. */
export async function fuzzHttp(
  setup: FuzzSetup,
  { seed, requests }: { readonly seed: number; readonly requests: number },
): Promise<FuzzSeen> {
  const startedMs = performance.now();
  const { pid } = setup.gateway;
  const tally: FuzzTally = {
    requests: 0,
    connections: 0,
    answers: {},
    unanswered: 0,
    whole: [],
    problems: [],
  };
  const over = new AbortController();
  const health = measureHealth(setup.gateway, over.signal, tally.problems);
  await sendUntil(requests / 10, { setup, seed, tally });
  const before = await whenIdle(setup, tally.problems);
  await sendUntil(requests, { setup, seed, tally });
  over.abort();
  const times = await health;
  const after = await whenIdle(setup, tally.problems, before.bytes + GROWTH_BYTES_MAX / 2);
  if (setup.gateway.pid !== pid) tally.problems.push("the gateway is another process");
  tally.problems.push(...(await finalProblems(setup, tally)));
  const { whole, ...rest } = tally;
  return {
    seed,
    ...rest,
    charged: whole.length,
    cancelled: await cancelledCount(setup, requests),
    reachedProvider: setup.provider.requestCount,
    health: summaryOf(times),
    growth: { bytes: after.bytes - before.bytes, files: after.files - before.files },
    seconds: Math.round((performance.now() - startedMs) / 1000),
  };
}

/** Problems in the database, the log, and the requests at the provider, after the run. */
async function finalProblems(
  setup: FuzzSetup,
  { whole }: Pick<FuzzTally, "whole">,
): Promise<readonly string[]> {
  const { gateway, provider } = setup;
  const wrong: string[] = [];
  const failed = (error: unknown): number => wrong.push(String(error));
  gateway.auditor.seen.push(...whole);
  await gateway.expectAuditPasses().catch(failed);
  await holdEverything(gateway, setup.targets.rich).catch(failed);
  const errors = gateway.log.filter(({ level }) => level === "error");
  return [
    ...wrong,
    ...provider.problems,
    ...errors.map((line) => `the log has: ${JSON.stringify(line)}`),
  ];
}

async function cancelledCount({ gateway }: FuzzSetup, limit: number): Promise<number> {
  const cancelled = ["--status", "cancelled", "--limit", String(limit)];
  return ((await gateway.cli.json("requests", ...cancelled)) as unknown[]).length;
}

/** Opens connections until the tally has this number of requests. Seed and number decide what each does. */
async function sendUntil(
  requests: number,
  { setup, seed, tally }: { setup: FuzzSetup; seed: number; tally: FuzzTally },
): Promise<void> {
  const runConnections = async (): Promise<void> => {
    while (tally.requests < requests && tally.problems.length < problemsMax) {
      const number = tally.connections;
      const name = `seed ${seed}, connection ${number}`;
      await runConnection(setup, chanceOf(seed, number), tally, name).catch((error: unknown) =>
        tally.problems.push(`${name}: ${error instanceof Error ? error.stack : String(error)}`),
      );
    }
  };
  await Promise.all(Array.from({ length: connectionsAtOnce }, runConnections));
}
