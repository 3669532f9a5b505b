import { cutByCrash } from "../auditor/logs.ts";
import { everyWay, sendMixedLoad, type EndedRequest, type LoadSeen } from "../binary/mixedLoad.ts";
import { startMixedProviders } from "../binary/mixedProviders.ts";
import { seededRandom } from "../seededRandom.ts";
import { postgresMissing, startPostgres } from "../servers/postgres.ts";
import { redisMissing, startRedis } from "../servers/redis.ts";
import { reverseProxies, type ReverseProxy } from "../servers/reverseProxies.ts";
import type { Given, Script, Seen } from "../world/script.ts";
import { startFleet, type Fleet, type FleetReplica } from "./fleet.ts";
import { faultsByName, type Fault, type Stage } from "./faults.ts";

const replicas = 3;
/** Over all accounts. Those of a short run leave the processors to other tests. */
const clientsAtOnce = { short: 9, long: 24 };
const accounts = ["account-0", "account-1", "account-2"];
/** More than `requests_wait`, less than a stopped replica stands still. */
const clientPatienceMs = 12_000;
/** A client whose request failed waits for this long. */
const retryAfterMs = 200;
const pauseMsMax = 2000;
/** How long a replica stands still or is cut off, at most; in a long run longer than it may be silent. */
const shortStopMs = 5000;
const longStopMs = 30_000;
const longSeconds = 60;
/** Faults that harm nobody come by themselves for this long, and then all of them. */
const phaseMs = 30_000;
/** The load balancer finds a replica again, and a replica its servers, this soon after a fault. */
const settleMs = 3000;

const balancer = theBalancer();

/**
 * Three gateways behind a load balancer, on one PostgreSQL server and one Redis server, under mixed load, while one part
 * after the other is killed, stopped, locked, cut off or restarted at random. A request may fail only while a part is broken
 * that harms its account. At the end everything is whole again, and the books are compared with what clients received and
 * providers sent.
 */
export const fleetFaults: Script = {
  name: "fleetFaults",
  proves:
    "of three replicas whose parts are killed, stopped, locked and cut off charge each whole answer exactly once, and lose no request that a fault does not harm",
  unit: "seconds",
  amounts: [12, 20, 600],
  ciSeed: 4,
  missing: postgresMissing ?? redisMissing ?? balancer.missing,
  async run(given) {
    // A crash of the server must not lose what it has committed.
    const postgres = await startPostgres(["fsync=on"]);
    const redis = await startRedis();
    const providers = startMixedProviders();
    try {
      await using fleet = await startFleet({
        databaseUrl: postgres.url(),
        serverPort: postgres.port,
        redisUrl: redis.url,
        replicas,
        config: providers.config({ server: { drain_delay: "3s" } }),
      });
      await using proxy = await balancer.start(
        fleet.replicas.map(({ process }) => Number(new URL(process.url).port)),
      );
      const random = seededRandom(given.seed);
      const stopMs = given.amount < longSeconds ? shortStopMs : longStopMs;
      const stage = { fleet, postgres, redis, random, accounts, stopMs };
      return await play(stage, `http://127.0.0.1:${proxy.port}`, given);
    } finally {
      await providers.stop();
      await redis.close();
      await postgres.close();
    }
  },
};

async function play(stage: Stage, url: string, { amount, report }: Given): Promise<Seen> {
  const { fleet } = stage;
  const keys = await Promise.all(accounts.map((account) => fleet.key(account, "1000000")));
  const startedMs = performance.now();
  const endMs = startedMs + amount * 1000;
  const isOver = (): boolean => performance.now() > endMs;
  const failed: FailedRequest[] = [];
  const loads = keys.map((key, at) =>
    sendMixedLoad({ url }, key, {
      requests: Infinity,
      ways: everyWay,
      atOnce: clientsAtOnce[amount < longSeconds ? "short" : "long"] / accounts.length,
      withinMs: clientPatienceMs,
      isOver,
      seen() {},
      async ended(request) {
        if (request.answer?.due !== undefined) return;
        failed.push({ ...request, account: accounts[at] ?? "" });
        await Bun.sleep(retryAfterMs);
      },
    }),
  );
  const credits = bookCredits(fleet, isOver);
  const seconds = (): number => Math.round((performance.now() - startedMs) / 1000);
  const broken = await breakThings(stage, isOver, (fault) => report({ seconds: seconds(), fault }));
  const seen = joined(await Promise.all(loads));
  const refs = await credits;
  fleet.auditor.seen.push(...cutByCrash(seen.seen));
  fleet.auditor.credits.push(...refs);
  const blamed = failed.filter((request) => !isExcused(request, broken));
  const problems = [...problemsOf(blamed, broken, startedMs), ...(await problemsAtRest(fleet))];
  if (seen.whole.length < amount * 4) problems.push(`only ${seen.whole.length} answers were whole`);
  if (refs.length === 0) problems.push("no credit was acknowledged");
  const counts = { begun: seen.begun, whole: seen.whole.length, credits: refs.length };
  const excused = failed.length - blamed.length;
  const figures = { ...counts, excused, faults: countsOf(broken) };
  return { ...figures, problems };
}

