import { afterAll, beforeAll, expect, test } from "bun:test";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { openIsolationSetup, type IsolationSetup } from "../support/isolation/setup.ts";
import { mixTenants } from "../support/isolation/isolation.ts";
import { amount } from "../support/sample.ts";

const requests = amount(1500, 5000);
const seed = 1;
const timeoutMs = 300_000;

let setup: IsolationSetup;
beforeAll(async () => {
  setup = await openIsolationSetup(seed);
}, startTimeoutMs);
afterAll(() => setup.close());

// `bun scripts/isolation.ts` sends a million.
test(
  `${requests} requests of 20 accounts, with clients that disconnect and a provider that mixes up its answers: no account receives or pays for a byte of another`,
  async () => {
    const { problems, answers, provider, ...seen } = await mixTenants(setup, { seed, requests });
    process.stdout.write(`${JSON.stringify({ ...seen, answers, provider })}\n`);
    expect(problems).toEqual([]);
    // Otherwise the run did not test it.
    expect(Object.keys(answers)).toHaveLength(9);
    expect(Math.min(...Object.values(answers))).toBeGreaterThan(requests / 100);
    expect(seen.left).toBeGreaterThan(requests / 50);
    expect(seen.exact).toBeGreaterThan(requests / 2);
    expect(seen.estimated).toBeGreaterThan(requests / 200);
    expect(provider.reused).toBeGreaterThan(requests / 10);
    expect(provider.surplus).toBeGreaterThan(requests / 50);
    expect(provider.closed).toBeGreaterThan(requests / 100);
    expect(Math.min(provider.early, provider.unasked)).toBeGreaterThan(amount(5, 20));
  },
  timeoutMs,
);
