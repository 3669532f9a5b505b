import { afterAll, beforeAll, expect, test } from "bun:test";
import { openFuzzSetup, type FuzzSetup } from "../support/fuzz/setup.ts";
import { fuzzHttp } from "../support/fuzz/httpFuzz.ts";
import { GROWTH_BYTES_MAX } from "../support/fuzz/resources.ts";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { amount } from "../support/sample.ts";

let setup: FuzzSetup;
beforeAll(async () => {
  setup = await openFuzzSetup();
}, startTimeoutMs);
afterAll(() => setup.close());

const requests = amount(4000, 14_000);
const seed = 1;
const timeoutMs = 600_000;

/** Each must occur, or the run did not test it. */
const allStatuses = ["200", "400", "401", "402", "404", "429", "bare 400", "bare 431", "bare 505"];

// `bun scripts/fuzzHttp.ts` sends ten million.
test(
  `${requests} valid, odd and broken requests are each answered as the contract demands, and leave nothing open`,
  async () => {
    const { problems, answers, health, growth, ...seen } = await fuzzHttp(setup, {
      seed,
      requests,
    });
    process.stdout.write(`${JSON.stringify({ ...seen, answers, health, growth })}\n`);
    expect(problems).toEqual([]);
    expect(Object.keys(answers).toSorted()).toEqual(allStatuses);
    expect(seen.charged).toBeGreaterThan(requests / 20);
    expect(seen.cancelled).toBeGreaterThan(requests / 1000);
    expect(health.count).toBeGreaterThan(amount(15, 50));
    expect(health.nineOfTen).toBeLessThan(100);
    expect(growth.bytes).toBeLessThan(GROWTH_BYTES_MAX);
    expect(growth.files).toBeLessThanOrEqual(5);
  },
  timeoutMs,
);
