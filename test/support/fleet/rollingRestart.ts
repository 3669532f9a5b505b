import { startLoadProvider } from "../provider/loadProvider.ts";
import { readDatabaseAt } from "../auditor/databaseRows.ts";
import { sendMixedLoad, type LoadSeen } from "../binary/mixedLoad.ts";
import { chatAndEmbeddings } from "../gateway/gatewayConfig.ts";
import { freshDatabase } from "../servers/postgres.ts";
import { reverseProxies, type StartedProxy } from "../servers/reverseProxies.ts";
import { startFleet, type Fleet } from "./fleet.ts";

/** The proxies that docs/run/reverse-proxy.md has settings for three gateways for. */
export const balancers: typeof reverseProxies = reverseProxies.filter(
  ({ name }) => name !== "Traefik",
);

export interface RollingRestarts {
  /** How often each replica restarts. */
  readonly rounds: number;
  /** Clients of each proxy, each on a connection that it keeps. */
  readonly clients: number;
  readonly drainDelay: string;
  /** All of them unless given. */
  readonly proxies?: typeof balancers;
  /** Called after each round, for a log. */
  readonly onRound?: (round: number) => void;
}

/** What the clients of a proxy got. */
interface Count {
  readonly begun: number;
  /** Requests without a whole answer. */
  readonly lost: number;
  /** The statuses of refusals, each once. */
  readonly refusals: readonly number[];
}

export interface RollingRun {
  readonly counts: Readonly<Record<string, Count>>;
  /** Of the audits. A request that was sent twice is one of them. */
  readonly problems: readonly string[];
}

/** Streams take about a second. */
const WORD_DELAY_MS = 20;
const REPLICAS = 3;

/**
 * Restarts three replicas one after the other behind each proxy at once, under load of JSON answers and streams. The next one
 * stops when all proxies use the last one again.
 */
export async function runRollingRestarts(options: RollingRestarts): Promise<RollingRun> {
  await using database = await freshDatabase();
  const provider = startLoadProvider({ wordDelayMs: WORD_DELAY_MS });
  try {
    const server = { drain_delay: options.drainDelay };
    await using fleet = await startFleet({
      databaseUrl: database.url,
      serverPort: Number(new URL(database.url).port),
      replicas: REPLICAS,
      config: chatAndEmbeddings(provider.url, { server }),
    });
    const loads = await underLoad(fleet, options);
    fleet.auditor.seen.push(...loads.flatMap(({ load }) => load.seen));
    const problems = [...(await fleet.problems())];
    const { requests } = await readDatabaseAt({ url: database.url });
    const begun = loads.reduce((sum, { load }) => sum + load.begun, 0);
    if (requests.length > begun)
      problems.push(`${requests.length} requests are recorded, and ${begun} were sent`);
    return { problems, counts: Object.fromEntries(loads.map((one) => [one.name, countOf(one)])) };
  } finally {
    provider.stop();
  }
}

interface ProxyLoad {
  readonly name: string;
  readonly load: LoadSeen;
}

/** Restarts the replicas while clients of all proxies ask. */
async function underLoad(fleet: Fleet, options: RollingRestarts): Promise<readonly ProxyLoad[]> {
  const ports = fleet.replicas.map(({ process }) => Number(new URL(process.url).port));
  const proxies = new Map<string, StartedProxy>();
  const state = { isOver: false };
  try {
    for (const proxy of options.proxies ?? balancers)
      proxies.set(proxy.name, await proxy.start(ports));
    const loads = [...proxies].map(async ([name, { port }]): Promise<ProxyLoad> => {
      const key = await fleet.key(name.toLowerCase(), "1000000");
      const load = await sendMixedLoad({ url: `http://127.0.0.1:${port}` }, key, {
        requests: Infinity,
        atOnce: options.clients,
        isOver: () => state.isOver,
        seen() {},
      });
      return { name, load };
    });
    try {
      for (let round = 1; round <= options.rounds; round += 1) {
        await restartEach(fleet, [...proxies.keys()]);
        options.onRound?.(round);
      }
    } finally {
      state.isOver = true;
    }
    return await Promise.all(loads);
  } finally {
    for (const proxy of proxies.values()) await proxy[Symbol.asyncDispose]();
  }
}

async function restartEach({ replicas }: Fleet, names: readonly string[]): Promise<void> {
  for (const { process } of replicas) {
    await process.stop();
    process.forgetLog();
    await process.start();
    for (const name of names)
      await process.logged(`${name} uses it`, ({ account }) => account === name.toLowerCase());
  }
}

function countOf({ load: { begun, whole, refusals } }: ProxyLoad): Count {
  return { begun, lost: begun - whole.length, refusals: [...new Set(refusals)] };
}
