import { afterAll, beforeAll, expect, test } from "bun:test";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { openIsolationBench, type IsolationBench } from "../support/isolation/bench.ts";
import { mixTenants } from "../support/isolation/isolation.ts";

const requests = 5000;
const seed = 1;
const timeoutMs = 300_000;

let bench: IsolationBench;
beforeAll(async () => {
  bench = await openIsolationBench(seed);
}, startTimeoutMs);
afterAll(() => bench.close());

// `bun scripts/isolation.ts` sends a million.
test(
  `${requests} requests of 20 tenants, with clients that leave and a provider that mixes up its answers: nobody gets or pays for a byte of another's`,
  async () => {
    const { problems, answers, provider, ...seen } = await mixTenants(bench, { seed, requests });
    process.stdout.write(`${JSON.stringify({ ...seen, answers, provider })}\n`);
    expect(problems).toEqual([]);
    // Else the run was blind for it.
    expect(Object.keys(answers)).toHaveLength(8);
    expect(Math.min(...Object.values(answers))).toBeGreaterThan(requests / 100);
    expect(seen.left).toBeGreaterThan(requests / 50);
    expect(seen.exact).toBeGreaterThan(requests / 2);
    expect(seen.estimated).toBeGreaterThan(requests / 200);
    expect(provider.reused).toBeGreaterThan(requests / 10);
    expect(provider.surplus).toBeGreaterThan(requests / 50);
    expect(provider.closed).toBeGreaterThan(requests / 100);
    expect(Math.min(provider.early, provider.unasked)).toBeGreaterThan(20);
  },
  timeoutMs,
);
