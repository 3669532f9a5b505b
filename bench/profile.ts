// Where the gateway's main thread spends its time, by area and by function:
//
//   bun bench/profile.ts [--model json|stream-20|paced-8000|...] [--at-once 64] [--body-bytes 2000 [--agent]]
//     [--seconds 20]
//
// The models are those of bench/gateway/provider.ts. The gateway runs from its source under `bun --cpu-prof`,
// which samples the main thread and counts the time in which other processes had its core. The Worker that
// writes is not in it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { startTollgate, stop } from "./gateway/contestants.ts";
import { selfTimes, type CpuProfile, type Spent } from "./gateway/cpuProfile.ts";
import { endAll } from "./gateway/processes.ts";
import { callOf, throwFailure } from "./gateway/turn.ts";
import { Load, startProvider } from "./gateway/workers.ts";

/** Until the code is compiled. */
const WARM_UP_MS = 10_000;
const FUNCTIONS_SHOWN = 60;
const PROFILE = "tollgate.cpuprofile";

const { values } = parseArgs({
  options: {
    model: { type: "string", default: "json" },
    "at-once": { type: "string", default: "64" },
    seconds: { type: "string", default: "20" },
    "body-bytes": { type: "string", default: "2000" },
    agent: { type: "boolean", default: false },
  },
});

const folder = mkdtempSync(join(tmpdir(), "tollgate-profile-"));
try {
  const [provider, other, load] = await Promise.all([
    startProvider(),
    startProvider(),
    Load.start(),
  ]);
  const root = resolve(import.meta.dir, "..");
  const flags = ["--cpu-prof", `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${PROFILE}`];
  const program = [process.execPath, ...flags, join(root, "src/main.ts")];
  const startedMs = performance.now();
  const ground = { folder, provider, other };
  const binary = join(root, "dist/tollgate");
  const tollgate = await startTollgate("tollgate", binary, ground, { program });
  const atOnce = Number(values["at-once"]);
  await load.give({
    kind: "loop",
    atOnce,
    ...callOf(tollgate, {
      model: values.model,
      bodyBytes: Number(values["body-bytes"]),
      isAgent: values.agent,
    }),
  });
  await Bun.sleep(WARM_UP_MS);
  const before = (await load.give({ kind: "sample" })).counters;
  const fromUs = (performance.now() - startedMs) * 1000;
  await Bun.sleep(Number(values.seconds) * 1000);
  const { counters } = await load.give({ kind: "stop" });
  throwFailure(tollgate, counters);
  await stop(tollgate);
  const profile = (await Bun.file(join(folder, PROFILE)).json()) as CpuProfile;
  const isStream = counters.events > 0;
  const units = isStream ? counters.events - before.events : counters.answers - before.answers;
  console.log(`${units} ${isStream ? "events" : "answers"}; us for each:\n`);
  print(selfTimes(profile, fromUs), units);
} finally {
  await endAll();
  rmSync(folder, { recursive: true, force: true });
}

function print(functions: readonly Spent[], units: number): void {
  const areas = new Map<string, number>();
  for (const { area, us } of functions) areas.set(area, (areas.get(area) ?? 0) + us);
  const perUnit = (us: number): string => (us / units).toFixed(2).padStart(8);
  for (const [area, us] of [...areas].toSorted((a, b) => b[1] - a[1])) {
    console.log(`${perUnit(us)}  ${area}`);
  }
  console.log("");
  for (const { area, name, place, us } of functions.slice(0, FUNCTIONS_SHOWN)) {
    console.log(`${perUnit(us)}  ${name}  ${place}  [${area}]`);
  }
}
