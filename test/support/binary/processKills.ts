import { cutByCrash } from "../auditor/logs.ts";
import { chanceOf, type Chance } from "../seededRandom.ts";
import { testedProcesses, testedStore } from "../testedEngines.ts";
import { inWorld } from "../world/script.ts";
import { World } from "../world/world.ts";
import { everyWay, sendMixedLoad, type EndedRequest } from "./mixedLoad.ts";
import { startMixedProviders } from "./mixedProviders.ts";
import { listenersAt, parentOf, servingProcesses } from "./servingProcesses.ts";
import { until } from "../until.ts";

interface KillSetup {
  readonly world: World;
  readonly seed: number;
  readonly key: string;
  /** From each kill until the process was gone, by `performance.now()`. */
  readonly kills: { readonly atMs: number; readonly goneMs: number }[];
  /** Requests without a whole answer. */
  readonly lost: EndedRequest[];
}

const account = "alice";
const requestsAtOnce = 16;
const requestsAPlay = 200;
const killEveryMs = 1000;
/** A client that keeps connections may use one of the killed process until it notices its end. */
const noticedWithinMs = 100;
/** A client may see the end of its connection so much later. */
const seenWithinMs = 2000;
const startedWithinMs = 10_000;

export const processKills = inWorld<KillSetup>({
  name: "processKills",
  proves:
    "of kill -9 of a serving process each second under load: each whole answer was charged exactly once, and no request is lost but those that the process had open",
  unit: "seconds",
  amounts: [6, 60, 600],
  atOnce: 1,
  isDisturbed: true,
  hasErrors: true,
  missing:
    testedStore === "sqlite" ? undefined : "processes of a database on a server are replicas",
  async open(seed) {
    const providers = startMixedProviders();
    const sections = {
      server: { processes: Math.max(2, testedProcesses) },
      database: { path: "tollgate.db", durability: "power" },
    };
    const config = providers.config(sections);
    return await World.open({ seed, providers: [providers], config }, async ({ gateway }) => ({
      seed,
      key: await gateway.key(account, "1000000"),
      kills: [],
      lost: [],
    }));
  },
  warmUp: () => Promise.resolve(),
  play,
  beside: [killEachSecond],
  check: async ({ world, kills, lost }) => {
    const isOfKill = ({ beganMs, endedMs }: EndedRequest): boolean =>
      kills.some(
        ({ atMs, goneMs }) =>
          beganMs <= goneMs + noticedWithinMs && endedMs >= atMs && endedMs - goneMs < seenWithinMs,
      );
    world.count("lost", lost.length);
    await world.expectAllFree(await world.gateway.key(account, "0"));
    return lost
      .filter((one) => !isOfKill(one))
      .map(({ answer, beganMs, endedMs }) => {
        const last = kills.findLast(({ atMs }) => atMs <= endedMs);
        const sinceMs = beganMs - (last?.goneMs ?? 0);
        return `a request was lost that began ${sinceMs} ms after the end of a process, within ${endedMs - beganMs} ms: ${JSON.stringify(answer)}`;
      });
  },
  least: (seconds) => ({ kills: seconds / 2, whole: seconds * 10 }),
});

async function play({ world, key, lost }: KillSetup, _: Chance, number: number): Promise<void> {
  const { gateway } = world;
  const { begun, seen, whole, refusals } = await sendMixedLoad(gateway, key, {
    requests: requestsAPlay,
    ways: everyWay,
    atOnce: requestsAtOnce,
    isOver: () => performance.now() >= world.endMs,
    seen: () => undefined,
    ended(request) {
      if (request.answer?.due === undefined) lost.push(request);
    },
  });
  gateway.auditor.seen.push(...cutByCrash(seen));
  world.problems.push(
    ...refusals.map((status) => `play ${number}: a request was refused with ${status}`),
  );
  world.count("begun", begun);
  world.count("whole", whole.length);
}

async function killEachSecond(
  { world, seed, kills }: KillSetup,
  isOver: () => boolean,
): Promise<void> {
  const chance = chanceOf(seed, -1);
  const { port, gateway } = world;
  const count = servingProcesses(gateway).length;
  while (!isOver()) {
    await Bun.sleep(killEveryMs * (0.5 + chance.below(100) / 100));
    // The others must serve meanwhile.
    await until("all processes listen", () => listenersAt(port) === count, startedWithinMs);
    const victim = chance.pick(servingProcesses(gateway));
    const atMs = performance.now();
    process.kill(victim, "SIGKILL");
    await until("the process is gone", () => parentOf(victim) === undefined);
    kills.push({ atMs, goneMs: performance.now() });
    world.count("kills");
  }
}