/** Also where the fleet does not come to rest, so that the rest of a long run is told. */
async function problemsAtRest(fleet: Fleet): Promise<readonly string[]> {
  try {
    return await fleet.problems();
  } catch (error) {
    return [String(error)];
  }
}

interface FailedRequest extends EndedRequest {
  readonly account: string;
}

/** A part that was broken, from one moment to another. */
interface Broken {
  readonly name: string;
  readonly harmed: Fault["harmed"];
  readonly fromMs: number;
  /** Infinity while it is broken. */
  untilMs: number;
}

function isExcused(request: FailedRequest, broken: readonly Broken[]): boolean {
  return brokenDuring(request, broken).some(
    ({ harmed }) =>
      harmed === "all" || (typeof harmed === "object" && harmed.account === request.account),
  );
}

function brokenDuring(
  { beganMs, endedMs }: EndedRequest,
  broken: readonly Broken[],
): readonly Broken[] {
  return broken.filter(({ fromMs, untilMs }) => fromMs < endedMs && beganMs < untilMs + settleMs);
}

/** One line for all requests of an account that failed in the same way with the same parts broken. */
function problemsOf(
  blamed: readonly FailedRequest[],
  broken: readonly Broken[],
  startedMs: number,
): readonly string[] {
  const at = (ms: number): string => `${((ms - startedMs) / 1000).toFixed(1)} s`;
  const counts = new Map<string, { count: number; readonly first: FailedRequest }>();
  for (const request of blamed) {
    const { account, answer } = request;
    const names = brokenDuring(request, broken).map(({ name }) => name);
    const what = answer === undefined ? "no answer" : `status ${answer.status}`;
    const kind = `of ${account} failed (${what}), which no broken part explains: ${names.join(", ") || "none"}`;
    const known = counts.get(kind);
    if (known === undefined) counts.set(kind, { count: 1, first: request });
    else known.count += 1;
  }
  return [...counts].map(
    ([kind, { count, first }]) =>
      `${count} requests ${kind}; the first from ${at(first.beganMs)} to ${at(first.endedMs)}: ${first.answer?.text.slice(-200)}`,
  );
}

function countsOf(broken: readonly Broken[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { name } of broken) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

function theBalancer(): ReverseProxy {
  const found = reverseProxies.find(({ name }) => name === "HAProxy");
  if (found === undefined) throw new Error("there are no settings of HAProxy");
  return found;
}

function joined(loads: readonly LoadSeen[]): LoadSeen {
  return {
    begun: loads.reduce((sum, { begun }) => sum + begun, 0),
    seen: loads.flatMap(({ seen }) => seen),
    whole: loads.flatMap(({ whole }) => whole),
    refusals: loads.flatMap(({ refusals }) => refusals),
  };
}

/** Adds credits by commands, which may fail while the server is gone; returns the refs of those that were acknowledged. */
async function bookCredits({ cli }: Fleet, isOver: () => boolean): Promise<readonly string[]> {
  const refs: string[] = [];
  for (let at = 0; !isOver(); at += 1) {
    const ref = `credit-${at}`;
    const command = ["balance", "credit", "account-0", "0.001", "--ref", ref];
    const { status } = await cli.run(...command, "--json");
    if (status === 0) refs.push(ref);
    await Bun.sleep(pauseMsMax / 4);
  }
  return refs;
}

/**
 * Breaks one part after the other. In every second phase only those break that harm no account but one. In the others, every
 * second fault comes while another replica stands still or is cut off.
 */
async function breakThings(
  stage: Stage,
  isOver: () => boolean,
  onFault: (fault: string) => void,
): Promise<readonly Broken[]> {
  const { random, fleet } = stage;
  const all: Broken[] = [];
  const open = new Map<FleetReplica, Promise<void>>();
  const startedMs = performance.now();
  let isGentle = false;
  while (!isOver()) {
    await Bun.sleep(random.below(pauseMsMax));
    const phase = Math.floor((performance.now() - startedMs) / Math.min(phaseMs, stage.stopMs));
    if (isGentle !== (phase % 2 === 0)) {
      isGentle = !isGentle;
      await Promise.all(open.values());
    }
    const name = random.pick(Object.keys(faultsByName));
    const replica = random.pick(fleet.replicas);
    const fault = faultsByName[name]?.(stage, replica);
    if (fault === undefined || (isGentle && fault.harmed === "all")) continue;
    // One fault for a replica at a time.
    await open.get(replica);
    onFault(name);
    const broken: Broken = { ...fault, name, fromMs: performance.now(), untilMs: Infinity };
    all.push(broken);
    const healed = fault.run().finally(() => {
      broken.untilMs = performance.now();
      open.delete(replica);
    });
    open.set(replica, healed);
    // Two servers at once are not restarted, and one replica always works.
    if (!name.startsWith("replica") || open.size > 1) await healed;
  }
  await Promise.all(open.values());
  return all;
}
