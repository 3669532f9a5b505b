import { lostCharges } from "../auditor/auditor.ts";
import { cutByCrash } from "../auditor/logs.ts";
import { sendMixedLoad } from "../binary/mixedLoad.ts";
import { startLoadProvider } from "../provider/loadProvider.ts";
import { seedMax, type Chance } from "../seededRandom.ts";
import { problemsAfterCrash } from "../store/auditProblems.ts";
import { inWorld, type Script } from "../world/script.ts";
import { diskMissing, openOnDisk, type DiskSetup } from "./diskWorld.ts";

const atCallMax = 450;
const requestsPerCut = 60;
const requestsAtOnce = 16;

export const powerCuts: readonly Script[] = [
  cutsWith("power", {
    name: "powerCuts",
    proves: "of the power under load lose no charge of a complete answer",
    amounts: [6, 20, 100],
    // Some answers must come whole before a cut.
    least: (cuts) => ({ whole: cuts * 5 }),
  }),
  cutsWith("process", {
    name: "powerCuts: careless",
    proves: "lose some with durability process, which proves that the cuts work",
    amounts: [3, 5, 100],
    least: () => ({ lost: 1 }),
  }),
];

function cutsWith(
  durability: "power" | "process",
  script: Pick<Script, "name" | "proves" | "amounts"> & {
    least(cuts: number): Readonly<Record<string, number>>;
  },
): Script {
  return inWorld<DiskSetup>({
    ...script,
    unit: "cuts",
    missing: diskMissing,
    atOnce: 1,
    isDisturbed: true,
    // What such a file has lost may be missed by a request.
    hasErrors: durability === "process",
    open: (seed) => openOnDisk(seed, startLoadProvider({ wordDelayMs: 0 }), durability),
    async play(setup, chance) {
      const { world } = setup;
      const lost = await cutPower(setup, chance);
      if (durability === "power") world.problems.push(...lost);
      world.count("lost", lost.length);
      world.count("cuts");
    },
  });
}

/** Cuts the power under load, and starts the gateway on what survived. Returns the lost charges of whole answers. */
async function cutPower({ world, disk, key }: DiskSetup, chance: Chance) {
  const { gateway } = world;
  const [atCall, seed] = [1 + chance.below(atCallMax), chance.below(seedMax)];
  await disk.tell(`cut-at ${atCall} ${seed}`);
  let isOver = false;
  const gone = gateway.ended.then(() => (isOver = true));
  const { seen, whole } = await sendMixedLoad(gateway, key, {
    requests: requestsPerCut,
    atOnce: requestsAtOnce,
    isOver: () => isOver,
    seen: () => {},
  });
  if (!isOver) await disk.tell(`cut ${seed}`).catch(() => {});
  await gone;
  await gateway.start();
  world.count("whole", whole.length);
  const lost = await lostCharges(gateway.place, cutByCrash(seen));
  world.problems.push(...(await problemsAfterCrash(gateway)));
  return lost;
}
