import { readFileSync } from "node:fs";
import { chanceOf, type Chance } from "../seededRandom.ts";
import { several } from "../several.ts";
import { until } from "../until.ts";
import { inWorld } from "../world/script.ts";
import { accountProblems } from "./accounts.ts";
import { connectClient, disconnect, readNextAnswer, runConnection, send } from "./clients.ts";
import { questionFor, questionKinds } from "./question.ts";
import { openIsolation, type IsolationSetup, type Lane } from "./setup.ts";
import { everyForm } from "./tag.ts";

const BURST_CLIENTS = 6;
/** A lane is quiet after this time without requests in flight: a disconnected client may have sent one. */
const quietMs = 200;
/** The time in which the provider reads what the gateway wrote before it was stopped. */
const providerReadMs = 3;
/** Where the draws of the bursts begin. */
const burstPart = 1_000_000;

export const isolation = inWorld<IsolationSetup>({
  name: "isolation",
  proves:
    "of 20 accounts, with clients that disconnect and a provider that mixes up its answers: no account receives or pays for a byte of another",
  unit: "requests",
  amounts: [1000, 5000, 1_000_000],
  roundMax: 10_000,
  atOnce: 40,
  open: openIsolation,
  play: runConnection,
  beside: [sendBursts],
  async check(setup) {
    const { world, provider } = setup;
    for (const [what, count] of Object.entries(provider.counts)) world.count(what, count);
    return [...provider.problems, ...(await accountProblems(setup))];
  },
  least: (requests) => ({
    ...Object.fromEntries(questionKinds.map((kind) => [kind, requests / 100])),
    left: requests / 50,
    "exact charges": requests / 2,
    "estimated charges": requests / 200,
    reused: requests / 10,
    surplus: requests / 50,
    closed: requests / 100,
    early: requests / 250,
    unasked: requests / 250,
  }),
});

/** Each lane once: afterwards the gateway keeps no connection of it. */
async function sendBursts(setup: IsolationSetup, isOver: () => boolean): Promise<void> {
  const { world, amount, lanes } = setup;
  for (const [at, lane] of lanes.entries()) {
    const due = (amount * (at + 1)) / (lanes.length + 1);
    while (world.counted("requests") < due && !isOver()) await Bun.sleep(1);
    await sendBurstWithPoison(setup, lane, chanceOf(world.seed, burstPart + at));
  }
}

/**
 * Waits until a lane is quiet, stops the gateway with SIGSTOP, and sends unsolicited bytes on its kept connections, between new
 * requests. The gateway reads all of it at once after SIGCONT. The bytes arrived before any of the requests was
 * written, so they are no answer to them.
 */
async function sendBurstWithPoison(
  setup: IsolationSetup,
  lane: Lane,
  chance: Chance,
): Promise<void> {
  const { world, provider, tenants } = setup;
  const { gateway } = world;
  lane.isResting = true;
  await quiet(setup, lane);
  const name = `a burst on ${lane.id}`;
  const clients = await Promise.all(several(BURST_CLIENTS, () => connectClient(setup, name)));
  gateway.signal("SIGSTOP");
  try {
    await until("the gateway is stopped", () => gateway.pids.every((pid) => stateOf(pid) === "T"));
    await Bun.sleep(providerReadMs);
    const [first, second] = [clients.slice(0, BURST_CLIENTS / 2), clients.slice(BURST_CLIENTS / 2)];
    const ask = (client: (typeof clients)[number]): void =>
      send(client, questionFor(setup, chance.pick(tenants), chance.pick(everyForm), chance, lane));
    first.forEach(ask);
    provider.poison(lane.id);
    second.forEach(ask);
    await Bun.sleep(providerReadMs);
  } finally {
    gateway.signal("SIGCONT");
    lane.isResting = false;
  }
  await Promise.all(
    clients.map(async (client) => {
      if (!(await readNextAnswer(client))) world.problems.push(`${name}: no answer`);
      await disconnect(client, chance);
    }),
  );
}

async function quiet({ provider }: IsolationSetup, lane: Lane): Promise<void> {
  let sinceMs = performance.now();
  await until(`${lane.id} is quiet`, () => {
    if (lane.open > 0 || !provider.isQuiet(lane.id)) sinceMs = performance.now();
    return performance.now() - sinceMs > quietMs;
  });
}

/** https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: the letter after the name in brackets. */
function stateOf(pid: number): string | undefined {
  return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.[0];
}
