import { cutByCrash } from "../auditor/logs.ts";
import { redeem } from "../gateway/voucherCalls.ts";
import type { Chance } from "../seededRandom.ts";
import { problemsAfterCrash } from "../store/auditProblems.ts";
import { testedStore } from "../testedEngines.ts";
import { inWorld } from "../world/script.ts";
import { World } from "../world/world.ts";
import type { GatewayProcess } from "./gatewayProcess.ts";
import { everyWay, sendMixedLoad } from "./mixedLoad.ts";
import { startMixedProviders } from "./mixedProviders.ts";

interface CrashSetup {
  readonly world: World;
  readonly key: string;
}

const account = "alice";
const requestsPerCycle = 50;
/** Some requests must be in flight at the kill. */
const killAfterMax = 49;
const vouchersPerCycle = 100;
const requestsAtOnce = 16;

export const crash = inWorld<CrashSetup>({
  name: "crash",
  proves:
    "of kill -9 under load: each whole answer was charged exactly once, no hold, credit or redemption is lost",
  unit: "cycles",
  // After a crash a server is at rest only when the killed replica was silent for 15 s.
  amounts: testedStore === "sqlite" ? [4, 45, 1000] : [3, 3, 1000],
  atOnce: 1,
  isDisturbed: true,
  async open(seed) {
    const providers = startMixedProviders();
    const sections = { database: { path: "tollgate.db", durability: "power" } };
    const config = providers.config(sections);
    return await World.open({ seed, providers: [providers], config }, async ({ gateway }) => ({
      key: await gateway.key(account, "1000000"),
    }));
  },
  play: runCycle,
  least: (cycles) => ({ credits: cycles, redemptions: cycles / 2 }),
});

/**
 * Kills the gateway after some of 50 mixed requests were answered whole, while credits are added and vouchers are
 * redeemed, starts it again, and compares what the clients received with the database.
 */
async function runCycle({ world, key }: CrashSetup, chance: Chance, number: number): Promise<void> {
  const { gateway } = world;
  const killAfter = 1 + chance.below(killAfterMax);
  const vouchers = await createVouchers(gateway);
  let isOver = false;
  let wholeCount = 0;
  const kill = async (): Promise<void> => {
    isOver = true;
    await gateway.kill();
  };
  const credits = bookCredits(gateway, `cycle-${number}`, () => isOver);
  const redemptions = redeemVouchers(gateway, key, vouchers, () => isOver);
  const { begun, seen, whole, refusals } = await sendMixedLoad(gateway, key, {
    requests: requestsPerCycle,
    ways: everyWay,
    atOnce: requestsAtOnce,
    isOver: () => isOver,
    seen() {
      wholeCount += 1;
      return wholeCount === killAfter ? kill() : undefined;
    },
  });
  if (!isOver) await kill();
  const refs = await credits;
  const { redeemed, unsure } = await redemptions;
  await gateway.start();
  const retried = unsure && (await redeem(gateway, { key }, unsure.code));
  gateway.auditor.seen.push(...cutByCrash(seen));
  gateway.auditor.credits.push(...refs, ...redeemed.map(({ id }) => `voucher:${id}`));
  const problems = await problemsAfterCrash(gateway);
  problems.push(...refusals.map((status) => `a request was refused with ${status}`));
  if (retried && retried.status !== 200)
    problems.push(`a voucher that was sent before the crash got ${retried.status} after it`);
  if (whole.length < killAfter) problems.push(`only ${whole.length} answers were whole`);
  world.problems.push(...problems.map((one) => `cycle ${number}, after ${killAfter}: ${one}`));
  world.count("cycles");
  world.count("begun", begun);
  world.count("whole", whole.length);
  world.count("credits", refs.length);
  world.count("redemptions", redeemed.length);
}

/** Adds credits one after the other; returns the refs of those that were acknowledged. */
async function bookCredits(
  { cli }: GatewayProcess,
  name: string,
  isOver: () => boolean,
): Promise<string[]> {
  const refs: string[] = [];
  do {
    const ref = `${name}-${refs.length}`;
    await cli.json("balance", "credit", account, "0.001", "--ref", ref);
    refs.push(ref);
  } while (!isOver());
  return refs;
}

interface Voucher {
  readonly id: string;
  readonly code: string;
}

async function createVouchers({ cli }: GatewayProcess): Promise<readonly Voucher[]> {
  const options = ["--amount", "0.002", "--count", String(vouchersPerCycle)];
  return (await cli.json("vouchers", "create", ...options)) as Voucher[];
}

/** Redeems vouchers one after the other. `unsure`: the crash came before its answer. */
async function redeemVouchers(
  gateway: GatewayProcess,
  key: string,
  vouchers: readonly Voucher[],
  isOver: () => boolean,
): Promise<{ readonly redeemed: readonly Voucher[]; readonly unsure?: Voucher }> {
  const redeemed: Voucher[] = [];
  for (const voucher of vouchers) {
    if (isOver()) break;
    const reply = await redeem(gateway, { key }, voucher.code).catch(() => undefined);
    if (reply?.status !== 200) return { redeemed, unsure: voucher };
    redeemed.push(voucher);
  }
  return { redeemed };
}
