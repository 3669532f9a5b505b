import { chanceOf } from "../fuzz/chance.ts";
import type { IsolationSetup } from "./setup.ts";
import { readAccounts, type AccountsSeen } from "./accounts.ts";
import { runConnection, type IsolationTally } from "./clients.ts";
import type { PoisonCounts } from "./poisonedProvider.ts";
import { sendBurstWithPoison } from "./burst.ts";

/** The result of a run; `problems` is empty if all is well. */
export interface IsolationSeen extends IsolationTally, Omit<AccountsSeen, "problems"> {
  readonly seed: number;
  readonly seconds: number;
  readonly provider: PoisonCounts;
}

const connectionsAtOnce = 40;
/** A run that finds this much ends early. */
const problemsMax = 20;
const quietTimeoutMs = 15_000;
const burstPart = 1_000_000;

/** Sends this number of requests for all tenants together, then checks the account of each. */
export async function mixTenants(
  setup: IsolationSetup,
  { seed, requests }: { readonly seed: number; readonly requests: number },
): Promise<IsolationSeen> {
  const startedMs = performance.now();
  const tally: IsolationTally = {
    requests: 0,
    connections: 0,
    answers: {},
    left: 0,
    unanswered: 0,
    problems: [],
  };
  const isOver = (): boolean => tally.requests >= requests || tally.problems.length >= problemsMax;
  const failed = (name: string) => (error: unknown) =>
    tally.problems.push(`${name}: ${error instanceof Error ? error.stack : String(error)}`);
  const runConnections = async (): Promise<void> => {
    while (!isOver()) {
      const number = tally.connections;
      const name = `seed ${seed}, connection ${number}`;
      await runConnection(setup, chanceOf(seed, number), tally, name).catch(failed(name));
    }
  };
  // Each lane once: afterwards the gateway keeps no connection of it.
  const bursts = async (): Promise<void> => {
    for (const [at, lane] of setup.lanes.entries()) {
      const due = (requests * (at + 1)) / (setup.lanes.length + 1);
      while (tally.requests < due && !isOver()) await Bun.sleep(1);
      const chance = chanceOf(seed, burstPart + at);
      await sendBurstWithPoison(setup, lane, chance, tally).catch(failed(`a rush on ${lane.id}`));
    }
  };
  await Promise.all([bursts(), ...Array.from({ length: connectionsAtOnce }, runConnections)]);
  await atRest(setup);
  const { problems, ...accounts } = await readAccounts(setup);
  tally.problems.push(...setup.provider.problems, ...problems);
  return {
    seed,
    ...tally,
    provider: setup.provider.counts,
    ...accounts,
    seconds: Math.round((performance.now() - startedMs) / 1000),
  };
}

/** Requests of disconnected clients may still be running. */
async function atRest({ gateway }: IsolationSetup): Promise<void> {
  const deadlineMs = performance.now() + quietTimeoutMs;
  const running = () => gateway.cli.json("requests", "--status", "running");
  while (((await running()) as unknown[]).length > 0)
    if (performance.now() > deadlineMs) throw new Error("requests are still running");
}
