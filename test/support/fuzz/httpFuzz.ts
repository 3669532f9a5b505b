import { readdirSync } from "node:fs";
import { parseRoubles } from "../../../src/lib/money.ts";
import { lostCharges } from "../acknowledged.ts";
import { call, chat } from "../chatCalls.ts";
import { prices } from "../gatewayConfig.ts";
import { residentBytes } from "../memory.ts";
import { unhinderedTimer } from "../processorWait.ts";
import type { FuzzBench } from "./bench.ts";
import { chanceOf } from "./chance.ts";
import { visit, type FuzzTally } from "./visit.ts";

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
  readonly health: { readonly count: number; readonly nineOfTen: number; readonly slowest: number };
  /** What the gateway has more of than after a tenth of the run. */
  readonly growth: { readonly bytes: number; readonly files: number };
}

const connectionsAtOnce = 32;
/** A run that finds this much ends early. */
const problemsMax = 20;
const quietTimeoutMs = 15_000;
const healthPauseMs = 20;

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
  const health = askHealth(bench, over.signal).catch((error: unknown) => {
    tally.problems.push(`a health check: ${String(error)}`);
    return [];
  });
  await sendUntil(requests / 10, { bench, seed, tally });
  const before = await atRest(bench, tally);
  await sendUntil(requests, { bench, seed, tally });
  over.abort();
  const times = await health;
  const after = await atRest(bench, tally);
  if (bench.gateway.pid !== pid) tally.problems.push("the gateway is another process");
  tally.problems.push(...(await leftWrong(bench, tally)));
  const { whole, ...rest } = tally;
  return {
    seed,
    ...rest,
    charged: whole.length,
    cancelled: await cancelledCount(bench, requests),
    reachedProvider: bench.provider.requestCount,
    health: {
      count: times.length,
      nineOfTen: times[Math.floor(times.length * 0.9)] ?? Infinity,
      slowest: times.at(-1) ?? Infinity,
    },
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
  await gateway.checkBooks().catch(failed);
  await holdEverything(bench).catch(failed);
  const errors = gateway.log.filter(({ level }) => level === "error");
  return [
    ...wrong,
    ...lostCharges(gateway.desk.database, whole),
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
      await visit(bench, chanceOf(seed, number), tally, name).catch((error: unknown) =>
        tally.problems.push(`${name}: ${error instanceof Error ? error.stack : String(error)}`),
      );
    }
  };
  await Promise.all(Array.from({ length: connectionsAtOnce }, visitor));
}

/** Asks for its health until it is over, and returns how long that took each time, the quickest first. */
async function askHealth({ gateway }: FuzzBench, over: AbortSignal): Promise<number[]> {
  const times: number[] = [];
  while (!over.aborted) {
    const tookMs = unhinderedTimer([gateway.pid, process.pid]);
    const answer = await fetch(`${gateway.url}/healthz`);
    await answer.text();
    times.push(tookMs().longest);
    await Bun.sleep(healthPauseMs);
  }
  return times.sort((a, b) => a - b);
}

/** What is held for a token of an answer, and at most for a short prompt, in nano-roubles. */
const tokenHold = BigInt(prices.output);
const promptHoldMax = 50_000_000n;

/** Asks for an answer that all of the money must be held for: it is refused where memory still holds any of it. */
async function holdEverything({ gateway, world }: FuzzBench): Promise<void> {
  const key = { key: world.rich };
  const { body } = await call(gateway, key, { path: "/v1/account" });
  const available = parseRoubles((body as { available_rub: string }).available_rub) ?? 0n;
  const bound = Number((available - promptHoldMax) / tokenHold);
  const { status, text } = await chat(gateway, key, { max_tokens: bound });
  if (status !== 200) throw new Error(`not all of the money is free: ${status} ${text}`);
}

/** What the gateway has, once nothing is under way any more; the connections to its provider, which it keeps, left out. */
async function atRest(
  { gateway, provider }: FuzzBench,
  tally: FuzzTally,
): Promise<{ bytes: number; files: number }> {
  const deadlineMs = performance.now() + quietTimeoutMs;
  const running = () => gateway.desk.json("requests", "--status", "running");
  while (((await running()) as unknown[]).length > 0) {
    if (performance.now() < deadlineMs) continue;
    tally.problems.push("requests are still running though nobody asks any more");
    break;
  }
  const files = readdirSync(`/proc/${gateway.pid}/fd`).length - provider.openCount;
  return { bytes: residentBytes(gateway.pid), files };
}
