import { cutByCrash } from "../auditor/logs.ts";
import { everyWay, sendMixedLoad, type LoadSeen } from "../binary/mixedLoad.ts";
import { startMixedProviders } from "../binary/mixedProviders.ts";
import { seededRandom } from "../seededRandom.ts";
import { startPostgres, type PostgresServer } from "../servers/postgres.ts";
import { startRedis, type RedisServer } from "../servers/redis.ts";
import { startFleet, type Fleet, type FleetReplica } from "./fleet.ts";

/** What a fleet under faults did. */
export interface FleetRun {
  readonly seed: number;
  /** How often each fault came. */
  readonly faults: Readonly<Record<string, number>>;
  readonly begun: number;
  readonly whole: number;
  /** Acknowledged credits. */
  readonly credits: number;
  readonly problems: readonly string[];
}

export interface FleetRunOptions {
  readonly seconds: number;
  readonly seed: number;
  /** How long a replica stands still or is cut off, at most; 30 s unless given. */
  readonly maxStopMs?: number;
  /** Called with each fault, for a log. */
  readonly onFault?: (fault: string) => void;
}

type Random = ReturnType<typeof seededRandom>;

interface Stage {
  readonly fleet: Fleet;
  readonly postgres: PostgresServer;
  readonly redis: RedisServer;
  readonly random: Random;
  readonly stopMs: number;
}

const replicas = 3;
const clientsAtOnce = 24;
const accounts = 3;
/** More than `requests_wait`, less than a stopped replica stands still. */
const clientPatienceMs = 12_000;
const pauseMsMax = 2000;
/** Longer than a replica may be silent. */
const stopMsDefault = 30_000;
const cutMsMin = 500;

/**
 * Three gateways on one PostgreSQL server and one Redis server, under mixed load, while one part after the other is killed,
 * stopped, cut off or restarted at random. At the end everything is whole again, and the books are compared with what
 * clients received and providers sent.
 */
export async function runFleetFaults(options: FleetRunOptions): Promise<FleetRun> {
  const random = seededRandom(options.seed);
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
      config: providers.config({}),
    });
    const { maxStopMs: stopMs = stopMsDefault } = options;
    return await play({ fleet, postgres, redis, random, stopMs }, options);
  } finally {
    await providers.stop();
    await redis.close();
    await postgres.close();
  }
}

async function play(stage: Stage, options: FleetRunOptions): Promise<FleetRun> {
  const { fleet } = stage;
  const keys = await Promise.all(
    Array.from({ length: accounts }, (_, at) => fleet.key(`account-${at}`, "1000000")),
  );
  const endMs = performance.now() + options.seconds * 1000;
  const isOver = (): boolean => performance.now() > endMs;
  const loads = keys.map((key) =>
    sendMixedLoad(balanced(fleet), key, {
      requests: Infinity,
      ways: everyWay,
      atOnce: clientsAtOnce / accounts,
      withinMs: clientPatienceMs,
      isOver,
      seen() {},
    }),
  );
  const credits = bookCredits(fleet, isOver);
  const faults = await breakThings(stage, isOver, options.onFault ?? (() => undefined));
  const seen = joined(await Promise.all(loads));
  const refs = await credits;
  fleet.auditor.seen.push(...cutByCrash(seen.seen));
  fleet.auditor.credits.push(...refs);
  const { seed } = options;
  const counts = { begun: seen.begun, whole: seen.whole.length, credits: refs.length };
  return { seed, faults, ...counts, problems: await fleet.problems() };
}

/** As a load balancer that knows of no failure. */
function balanced(fleet: Fleet): { readonly url: string } {
  return {
    get url() {
      return fleet.next();
    },
  };
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

/** What can break. Each resolves when it is whole again. */
const faultsByName: Readonly<
  Record<string, (stage: Stage, replica: FleetReplica) => Promise<void>>
> = {
  async "replica killed"(_, { process }) {
    await process.kill();
    await process.start();
  },
  async "replica stopped"({ stopMs }, { process }) {
    process.signal("SIGSTOP");
    await Bun.sleep(stopMs);
    process.signal("SIGCONT");
  },
  async "replica cut off"({ random, stopMs }, { proxy }) {
    proxy.hang();
    await Bun.sleep(cutMsMin + random.below(stopMs - cutMsMin));
    if (random.chance(0.5)) proxy.reset();
    proxy.pass();
  },
  async "connections reset"(_, { proxy }) {
    proxy.reset();
  },
  async "reply of a commit lost"(_, { proxy }) {
    await Promise.race([proxy.dropReplyAfterCommit(), Bun.sleep(pauseMsMax)]);
  },
  async "commit lost"(_, { proxy }) {
    await Promise.race([proxy.dropCommit(), Bun.sleep(pauseMsMax)]);
  },
  async "PostgreSQL restarted"({ postgres }) {
    await postgres.restart();
  },
  async "PostgreSQL killed"({ postgres }) {
    await postgres.kill();
    await postgres.start();
  },
  async "Redis killed"({ redis }) {
    await redis.kill();
    await redis.start();
  },
};

/** Breaks one part after the other. Every second fault comes while another replica stands still or is cut off. */
async function breakThings(
  stage: Stage,
  isOver: () => boolean,
  onFault: (fault: string) => void,
): Promise<Record<string, number>> {
  const { random, fleet } = stage;
  const counts: Record<string, number> = {};
  const open = new Map<FleetReplica, Promise<void>>();
  while (!isOver()) {
    await Bun.sleep(random.below(pauseMsMax));
    const name = random.pick(Object.keys(faultsByName));
    const replica = random.pick(fleet.replicas);
    // One fault for a replica at a time.
    await open.get(replica);
    counts[name] = (counts[name] ?? 0) + 1;
    onFault(name);
    const healed = faultsByName[name]?.(stage, replica) ?? Promise.resolve();
    open.set(replica, healed);
    // Two servers at once are not restarted, and one replica always works.
    if (!name.startsWith("replica") || open.size > 1) await healed;
    if (open.get(replica) === healed && !name.startsWith("replica")) open.delete(replica);
  }
  await Promise.all(open.values());
  return counts;
}
