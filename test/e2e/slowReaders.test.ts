import { afterAll, beforeAll, expect, test } from "bun:test";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import {
  AHEAD_MAX,
  GROWTH_MAX,
  openSlowReaders,
  type SlowReaders,
} from "../support/binary/slowReaders.ts";
import { amount } from "../support/sample.ts";

/** So many that their total memory is more than the variation of the runtime. */
const readers = 20;
const seconds = amount(3, 5);
const readMin = amount(250_000, 500_000);
const timeoutMs = 120_000;

let slow: SlowReaders;
beforeAll(async () => {
  slow = await openSlowReaders();
}, startTimeoutMs);
afterAll(() => slow.close());

// `bun scripts/slowReaders.ts` uses two hundred.
test(
  `${readers} slow readers of 100 MB each hold their providers up, and less than a megabyte each of the gateway's memory`,
  async () => {
    const seen = await slow.read(readers, seconds);
    process.stdout.write(`${JSON.stringify(seen)}\n`);
    expect(seen.leastRead).toBeGreaterThan(readMin);
    expect(seen.aheadMost).toBeLessThan(AHEAD_MAX);
    expect(seen.growth).toBeLessThan(readers * GROWTH_MAX);
  },
  timeoutMs,
);
