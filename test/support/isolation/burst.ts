import { readFileSync } from "node:fs";
import type { Chance } from "../fuzz/chance.ts";
import { until } from "../until.ts";
import type { IsolationSetup, Lane } from "./setup.ts";
import { connectClient, readNextAnswer, disconnect, send, type IsolationTally } from "./clients.ts";
import { questionFor } from "./question.ts";
import { everyForm } from "./tag.ts";
import { several } from "../several.ts";

const BURST_CLIENTS = 6;
/** A lane is quiet after this time without requests in flight: a disconnected client may have sent one. */
const quietMs = 200;
/** The time in which the provider reads what the gateway wrote before it was stopped. */
const providerReadMs = 3;

/**
 * Waits until a lane is quiet, stops the gateway with SIGSTOP, and sends unsolicited bytes on its kept connections, between new
 * requests. The gateway reads all of it at once after SIGCONT. The bytes arrived before any of the requests was
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
  const clients = await Promise.all(
    several(BURST_CLIENTS, () => connectClient(setup, tally, name)),
  );
  gateway.signal("SIGSTOP");
  try {
    await until("the gateway is stopped", () => stateOf(gateway.pid) === "T");
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
      if (!(await readNextAnswer(client))) tally.problems.push(`${name}: no answer`);
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
