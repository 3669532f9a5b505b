import { afterAll, beforeAll, expect, test } from "bun:test";
import { startLoadProvider } from "../support/provider/loadProvider.ts";
import { seededRandom } from "../support/seededRandom.ts";
import { describeFaultyDisk } from "../support/disk/describeFaultyDisk.ts";
import { cutPower, startGatewayOnDisk, type GatewayOnDisk } from "../support/disk/powerCut.ts";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { amount } from "../support/sample.ts";

const describeOnDisk = describeFaultyDisk("power cuts");

const provider = startLoadProvider({ wordDelayMs: 0 });
afterAll(() => provider.stop());

const cutsTimeoutMs = 60_000;
const atCallMax = 450;

function openBefore(durability: "power" | "process"): { readonly disk: GatewayOnDisk } {
  let opened: GatewayOnDisk | undefined;
  beforeAll(async () => {
    opened = await startGatewayOnDisk(provider.url, durability);
  }, startTimeoutMs);
  afterAll(() => opened?.close());
  return {
    get disk() {
      if (!opened) throw new Error("the gateway is not started yet");
      return opened;
    },
  };
}

/** The sum of the results of this many cuts at random moments. */
async function cuts(disk: GatewayOnDisk, count: number, seed: number) {
  const random = seededRandom(seed);
  const seen = { whole: 0, lost: [] as string[], problems: [] as string[] };
  for (let cut = 0; cut < count; cut += 1) {
    const atCall = 1 + random.below(atCallMax);
    const left = await cutPower(disk, { atCall, seed: random.below(2 ** 31) });
    seen.whole += left.whole;
    seen.lost.push(...left.lost);
    seen.problems.push(...left.problems);
  }
  return seen;
}

// `bun scripts/powerCuts.ts` cuts a hundred times.
describeOnDisk("a power cut", () => {
  const powerful = openBefore("power");
  const careless = openBefore("process");

  test(
    "loses no charge of a complete answer, with durability power",
    async () => {
      const seen = await cuts(powerful.disk, amount(8, 20), 1);
      expect([seen.lost, seen.problems]).toEqual([[], []]);
      expect(seen.whole).toBeGreaterThan(amount(40, 100));
    },
    cutsTimeoutMs,
  );

  test(
    "loses some with durability process, which proves that the cuts work; the audit finds no problem",
    async () => {
      const seen = await cuts(careless.disk, amount(4, 5), 1);
      expect(seen.lost.length).toBeGreaterThan(0);
      expect(seen.problems).toEqual([]);
    },
    cutsTimeoutMs,
  );
});
