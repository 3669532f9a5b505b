import { cutByCrash } from "../auditor/logs.ts";
import { redeem } from "../gateway/voucherCalls.ts";
import { problemsAfterCrash } from "../store/auditProblems.ts";
import type { GatewayProcess } from "./gatewayProcess.ts";
import { everyWay, sendMixedLoad } from "./mixedLoad.ts";

export interface CrashCycle {
  /** Requests that were sent. */
  readonly begun: number;
  /** Whole answers, received before or despite the kill. */
  readonly whole: number;
  /** Acknowledged credits. */
  readonly credits: number;
  /** Acknowledged redemptions of vouchers. */
  readonly redemptions: number;
  /** All problems of the database after the restart. */
  readonly problems: readonly string[];
}

const requestsPerCycle = 50;
const vouchersPerCycle = 100;
const requestsAtOnce = 16;

/**
 * Kills the gateway after `killAfter` of 50 mixed requests were answered whole, while credits are added and vouchers are
 * redeemed, starts it again, and compares what the clients received with the database. The gateway
 * has the mixed providers. `name` must be new.
 */
export async function runCrashCycle(
  gateway: GatewayProcess,
  payer: { readonly account: string; readonly key: string },
  cycle: { readonly name: string; readonly killAfter: number },
): Promise<CrashCycle> {
  const vouchers = await createVouchers(gateway);
  let isOver = false;
  let wholeCount = 0;
  const kill = async (): Promise<void> => {
    isOver = true;
    await gateway.kill();
  };
  const credits = bookCredits(gateway, payer.account, cycle.name, () => isOver);
  const redemptions = redeemVouchers(gateway, payer.key, vouchers, () => isOver);
  const { begun, seen, whole, refusals } = await sendMixedLoad(gateway, payer.key, {
    requests: requestsPerCycle,
    ways: everyWay,
    atOnce: requestsAtOnce,
    isOver: () => isOver,
    seen() {
      wholeCount += 1;
      return wholeCount === cycle.killAfter ? kill() : undefined;
    },
  });
  if (!isOver) await kill();
  const refs = await credits;
  const { redeemed, unsure } = await redemptions;
  await gateway.start();
  const retried = unsure && (await redeem(gateway, payer, unsure.code));
  gateway.auditor.seen.push(...cutByCrash(seen));
  gateway.auditor.credits.push(...refs, ...redeemed.map(({ id }) => `voucher:${id}`));
  const problems = await problemsAfterCrash(gateway);
  problems.push(...refusals.map((status) => `a request was refused with ${status}`));
  if (retried && retried.status !== 200)
    problems.push(`a voucher that was sent before the crash got ${retried.status} after it`);
  const counts = { credits: refs.length, redemptions: redeemed.length };
  return { begun, whole: whole.length, ...counts, problems };
}

/** Adds credits one after the other; returns the refs of those that were acknowledged. */
async function bookCredits(
  { cli }: GatewayProcess,
  account: string,
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
