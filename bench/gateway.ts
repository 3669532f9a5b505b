// The cost of the gateway compared with others, all in one run on this machine:
//
//   bun bench/gateway.ts [--quick] [--rounds N] [--only PART,PART] [--floor] [--against BINARY] [--processes N,N]
//     [--postgres own|URL] [--busbar BINARY] [--litellm BINARY] [--file RESULTS.json]
//
// The quick form takes two minutes on an idle machine, the whole about twenty.
//
// It builds the executable, starts a provider, nginx as a plain proxy, Tollgate as an operator runs it (balances
// charged with durability "power", every request logged to a file), a Bun server that commits one row for each
// answer and does nothing else, and Portkey's gateway, and lets them take turns under one load. Figures are CPU
// time of whole processes; those of one run may be compared with each other, and with no others. --against adds
// another build of Tollgate, to see what a change is worth; --floor adds Bun's server without the row. --processes
// adds this build with so many serving processes. --busbar and --litellm add the executables of these gateways, which do not
// come with this project.
//
// --postgres adds Tollgate on PostgreSQL, and counts the transactions of its server. "own" starts a server whose commits are
// on the disk, and adds the other build on it as well. A URL names an empty database for this build; nothing else may use
// its server meanwhile. The parts idle, start and bulk start gateways anew, and are measured on SQLite only.
//
// It prints what it cannot measure.
import { SQL } from "bun";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { cpus, release, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { PostgresServer } from "../test/support/servers/postgres.ts";
import { countTransactions, createDatabase, startDurableServer } from "./fleet/durableServer.ts";
import type { Bench, Effort } from "./gateway/bench.ts";
import {
  auditTollgate,
  startBunWithRow,
  startNginx,
  startPlainBun,
  startTollgate,
  type Contestant,
  type Ground,
} from "./gateway/contestants.ts";
import { measureJson, measureStreams, measureTls } from "./gateway/cost.ts";
import { Figures } from "./gateway/figures.ts";
import {
  measureFirstByte,
  measureLatency,
  measureOpening,
  measureSilence,
} from "./gateway/latency.ts";
import { measureBulk, measureIdle, type Start } from "./gateway/memory.ts";
import { endAll, openFilesMax } from "./gateway/processes.ts";
import { startBusbar, startLitellm, startPortkey } from "./gateway/products.ts";
import { reportOf } from "./gateway/report.ts";
import { watch } from "./gateway/turn.ts";
import { Load, startProvider } from "./gateway/workers.ts";
import { startsMs } from "./start.ts";

const quick: Effort = {
  isQuick: true,
  rounds: 3,
  warmMs: 250,
  windowMs: 500,
  warmUpAnswers: 8000,
  slowWarmUpShare: 0.1,
};
/** The gateway of today is compiled by Bun after some 20,000 requests, and then stays as fast as it is. */
const thorough: Effort = {
  isQuick: false,
  rounds: 7,
  warmMs: 500,
  windowMs: 2500,
  warmUpAnswers: 25_000,
  slowWarmUpShare: 1,
};
const EVENTS_FOR_AN_ANSWER = 4;
/** Events that arrive one by one before any of them is measured, in the quick form too. */
const PACED_EVENTS = 25_000;
const STARTS = 10;

const projectRoot = resolve(import.meta.dir, "..");

/**
 * A `replica` is Tollgate on PostgreSQL. A `slow` contestant takes part in fewer rounds. A `rowKeeper` takes part only where
 * a commit matters.
 */
type Kind = "tollgate" | "replica" | "fast" | "slow" | "rowKeeper";

/** How one contestant is started: each time in a new folder. */
interface Entrant {
  readonly name: string;
  readonly kind: Kind;
  readonly binary: string;
  start(ground: Ground): Promise<Contestant>;
}

interface Part {
  readonly name: string;
  readonly inQuick: boolean;
  run(): Promise<void>;
}

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    only: { type: "string" },
    floor: { type: "boolean", default: false },
    against: { type: "string" },
    processes: { type: "string", default: "" },
    postgres: { type: "string" },
    busbar: { type: "string" },
    litellm: { type: "string" },
    file: { type: "string" },
  },
});
const notes: string[] = [];
let ownServer: PostgresServer | undefined;
const folder = mkdtempSync(join(tmpdir(), "tollgate-bench-"));

function note(words: string): void {
  notes.push(words);
  console.error(`not measured: ${words}`);
}

