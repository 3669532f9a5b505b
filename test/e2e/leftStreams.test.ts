import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { startGatewayBefore, type GatewayBefore } from "../support/binary/gatewayBefore.ts";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { startMeteredProvider } from "../support/generation/meteredProvider.ts";
import { chargedRequests, generatedCost } from "../support/generation/money.ts";
import { promptFor, type PlannedAnswer } from "../support/generation/plannedAnswer.ts";
import { sendTimed } from "../support/generation/timedClient.ts";
import { requestBytes } from "../support/generation/ways.ts";
import { growthDuring, leastMemory } from "../support/measurement.ts";
import { several } from "../support/several.ts";
import { until } from "../support/until.ts";
import { amount } from "../support/sample.ts";

const clients = amount(400, 1000);
const atOnce = 100;
const leftAfterMs = 1000;
const graceSeconds = 3;
/** Beyond the grace, for a commit of a thousand charges on a busy machine. */
const stopMsMore = 5000;
/** Of the gateway's own, besides one connection to the provider for each stream. */
const filesMore = 100;
const kibibyte = 1024;
/** What each stream that is read on may need. */
const streamBytesMax = 128 * kibibyte;
const restMs = 3000;
const timeoutMs = 180_000;

const provider = startMeteredProvider({
  tokensPerSecond: 100,
  tokensPerDelta: 10,
  reasoning: "signs",
});
let started: GatewayBefore;
let key = "";
beforeAll(async () => {
  const config = oneModel(`http://127.0.0.1:${provider.port}/v1`, {
    billing: { disconnect_grace: "5m" },
    server: { shutdown_grace: `${graceSeconds}s` },
  });
  started = await startGatewayBefore(provider, config);
  key = await started.gateway.key("alice", "100000");
}, startTimeoutMs);
afterAll(() => started.close());

const openFiles = (): number =>
  started.gateway.pids.reduce((sum, pid) => sum + readdirSync(`/proc/${pid}/fd`).length, 0);

/** Asks so often for an answer that reasons for so long, and leaves after a second. */
async function leaveAll(count: number, name: string, reasoningSeconds: number): Promise<void> {
  const plan: PlannedAnswer = {
    name,
    promptTokens: 200,
    firstMs: 100,
    hiddenTokens: 100 * reasoningSeconds,
    visibleTokens: 200,
  };
  const way = { path: "chat/completions", model: "small", stream: true } as const;
  const bytes = requestBytes(way, key, { prompt: promptFor(plan), bound: 1000 });
  const port = Number(new URL(started.gateway.url).port);
  const leave = () =>
    sendTimed({ port, bytes, leaving: { afterMs: leftAfterMs, how: "reset" }, timeoutMs });
  const waiting = several(count, () => leave);
  const context = async (): Promise<void> => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) await next();
  };
  await Promise.all(several(atOnce, context));
}

/** The share of what the provider counts for these requests that was charged, and how many of them. */
async function chargedShare(name: string): Promise<{ requests: number; share: number }> {
  const rows = await chargedRequests(started.gateway.place);
  const charges = new Map(rows.map(({ id, charge }) => [id, charge]));
  const generated = provider.generated.filter((one) => one.name === name);
  const sum = (of: (one: (typeof generated)[number]) => bigint): number =>
    Number(generated.reduce((all, one) => all + of(one), 0n));
  const charged = sum(({ id }) => charges.get(id) ?? 0n);
  return { requests: generated.length, share: charged / sum(generatedCost) };
}

test(
  `${clients} left streams are read to their ends in bounded memory, and a stop waits for none of them longer than shutdown_grace`,
  async () => {
    const { gateway } = started;
    await leaveAll(atOnce, "warm-up", 2);
    await until("the warm-up is over", () => provider.busyCount === 0);
    const before = await leastMemory(gateway, 0, restMs);
    const filesBefore = openFiles();

    let filesMost = 0;
    const growth = await growthDuring(gateway.pids, async () => {
      await leaveAll(clients, "read-on", 15);
      filesMost = openFiles();
      await until("all are read to their ends", () => provider.busyCount === 0, timeoutMs / 3);
    });
    const whole = provider.generated.filter(({ name, isWhole }) => name === "read-on" && isWhole);
    const kept = (await leastMemory(gateway, before, restMs)) - before;
    const readOn = await chargedShare("read-on");

    await leaveAll(clients, "stopped", 600);
    const stoppingMs = performance.now();
    gateway.signal("SIGTERM");
    const status = await gateway.ended;
    const tookMs = performance.now() - stoppingMs;
    await until("the provider is rid of all", () => provider.busyCount === 0);
    const stopped = await chargedShare("stopped");

    const seen = { before, growth, kept, filesBefore, filesMost, tookMs, readOn, stopped };
    process.stdout.write(`${JSON.stringify(seen)}\n`);
    expect(whole).toHaveLength(clients);
    expect(readOn).toEqual({ requests: clients, share: 1 });
    expect(growth).toBeLessThan(clients * streamBytesMax);
    expect(filesMost).toBeLessThan(filesBefore + clients + filesMore);
    expect(status).toBe(0);
    expect(tookMs).toBeLessThan(graceSeconds * 1000 + stopMsMore);
    expect(stopped.requests).toBe(clients);
  },
  timeoutMs,
);
