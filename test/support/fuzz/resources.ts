import { readdirSync } from "node:fs";
import { parseRoubles } from "../../../src/lib/money.ts";
import { call, chat } from "../gateway/chatCalls.ts";
import { prices } from "../gateway/gatewayConfig.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import { leastMemory, unhinderedTimer } from "../measurement.ts";

/** How long health checks took, in milliseconds; without what other programs took. */
export interface HealthTimes {
  readonly count: number;
  readonly nineOfTen: number;
  readonly slowest: number;
}

/** What a gateway has more of than before. */
export interface Growth {
  readonly bytes: number;
  readonly files: number;
}

/** What a run may add to the memory of a gateway that is warm. */
export const GROWTH_BYTES_MAX = 64 * 1024 * 1024;

const healthPauseMs = 20;
const quietTimeoutMs = 15_000;
/** How long memory may take to fall to what it is expected to be: what nobody refers to is collected as work goes on. */
const collectMs = 5_000;

/** Asks for its health until it is over, and returns how long that took each time, the quickest first. */
export async function measureHealth(
  gateway: GatewayProcess,
  over: AbortSignal,
  problems: string[],
): Promise<readonly number[]> {
  const times: number[] = [];
  try {
    while (!over.aborted) {
      const tookMs = unhinderedTimer([gateway.pid, process.pid]);
      const answer = await fetch(`${gateway.url}/healthz`);
      await answer.text();
      if (answer.status !== 200) problems.push(`a health check: ${answer.status}`);
      times.push(tookMs().longest);
      await Bun.sleep(healthPauseMs);
    }
  } catch (error) {
    problems.push(`a health check: ${String(error)}`);
  }
  return times.sort((a, b) => a - b);
}

export function summaryOf(times: readonly number[]): HealthTimes {
  return {
    count: times.length,
    nineOfTen: times[Math.floor(times.length * 0.9)] ?? Infinity,
    slowest: times.at(-1) ?? Infinity,
  };
}

/**
 * What the gateway has, once nothing is under way any more; the connections to its provider, which it keeps, left out.
 * It is given a while to have no more memory than `enoughBytes`.
 */
export async function whenIdle(
  { gateway, provider }: { gateway: GatewayProcess; provider: { readonly openCount: number } },
  problems: string[],
  enoughBytes = Infinity,
): Promise<Growth> {
  const deadlineMs = performance.now() + quietTimeoutMs;
  const running = () => gateway.cli.json("requests", "--status", "running");
  while (((await running()) as unknown[]).length > 0) {
    if (performance.now() < deadlineMs) continue;
    problems.push("requests are still running though nobody asks any more");
    break;
  }
  const files = readdirSync(`/proc/${gateway.pid}/fd`).length - provider.openCount;
  return { bytes: await leastMemory(gateway, enoughBytes, collectMs), files };
}

/** What is held for a token of an answer, and at most for a short prompt, in nano-roubles. */
const tokenHold = BigInt(prices.output);
const promptHoldMax = 50_000_000n;

/** Asks for an answer that all of the money must be held for: it is refused where memory still holds any of it. */
export async function holdEverything(gateway: GatewayProcess, key: string): Promise<void> {
  const { body } = await call(gateway, { key }, { path: "/v1/account" });
  const available = parseRoubles((body as { available_rub: string }).available_rub) ?? 0n;
  const bound = Number((available - promptHoldMax) / tokenHold);
  const { status, text } = await chat(gateway, { key }, { max_tokens: bound });
  if (status !== 200) throw new Error(`not all of the money is free: ${status} ${text}`);
}
