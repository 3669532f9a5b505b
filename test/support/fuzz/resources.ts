import { readdirSync } from "node:fs";
import { parseRoubles } from "../../../src/lib/money.ts";
import { call, chat } from "../gateway/chatCalls.ts";
import { prices } from "../gateway/gatewayConfig.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import { leastMemory, unhinderedTimer } from "../measurement.ts";

/** The duration of health checks in milliseconds, without the time that other processes took. */
export interface HealthTimes {
  readonly count: number;
  readonly nineOfTen: number;
  readonly slowest: number;
}

/** The growth of a gateway's resources. */
export interface Growth {
  readonly bytes: number;
  readonly files: number;
}

/** The allowed growth of memory of a gateway that is warm. */
export const GROWTH_BYTES_MAX = 64 * 1024 * 1024;

const healthPauseMs = 20;
const quietTimeoutMs = 15_000;
/** How long memory may take to fall to the expected size. A busy machine may need over 20 s to collect all garbage. */
const collectMs = 60_000;

/** Sends health checks until the signal aborts. Returns the duration of each, the shortest first. */
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
 * The resources of an idle gateway, without the kept connections to its provider.
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
    problems.push("requests are still running after the last client ended");
    break;
  }
  const files = readdirSync(`/proc/${gateway.pid}/fd`).length - provider.openCount;
  return { bytes: await leastMemory(gateway, enoughBytes, collectMs), files };
}

/** The hold for one completion token, and the largest for a short prompt, in nano-roubles. */
const tokenHold = BigInt(prices.output);
const promptHoldMax = 50_000_000n;

/** Sends a request that needs all of the money: it is refused if any of it is still held. */
export async function holdEverything(gateway: GatewayProcess, key: string): Promise<void> {
  const { body } = await call(gateway, { key }, { path: "/v1/account" });
  const available = parseRoubles((body as { available_rub: string }).available_rub) ?? 0n;
  const bound = Number((available - promptHoldMax) / tokenHold);
  const { status, text } = await chat(gateway, { key }, { max_tokens: bound });
  if (status !== 200) throw new Error(`not all of the money is free: ${status} ${text}`);
}
