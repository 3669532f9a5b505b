import { afterAll, beforeAll, expect, test } from "bun:test";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { openLeavers, type Leavers } from "../support/leavers/leavers.ts";
import { amount } from "../support/sample.ts";

const timeoutMs = 180_000;
const clients = amount(30, 60);
/** Answers of a tenth of the usual length show less. `bun scripts/leavers.ts` requires 99%. */
const chargedShareMin = 0.98;
const chargedShareMax = 1.1;

let leavers: Leavers;
beforeAll(async () => {
  const options = { clients, seconds: amount(8, 15), accounts: 20, seed: 1, scale: { time: 0.1 } };
  leavers = await openLeavers(options);
}, 2 * startTimeoutMs);
afterAll(() => leavers.close());

// `bun scripts/leavers.ts` has 500 clients leave for ten minutes.
test(
  `${clients} clients that leave over all interfaces are charged for what was generated until then`,
  async () => {
    const { rows, standing, chargedUnsent } = await leavers.run();
    const [all] = rows;
    const share = Number(all?.charged) / Number(all?.generated);
    process.stdout.write(`${JSON.stringify({ ...standing, share })}\n`);
    expect(standing.others).toEqual({});
    expect(standing.left).toBeGreaterThan(amount(30, 100));
    expect(chargedUnsent).toBe(0n);
    expect(share).toBeGreaterThan(chargedShareMin);
    expect(share).toBeLessThan(chargedShareMax);
  },
  timeoutMs,
);
