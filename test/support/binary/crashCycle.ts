import { cutByCrash } from "../auditor/logs.ts";
import { auditProblems, reservesAfterStart } from "../store/auditProblems.ts";
import type { GatewayProcess } from "./gatewayProcess.ts";
import { everyWay, sendMixedLoad } from "./mixedLoad.ts";

export interface CrashCycle {
  /** Requests that were sent. */
  readonly begun: number;
  /** Whole answers, received before or despite the kill. */
  readonly whole: number;
  /** Acknowledged credits. */
  readonly credits: number;
  /** All problems of the database after the restart. */
  readonly problems: readonly string[];
}

const requestsPerCycle = 50;
const requestsAtOnce = 16;

/**
 * Kills the gateway after `killAfter` of 50 mixed requests were answered whole, while credits are added, starts
 * it again, and compares what the clients received with the database. The gateway
 * has the mixed providers. `name` must be new.
 */
export async function runCrashCycle(
  gateway: GatewayProcess,
  payer: { readonly account: string; readonly key: string },
  cycle: { readonly name: string; readonly killAfter: number },
): Promise<CrashCycle> {
  let isOver = false;
  let wholeCount = 0;
  const kill = async (): Promise<void> => {
    isOver = true;
    await gateway.kill();
  };
  const credits = bookCredits(gateway, payer.account, cycle.name, () => isOver);
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
  await gateway.start();
  gateway.auditor.seen.push(...cutByCrash(seen));
  gateway.auditor.credits.push(...refs);
  const problems = [...auditProblems(gateway), ...reservesAfterStart(gateway)];
  problems.push(...refusals.map((status) => `a request was refused with ${status}`));
  return { begun, whole: whole.length, credits: refs.length, problems };
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