async function entrants(): Promise<Entrant[]> {
  const builds = [["tollgate", join(projectRoot, "dist", "tollgate")]];
  if (values.against) builds.push(["other build", resolve(values.against)]);
  const found = builds.map<Entrant>(([name = "", binary = ""]) => ({
    name,
    binary,
    kind: "tollgate",
    start: (ground) => startTollgate(name, binary, ground),
  }));
  const [[, own = ""] = []] = builds;
  for (const processes of values.processes.split(",").filter(Boolean).map(Number)) {
    const name = `${processes} processes`;
    const start = (ground: Ground) => startTollgate(name, own, ground, { processes });
    found.push({ name, binary: own, kind: "tollgate", start });
  }
  found.push(...(await replicas(found)));
  const nginx = Bun.which("nginx", { PATH: `${process.env["PATH"] ?? ""}:/usr/sbin` });
  if (nginx === null) note("nginx, which is not installed: apt-get install -y nginx-light");
  else {
    const start = (ground: Ground) => startNginx(nginx, ground);
    found.unshift({ name: "nginx", kind: "fast", binary: nginx, start });
  }
  const bun = process.execPath;
  if (values.floor)
    found.push({ name: "plain Bun", kind: "fast", binary: bun, start: startPlainBun });
  found.push({ name: "Bun and a row", kind: "rowKeeper", binary: bun, start: startBunWithRow });
  const node = Bun.which("node");
  if (node === null) note("Portkey's gateway, which needs Node");
  else {
    const start = (ground: Ground) => startPortkey(node, ground);
    found.push({ name: "portkey", kind: "slow", binary: node, start });
  }
  const { busbar, litellm } = values;
  if (busbar) {
    const start = (ground: Ground) => startBusbar(resolve(busbar), ground);
    found.push({ name: "busbar", kind: "fast", binary: busbar, start });
  }
  if (litellm) {
    const start = (ground: Ground) => startLitellm(resolve(litellm), ground);
    found.push({ name: "litellm", kind: "slow", binary: litellm, start });
  }
  return found;
}

/** The builds on PostgreSQL, as --postgres asks for them. Each has a database of its own. */
async function replicas(builds: readonly Entrant[]): Promise<Entrant[]> {
  const { postgres } = values;
  if (postgres === undefined) return [];
  if (postgres !== "own") return builds.slice(0, 1).map((build) => replica(build, postgres));
  const server = (ownServer = await startDurableServer());
  return await Promise.all(
    builds.map(async (build, at) => replica(build, await createDatabase(server, `bench_${at}`))),
  );
}

function replica(build: Entrant, databaseUrl: string): Entrant {
  const name = `${build.name} on PostgreSQL`;
  const start = async (ground: Ground): Promise<Contestant> => {
    const contestant = await startTollgate(name, build.binary, ground, { databaseUrl });
    const sql = new SQL(databaseUrl, { max: 1 });
    const readCounts = async () => ({ transactions: await countTransactions(sql) });
    return { ...contestant, readCounts };
  };
  return { name, binary: build.binary, kind: "replica", start };
}

async function run(): Promise<void> {
  const build = Bun.spawnSync([process.execPath, "scripts/build.ts"], { cwd: projectRoot });
  if (!build.success) throw new Error(`the build failed: ${build.stderr.toString()}`);
  const [provider, other, load] = await Promise.all([
    startProvider(),
    startProvider(),
    Load.start(),
  ]);
  let grounds = 0;
  const ground = (): Ground => {
    const place = join(folder, String((grounds += 1)));
    mkdirSync(place);
    return { folder: place, provider, other };
  };

  const ofAll = ground();
  const started: { entrant: Entrant; contestant: Contestant }[] = [];
  for (const entrant of await entrants()) {
    try {
      started.push({ entrant, contestant: await entrant.start(ofAll) });
    } catch (error) {
      if (entrant.kind === "tollgate") throw error;
      note(`${entrant.name}: ${String(error)}`);
    }
  }
  const contestants = started.map(({ contestant }) => contestant);
  const files = started.filter(({ entrant }) => entrant.kind === "tollgate");
  const tollgates = started.filter(
    ({ entrant: { kind } }) => kind === "tollgate" || kind === "replica",
  );
  const ofKind = (...kinds: readonly Kind[]): Contestant[] =>
    started
      .filter(({ entrant }) => kinds.includes(entrant.kind))
      .map(({ contestant }) => contestant);
  const figures = new Figures();
  const effort = values.quick ? quick : thorough;
  const bench: Bench = {
    effort: { ...effort, rounds: values.rounds ? Number(values.rounds) : effort.rounds },
    figures,
    load,
    fast: ofKind("tollgate", "replica", "fast"),
    rowKeepers: ofKind("rowKeeper"),
    slow: ofKind("slow"),
    tollgates: ofKind("tollgate", "replica"),
    note,
  };
  const anew = started
    .filter(({ entrant: { kind } }) => kind !== "rowKeeper" && kind !== "replica")
    .filter(({ entrant }) => !values.quick || entrant.kind === "tollgate")
    .map<Start>(
      ({ entrant }) =>
        () =>
          entrant.start(ground()),
    );
  const bare: Contestant = {
    name: "provider",
    child: provider.child,
    port: provider.port,
    secure: undefined,
    headers: "",
    manyHeaders: [],
  };

  for (const contestant of contestants) await warmUp(bench, contestant);
  let idle: Awaited<ReturnType<typeof measureIdle>> | undefined;
  await runParts(load, [
    {
      name: "idle",
      inQuick: true,
      run: async () => {
        idle = await measureIdle(bench, anew);
      },
    },
    { name: "json", inQuick: true, run: () => measureJson(bench) },
    { name: "streams", inQuick: true, run: () => measureStreams(bench) },
    { name: "tls", inQuick: false, run: () => measureTls(bench) },
    { name: "latency", inQuick: true, run: () => measureLatency(bench, bare) },
    {
      name: "firstbyte",
      inQuick: true,
      run: async () => {
        await measureOpening(bench, bare);
        await measureFirstByte(bench);
      },
    },
    { name: "silence", inQuick: false, run: () => measureSilence(bench, bare) },
    { name: "start", inQuick: true, run: () => measureStart(bench, files) },
    { name: "bulk", inQuick: true, run: () => measureBulk(bench, anew) },
  ]);
  await idle?.rest();
  console.log(
    reportOf(
      figures,
      ["provider", ...contestants.map(({ name }) => name)],
      tollgates.map(({ entrant }) => entrant.name),
    ),
  );
  for (const { entrant } of tollgates) {
    console.log(`\n${entrant.name}: ${auditTollgate(entrant.name, entrant.binary, ofAll)}`);
  }
  for (const words of notes) console.log(`not measured: ${words}`);
  await save(figures);
}

