// What several serving processes bring: CPU time of a JSON request by process, and how many requests the busiest thread of
// each kind allows.
//
//   bun bench/processes.ts [--counts 1,2,4] [--rounds N] [--seconds N] [--keys many]
//
// All forms take turns under one load, after each has answered enough for its code to be compiled. "by threads" is what the
// busiest thread of the serving processes and the writer's thread would allow if each had a core of its own: it is the paper
// figure for machines with more cores than this one.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { auditTollgate, startTollgate, type Contestant } from "./gateway/contestants.ts";
import { endAll } from "./gateway/processes.ts";
import { watch } from "./gateway/turn.ts";
import { Load, startProvider } from "./gateway/workers.ts";

const { values } = parseArgs({
  options: {
    counts: { type: "string", default: "1,2,4" },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "5" },
    keys: { type: "string", default: "one" },
  },
});

const AT_ONCE = 64;
const WARM_SECONDS = 15;
/** The unit of CPU time in /proc. */
const TICK_US = 10_000;
const binary = join(import.meta.dir, "../dist/tollgate");

interface Form {
  readonly count: number;
  readonly contestant: Contestant;
}

/** CPU time of each thread of the gateway, in microseconds, by process and thread. */
function threads(pid: number): Map<string, number> {
  const found = new Map<string, number>();
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1");
  for (const process of [pid, ...children.split(" ").filter(Boolean).map(Number)])
    for (const thread of readdirSync(`/proc/${process}/task`)) {
      const text = readFileSync(`/proc/${process}/task/${thread}/stat`, "latin1");
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      const usedUs = (Number(fields[11]) + Number(fields[12])) * TICK_US;
      found.set(`${process === pid ? "main" : process}/${thread}`, usedUs);
    }
  return found;
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? 0;
}

const folder = mkdtempSync(join(tmpdir(), "tollgate-bench-"));
try {
  const [provider, load] = await Promise.all([startProvider(), Load.start()]);
  const ground = { folder, provider, other: provider };
  const forms: Form[] = [];
  for (const count of values.counts.split(",").map(Number)) {
    mkdirSync(folder, { recursive: true });
    const name = `${count} processes`;
    forms.push({
      count,
      contestant: await startTollgate(name, binary, ground, { processes: count }),
    });
  }
  const turn = { model: "json", atOnce: AT_ONCE, manyKeys: values.keys === "many" };
  for (const { count, contestant } of forms)
    await watch(load, contestant, {
      ...turn,
      warmMs: 0,
      windowMs: WARM_SECONDS * 1000 * Math.max(1, count / 2),
    });
  const rows = new Map<number, Record<string, number>[]>();
  for (let round = 0; round < Number(values.rounds); round += 1)
    for (const { count, contestant } of forms) {
      const { pid } = contestant.child;
      const before = threads(pid);
      const startedMs = performance.now();
      const { answers, cpuUs, elapsedMs } = await watch(load, contestant, {
        ...turn,
        warmMs: 500,
        windowMs: Number(values.seconds) * 1000,
      });
      // The threads were read over the warm time too.
      const share = elapsedMs / (performance.now() - startedMs);
      const used = [...threads(pid)].map(([name, us]) => {
        return { name, us: ((us - (before.get(name) ?? 0)) * share) / answers };
      });
      const ofMain = used.filter(({ name }) => name.startsWith("main"));
      const serving = count === 1 ? ofMain : used.filter(({ name }) => !name.startsWith("main"));
      const busiest = Math.max(...serving.map(({ us }) => us));
      const writer = count === 1 ? 0 : Math.max(...ofMain.map(({ us }) => us));
      const row = {
        "a second": (answers * 1000) / elapsedMs,
        "CPU us": cpuUs / answers,
        "main process": count === 1 ? 0 : ofMain.reduce((sum, { us }) => sum + us, 0),
        "busiest serving thread": busiest,
        "by threads, a second": 1e6 / Math.max(busiest, writer),
      };
      rows.set(count, [...(rows.get(count) ?? []), row]);
    }
  const shown = [...rows].map(([count, of]) => {
    const names = Object.keys(of[0] ?? {});
    const medians = names.map((name): [string, number] => {
      return [name, Math.round(median(of.map((row) => row[name] ?? 0)))];
    });
    return Object.fromEntries([["processes", count], ...medians]);
  });
  console.table(shown);
  for (const { contestant } of forms) {
    contestant.child.kill("SIGTERM");
    await contestant.child.exited;
    console.log(`${contestant.name}: ${auditTollgate(contestant.name, binary, ground)}`);
  }
  await load.end();
} finally {
  await endAll();
  rmSync(folder, { recursive: true, force: true });
}
