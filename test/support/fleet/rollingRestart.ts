import { startLoadProvider } from "../provider/loadProvider.ts";
import { readDatabaseAt } from "../auditor/databaseRows.ts";
import { sendMixedLoad, type LoadSeen } from "../binary/mixedLoad.ts";
import { chatAndEmbeddings } from "../gateway/gatewayConfig.ts";
import { sample } from "../sample.ts";
import { freshDatabase, postgresMissing } from "../servers/postgres.ts";
import { reverseProxies, type StartedProxy } from "../servers/reverseProxies.ts";
import type { Given, Script } from "../world/script.ts";
import { startFleet, type Fleet } from "./fleet.ts";

/** The proxies that docs/run/reverse-proxy.md has settings for three gateways for. */
const balancers: typeof reverseProxies = reverseProxies.filter(({ name }) => name !== "Traefik");
/** In CI one of them: what they have in common are the settings of the gateway. */
const inCi = sample(balancers, 1, ({ name }) => name);

/** What the clients of a proxy got. */
interface Count {
  readonly begun: number;
  /** Requests without a whole answer. */
  readonly lost: number;
  /** The statuses of refusals, each once. */
  readonly refusals: readonly number[];
}

/** Streams take about a second. */
const WORD_DELAY_MS = 20;
const REPLICAS = 3;
/** The least requests of a proxy that prove something. */
const BEGUN_MIN = 50;

const longRounds = 10;

/**
 * Restarts three replicas one after the other behind each proxy at once, under load of JSON answers and streams. The next one
 * stops when all proxies use the last one again.
 */
export const rollingRestart: Script = {
  name: "rollingRestart",
  proves:
    "of restarts behind nginx, Caddy and HAProxy, with the settings of docs/run/reverse-proxy.md: no request is lost or sent twice",
  unit: "rounds",
  amounts: [1, 1, longRounds],
  missing: postgresMissing ?? inCi.find(({ missing }) => missing !== undefined)?.missing,
  async run(given) {
    await using database = await freshDatabase();
    const provider = startLoadProvider({ wordDelayMs: WORD_DELAY_MS });
    try {
      await using fleet = await startFleet({
        databaseUrl: database.url,
        serverPort: Number(new URL(database.url).port),
        replicas: REPLICAS,
        config: chatAndEmbeddings(provider.url, { server: { drain_delay: "3s" } }),
      });
      const loads = await underLoad(fleet, given);
      fleet.auditor.seen.push(...loads.flatMap(({ load }) => load.seen));
      const problems = [...(await fleet.problems())];
      const { requests } = await readDatabaseAt({ url: database.url });
      const begun = loads.reduce((sum, { load }) => sum + load.begun, 0);
      if (requests.length > begun)
        problems.push(`${requests.length} requests are recorded, and ${begun} were sent`);
      const counts = Object.fromEntries(loads.map((one) => [one.name, countOf(one)]));
      for (const [name, count] of Object.entries(counts))
        if (count.lost > 0 || count.refusals.length > 0 || count.begun < BEGUN_MIN)
          problems.push(`${name}: ${JSON.stringify(count)}`);
      const figures = { counts };
      return { ...figures, problems };
    } finally {
      provider.stop();
    }
  },
};

interface ProxyLoad {
  readonly name: string;
  readonly load: LoadSeen;
}

/** Restarts the replicas while clients of all proxies ask. */
async function underLoad(
  fleet: Fleet,
  { amount: rounds, report }: Given,
): Promise<readonly ProxyLoad[]> {
  const isLong = rounds >= longRounds;
  const atOnce = isLong ? 24 : 4;
  const ports = fleet.replicas.map(({ process }) => Number(new URL(process.url).port));
  const proxies = new Map<string, StartedProxy>();
  const state = { isOver: false };
  try {
    for (const proxy of isLong ? balancers : inCi)
      proxies.set(proxy.name, await proxy.start(ports));
    const loads = [...proxies].map(async ([name, { port }]): Promise<ProxyLoad> => {
      const key = await fleet.key(name.toLowerCase(), "1000000");
      const load = await sendMixedLoad({ url: `http://127.0.0.1:${port}` }, key, {
        requests: Infinity,
        atOnce,
        isOver: () => state.isOver,
        seen() {},
      });
      return { name, load };
    });
    try {
      for (let round = 1; round <= rounds; round += 1) {
        await restartEach(fleet, [...proxies.keys()]);
        report({ round });
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
