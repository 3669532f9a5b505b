import { readFileSync } from "node:fs";
import type { Chance } from "../fuzz/chance.ts";
import { until } from "../until.ts";
import type { IsolationSetup, Lane } from "./setup.ts";
import { connectClient, hear, disconnect, send, type IsolationTally } from "./clients.ts";
import { asking } from "./question.ts";
import { everyForm } from "./tag.ts";
import { several } from "../several.ts";

const RUSHING = 6;
/** So long nothing is under way in a lane before it counts as quiet: somebody who left may still have asked. */
const quietMs = 200;
/** So long the provider hears out what the gateway wrote before it was stopped. */
const heardOutMs = 3;

/**
 * Lets a lane come to rest, stops the gateway, and sends bytes that nobody asked for on its kept connections, amid new
 * requests: as it goes on, the gateway finds all of it at once. The bytes were there before any of the requests was
 * written, so they are no answer to them.
 */
export async function sendBurstWithPoison(
  setup: IsolationSetup,
  lane: Lane,
  chance: Chance,
  tally: IsolationTally,
): Promise<void> {
  const { gateway, provider, tenants } = setup;
  lane.isResting = true;
  await quiet(setup, lane);
  const name = `a rush on ${lane.id}`;
  const clients = await Promise.all(several(RUSHING, () => connectClient(setup, tally, name)));
  gateway.signal("SIGSTOP");
  try {
    await until("the gateway is stopped", () => stateOf(gateway.pid) === "T");
    await Bun.sleep(heardOutMs);
    const [first, second] = [clients.slice(0, RUSHING / 2), clients.slice(RUSHING / 2)];
    const ask = (client: (typeof clients)[number]): void =>
      send(client, asking(setup, chance.pick(tenants), chance.pick(everyForm), chance, lane));
    first.forEach(ask);
    provider.poison(lane.id);
    second.forEach(ask);
    await Bun.sleep(heardOutMs);
  } finally {
    gateway.signal("SIGCONT");
    lane.isResting = false;
  }
  await Promise.all(
    clients.map(async (client) => {
      if (!(await hear(client))) tally.problems.push(`${name}: no answer`);
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

/** https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: the letter behind the name in brackets. */
function stateOf(pid: number): string | undefined {
  return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.[0];
}
