// What small requests and open streams notice of another account's large bodies:
//
//   bun run build && bun bench/neighbour.ts [--rounds N] [--seconds S] [--clients 0,1,16] [--against BINARY]
//
// Clients of one account send bodies of 2 MB as coding agents send them, each client one after the other over one connection. Meanwhile another account
// sends small JSON requests at a modest rate and has streams open, whose events come at a fixed pace. The table shows how long
// an answer takes and how late an event arrives. nginx and every build of Tollgate take turns in one run. The provider, both
// load generators and the contestants share the machine, so nginx shows what the machine itself adds.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  auditTollgate,
  startNginx,
  startTollgate,
  type Contestant,
  type Ground,
} from "./gateway/contestants.ts";
import { Figures, quantile } from "./gateway/figures.ts";
import { endAll } from "./gateway/processes.ts";
import { shown, table } from "./gateway/report.ts";
import { callOf, throwFailure, untilBegun, watch } from "./gateway/turn.ts";
import { Load, startProvider } from "./gateway/workers.ts";

const LARGE_BODY_BYTES = 2_000_000;
const PER_SECOND = 100;
const STREAMS = 8;
/** 200 events a second in all. */
const STREAM_MODEL = "timed-200";
const WARM_UP_ANSWERS = 8000;
const WARM_UP_LARGE_ANSWERS = 50;
/** A window may hold fewer answers than a turn of bench/gateway.ts waits for. */
const COUNT_MIN = 1;

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "4" },
    clients: { type: "string", default: "0,1,16" },
    against: { type: "string" },
  },
});
const clientCounts = values.clients.split(",").map(Number);
const folder = mkdtempSync(join(tmpdir(), "tollgate-neighbour-"));

/** The two load generators: of the account that sends large bodies, and of the other one. */
interface Loads {
  readonly large: Load;
  readonly small: Load;
}

const kinds = [
  ["small answer, p50", "ms"],
  ["small answer, p99", "ms"],
  ["event late, p50", "ms"],
  ["event late, p99", "ms"],
  ["large bodies", "a second"],
] as const;

/** The large bodies have an account of their own, where a contestant has accounts. */
function largeCall(contestant: Contestant) {
  const headers = contestant.manyHeaders[0] ?? contestant.headers;
  return callOf(
    { ...contestant, headers },
    {
      model: "json",
      bodyBytes: LARGE_BODY_BYTES,
      isAgent: true,
    },
  );
}

async function takeTurn(
  { large, small }: Loads,
  contestant: Contestant,
  clients: number,
  figures: Figures,
): Promise<void> {
  const toLarge = largeCall(contestant);
  const toSmall = callOf(contestant, { model: "json" });
  // The last turn: requests of a later one would end these streams.
  const toStreams = callOf(contestant, { model: STREAM_MODEL });
  const ask = { kind: "rate", perSecond: PER_SECOND, ...toSmall } as const;
  await small.give({ kind: "loop", atOnce: STREAMS, isTimed: true, ...toStreams });
  await untilBegun(small, STREAMS);
  if (clients > 0) await large.give({ kind: "loop", atOnce: clients, ...toLarge });
  await small.give({ ...ask, count: PER_SECOND });
  await small.give({ kind: "sample" });
  const before = (await large.give({ kind: "sample" })).counters.answers;
  const startedMs = performance.now();
  const { rate } = await small.give({ ...ask, count: PER_SECOND * Number(values.seconds) });
  const { eventMs = [] } = await small.give({ kind: "sample" });
  const seconds = (performance.now() - startedMs) / 1000;
  const after = await large.give({ kind: "stop" });
  throwFailure(contestant, after.counters);
  throwFailure(contestant, (await small.give({ kind: "stop" })).counters);
  const answerMs = rate?.totalMs ?? [];
  const found = [
    quantile(answerMs, 0.5),
    quantile(answerMs, 0.99),
    quantile(eventMs, 0.5),
    quantile(eventMs, 0.99),
    (after.counters.answers - before) / seconds,
  ];
  for (const [at, [kind]] of kinds.entries()) {
    figures.add(`${kind}, ${clients} clients`, contestant.name, found[at] ?? NaN);
  }
}

/** Code that has rarely run is slow, and is compiled meanwhile; both would be measured. */
async function warmUp({ large, small }: Loads, contestant: Contestant): Promise<void> {
  const turn = { atOnce: 64, warmMs: 0, windowMs: 100, model: "json" };
  await watch(small, contestant, { ...turn, countMin: WARM_UP_ANSWERS });
  const warming = { ...turn, atOnce: 4, bodyBytes: LARGE_BODY_BYTES, isAgent: true };
  await watch(large, contestant, { ...warming, countMin: WARM_UP_LARGE_ANSWERS });
  const streams = { ...turn, model: "stream-20", countMin: WARM_UP_ANSWERS * 4 };
  await watch(small, contestant, streams);
  const timed = { ...turn, model: STREAM_MODEL, atOnce: STREAMS, windowMs: 1000 };
  await watch(small, contestant, { ...timed, countMin: COUNT_MIN });
}

async function measure(): Promise<void> {
  const builds = [["tollgate", resolve(import.meta.dir, "../dist/tollgate")]];
  if (values.against) builds.push(["other build", resolve(values.against)]);
  const [provider, other] = await Promise.all([startProvider(), startProvider()]);
  const [large, small] = await Promise.all([Load.start(), Load.start()]);
  const loads = { large, small };
  const ground: Ground = { folder: join(folder, "ground"), provider, other };
  mkdirSync(ground.folder);
  const contestants: Contestant[] = [];
  const nginx = Bun.which("nginx", { PATH: `${process.env["PATH"] ?? ""}:/usr/sbin` });
  if (nginx === null) console.log("not measured: nginx, which is not installed");
  else contestants.push(await startNginx(nginx, ground));
  for (const [name = "", binary = ""] of builds) {
    contestants.push(await startTollgate(name, binary, ground));
  }
  for (const contestant of contestants) await warmUp(loads, contestant);
  const figures = new Figures();
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const clients of clientCounts) {
      for (const contestant of contestants) await takeTurn(loads, contestant, clients, figures);
    }
  }
  const rows = clientCounts.flatMap((clients) =>
    kinds.map(([name, unit]) => {
      const kind = `${name}, ${clients} clients`;
      const medians = contestants.map((contestant) => figures.median(kind, contestant.name));
      return [kind, unit].concat(medians.map(shown));
    }),
  );
  const head = ["medians of the rounds", "", ...contestants.map(({ name }) => name)];
  console.log(table(head, rows));
  for (const [name = "", binary = ""] of builds) {
    console.log(`\n${name}: ${auditTollgate(name, binary, ground)}`);
  }
}

try {
  await measure();
} finally {
  await endAll();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
