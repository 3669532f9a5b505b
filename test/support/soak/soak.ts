import { figuresOf } from "../world/growth.ts";
import { inWorld } from "../world/script.ts";
import { lostCharges, paidFor, strangeUsage } from "./charges.ts";
import { leaveTimeoutMs, useOnce } from "./clients.ts";
import { bookCredits, commands, reloadAgainAndAgain, runCommands } from "./operator.ts";
import { openSoak, type SoakSetup } from "./setup.ts";

/** A run of so many seconds has a machine for itself: how late the event loop is, is judged too. */
const longSeconds = 3600;
const lagMsMax = 20;

export const soak = inWorld<SoakSetup>({
  name: "soak",
  proves:
    "of use with faults, departures, reloads, credits and backups leave books, files, log and memory as they should be",
  unit: "seconds",
  amounts: [12, 20, 24 * 3600],
  atOnce: 48,
  // More than a collection leaves. A leak of a kilobyte for each of some thousand requests exceeds it.
  heapMiBMore: 6,
  open: openSoak,
  play: useOnce,
  beside: [bookCredits, reloadAgainAndAgain, runCommands],
  async leave({ idle }) {
    for (const connection of idle.splice(0)) await connection.disconnect("fin", leaveTimeoutMs);
  },
  judge: judgeSince,
  async check({ unpaid }, samples, amount) {
    const { lagMs } = figuresOf(samples);
    return [
      ...unpaid.map((id) => `${id} has no record of its end`),
      ...(amount >= longSeconds && lagMs >= lagMsMax ? [`the event loop is ${lagMs} ms late`] : []),
    ];
  },
  least: () => ({
    whole: 100,
    broken: 1,
    "400": 1,
    "502": 1,
    left: 10,
    "failed over": 5,
    reloads: 2,
    credits: 5,
    ...Object.fromEntries(commands.map((name) => [name, 1])),
  }),
});

/** Compares the answers since the last look with the database. */
async function judgeSince(setup: SoakSetup): Promise<void> {
  const { world, faulty, sound, whole, unpaid } = setup;
  const { place } = world.gateway;
  const free = await paidFor(place, unpaid.splice(0));
  unpaid.push(...free.open);
  const usage = await strangeUsage(place, setup.lastRow);
  setup.lastRow = usage.last;
  const lost = await lostCharges(place, whole.splice(0));
  world.problems.push(...lost, ...free.problems, ...usage.problems);
  faulty.forget();
  sound.forget();
}
