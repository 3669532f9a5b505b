import { lostCharges } from "../auditor/auditor.ts";
import { cutByCrash, type SeenAnswer } from "../auditor/logs.ts";
import { sendMixedLoad } from "../binary/mixedLoad.ts";
import { startLoadProvider } from "../provider/loadProvider.ts";
import { auditProblems } from "../store/auditProblems.ts";
import { several } from "../several.ts";
import { inWorld } from "../world/script.ts";
import { diskMissing, openOnDisk, type DiskSetup } from "./diskWorld.ts";

/** `count` calls of a kind fail, from the Nth on; see faultyDisk.c. `exit`: the status that must follow. */
interface DiskError {
  readonly call: "write" | "sync";
  readonly error: "EIO" | "ENOSPC" | "SHORT";
  /** 0: for ever. */
  readonly count: number;
  /** Undefined: the gateway goes on as soon as there is room. */
  readonly exit: 1 | undefined;
  /** The Nth of the short form. */
  readonly nths: readonly number[];
  /** So many calls come in any run. */
  readonly surely: number;
}

const errors: readonly DiskError[] = [
  { call: "write", error: "EIO", count: 0, exit: 1, nths: [1, 3, 8, 21, 50], surely: 50 },
  { call: "sync", error: "EIO", count: 1, exit: 1, nths: [1, 2, 4], surely: 8 },
  { call: "write", error: "EIO", count: 1, exit: 1, nths: [34], surely: 0 },
  {
    call: "write",
    error: "ENOSPC",
    count: 4,
    exit: undefined,
    nths: [1, 21, 41],
    surely: 0,
  },
  {
    call: "write",
    error: "SHORT",
    count: 4,
    exit: undefined,
    nths: [3, 23, 43],
    surely: 0,
  },
];
const NTH_MAX = 250;
const short = errors.flatMap((kind) => kind.nths.map((nth) => ({ kind, nth })));
const every = several(NTH_MAX, (at) => errors.map((kind) => ({ kind, nth: at + 1 }))).flat();

const requestsPerError = 24;
const requestsAtOnce = 8;
const recoveryMs = 15_000;
const recoveryStepMs = 20;

export const diskErrors = inWorld<DiskSetup & { readonly tried: typeof short }>({
  name: "diskErrors",
  proves: "of the disk: no client received a complete answer whose charge is missing",
  unit: "errors",
  amounts: [short.length, 200, every.length],
  missing: diskMissing,
  atOnce: 1,
  isDisturbed: true,
  hasErrors: true,
  async open(seed, amount) {
    const setup = await openOnDisk(seed, startLoadProvider({ wordDelayMs: 0 }));
    return { ...setup, tried: amount <= short.length ? short : every };
  },
  async play(setup, _, number) {
    const failure = setup.tried[number % setup.tried.length] ?? every[0];
    if (failure !== undefined) await failDisk(setup, failure);
  },
  least: (count) => ({ whole: count }),
});

/**
 * Makes the disk fail under load. A gateway that ends is started again on a healthy disk; one that continues must
 * serve again by itself. Afterwards every whole answer must be recorded, and the audits must pass.
 */
async function failDisk(on: DiskSetup, failure: (typeof short)[number]): Promise<void> {
  const { world, disk, key } = on;
  const { gateway } = world;
  const { nth, kind } = failure;
  const { call, error, count } = kind;
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
  const mayGoOn = exit === undefined && nth > kind.surely;
  if (exit !== kind.exit && !mayGoOn) problems.push(`it ended with ${exit}`);
  if (exit === undefined) await disk.tell("go");
  else await gateway.start();
  const audited = exit === undefined ? seen : cutByCrash(seen);
  const lost = await lostCharges(gateway.place, audited);
  problems.push(...lost, ...(await auditProblemsAtRest(on)));
  const name = `${call} ${nth} ${error} ${count}`;
  world.problems.push(...problems.map((problem) => `${name}: ${problem}`));
  world.count("errors");
  world.count(exit === undefined ? "went on" : "ended");
  world.count("whole", seen.filter(({ due }) => due !== undefined).length);
}

/** Asks again and again until an answer comes whole; false when that takes too long. */
async function recovers(
  { world: { gateway }, key }: DiskSetup,
  seen: SeenAnswer[],
): Promise<boolean> {
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
async function auditProblemsAtRest({ world: { gateway } }: DiskSetup): Promise<readonly string[]> {
  const deadlineMs = performance.now() + recoveryMs;
  for (;;) {
    const problems = await auditProblems(gateway);
    if (problems.length === 0 || performance.now() > deadlineMs) return problems;
    await Bun.sleep(recoveryStepMs);
  }
}