/** Code that has rarely run is slow, and is compiled meanwhile; both would be measured. */
async function warmUp({ load, slow, effort }: Bench, contestant: Contestant): Promise<void> {
  const share = slow.includes(contestant) ? effort.slowWarmUpShare : 1;
  const countMin = effort.warmUpAnswers * share;
  const shared = { atOnce: 64, warmMs: 0, windowMs: 100 };
  await watch(load, contestant, { ...shared, model: "json", countMin });
  const events = countMin * EVENTS_FOR_AN_ANSWER;
  await watch(load, contestant, { ...shared, model: "stream-20", countMin: events });
  // Events that come one by one take another way than those that come together.
  const paced = slow.includes(contestant) ? "paced-2000" : "paced-8000";
  await watch(load, contestant, { ...shared, model: paced, countMin: PACED_EVENTS * share });
}

async function runParts(load: Load, parts: readonly Part[]): Promise<void> {
  const asked = values.only?.split(",");
  const unknown = asked?.filter((name) => !parts.some((part) => part.name === name)) ?? [];
  if (unknown.length > 0) {
    throw new Error(`no part ${unknown.join(", ")}: ${parts.map(({ name }) => name).join(", ")}`);
  }
  for (const part of parts) {
    if (!(asked?.includes(part.name) ?? (part.inQuick || !values.quick))) {
      if (!asked) note(`${part.name}: left out of the quick form`);
      continue;
    }
    const startedMs = performance.now();
    await part.run().catch(async (error: unknown) => {
      note(`the rest of ${part.name}: ${String(error)}`);
      await load.give({ kind: "stop" });
    });
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
    console.error(`${part.name}: ${seconds} s`);
  }
}

async function measureStart(
  { figures }: Bench,
  tollgates: readonly { readonly entrant: Entrant }[],
): Promise<void> {
  const binaries = tollgates.map(({ entrant }) => entrant.binary);
  for (const [at, each] of (await startsMs(binaries, STARTS)).entries()) {
    for (const ms of each) figures.add("start ms", tollgates[at]?.entrant.name ?? "", ms);
  }
}

async function save(figures: Figures): Promise<void> {
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
  const file = values.file ?? join(import.meta.dir, "results", `gateway-${stamp}.json`);
  mkdirSync(dirname(resolve(file)), { recursive: true });
  const revision = Bun.spawnSync(["git", "rev-parse", "HEAD"], { cwd: projectRoot });
  const machine = {
    processor: cpus()[0]?.model,
    cores: cpus().length,
    system: `${process.platform} ${release()}`,
    openFilesMax: openFilesMax(),
    bun: Bun.version,
    revision: revision.stdout.toString().trim(),
  };
  const arguments_ = process.argv.slice(2);
  await Bun.write(
    file,
    `${JSON.stringify({ taken: stamp, arguments: arguments_, machine, notes, figures }, null, 1)}\n`,
  );
  console.log(`\nraw figures: ${file}`);
}

async function leave(status: number): Promise<never> {
  await endAll();
  await ownServer?.close();
  rmSync(folder, { recursive: true, force: true });
  process.exit(status);
}

if (process.platform !== "linux") {
  console.error("the figures are read from /proc, which only Linux has");
  process.exit(1);
}
process.on("SIGINT", () => void leave(130));
process.on("SIGTERM", () => void leave(143));
try {
  await run();
} catch (error) {
  console.error(error);
  await leave(1);
}
await leave(0);
