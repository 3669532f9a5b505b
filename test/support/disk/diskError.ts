import { lostCharges } from "../auditor/auditor.ts";
import { cutByCrash, type SeenAnswer } from "../auditor/logs.ts";
import { auditProblems } from "../store/auditProblems.ts";
import { sendMixedLoad } from "../binary/mixedLoad.ts";
import type { GatewayOnDisk } from "./powerCut.ts";

/** `count` calls of a kind fail, from the `nth` on; see faultyDisk.c. */
export interface DiskError {
  readonly call: "write" | "sync";
  readonly nth: number;
  readonly error: "EIO" | "ENOSPC" | "SHORT";
  /** 0: for ever. */
  readonly count: number;
}

/** The result of an error. */
export interface DiskErrorOutcome {
  readonly whole: number;
  /** The status with which the gateway ended; undefined where it went on. */
  readonly exit: number | undefined;
  readonly problems: readonly string[];
}

const requestsPerError = 24;
const requestsAtOnce = 8;
const recoveryMs = 15_000;
const recoveryStepMs = 20;

/**
 * Makes the disk fail under load. A gateway that ends is started again on a healthy disk; one that continues must
 * serve again by itself. Afterwards every whole answer must be recorded, and the audits must pass.
 */
export async function failDisk(on: GatewayOnDisk, failure: DiskError): Promise<DiskErrorOutcome> {
  const { gateway, disk, key } = on;
  const { call, nth, error, count } = failure;
  await disk.tell(`fail ${call} ${nth} ${error} ${count}`);
  let exit: number | undefined;
  const gone = gateway.ended.then((status) => (exit = status));
  const load = await sendMixedLoad(gateway, key, {
    requests: requestsPerError,
    atOnce: requestsAtOnce,
    isOver: () => exit !== undefined,
    seen: () => {},
  });
  const seen = [...load.seen];
  const problems: string[] = [];
  const isGoing = await Promise.race([recovers(on, seen), gone.then(() => false)]);
  if (exit === undefined && !isGoing) problems.push("it neither ended nor served again");
  if (exit === 0) problems.push("it ended as if nothing had happened");
  if (exit === undefined) await disk.tell("go");
  else await gateway.start();
  const audited = exit === undefined ? seen : cutByCrash(seen);
  const lost = await lostCharges(gateway.place, audited);
  problems.push(...lost, ...(await auditProblemsAtRest(on)));
  return { whole: seen.filter(({ due }) => due !== undefined).length, exit, problems };
}

/** Asks again and again until an answer comes whole; false when that takes too long. */
async function recovers({ gateway, key }: GatewayOnDisk, seen: SeenAnswer[]): Promise<boolean> {
  const deadlineMs = performance.now() + recoveryMs;
  while (performance.now() < deadlineMs) {
    const options = { requests: 1, atOnce: 1, isOver: () => false, seen: () => {} };
    const again = await sendMixedLoad(gateway, key, options);
    seen.push(...again.seen);
    if (again.whole.length > 0) return true;
    await Bun.sleep(recoveryStepMs);
  }
  return false;
}

/** The problems of the idle gateway: a settlement that could not be written is retried after a while. */
async function auditProblemsAtRest({ gateway }: GatewayOnDisk): Promise<readonly string[]> {
  const deadlineMs = performance.now() + recoveryMs;
  for (;;) {
    const problems = await auditProblems(gateway);
    if (problems.length === 0 || performance.now() > deadlineMs) return problems;
    await Bun.sleep(recoveryStepMs);
  }
}
