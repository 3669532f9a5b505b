/**
 * What a fleet of replicas asks of PostgreSQL, simulated in virtual time: `bun bench/fleet/simulate.ts`. It ends within two
 * minutes. `--zipf 0.8` spreads the load more evenly over the accounts, `--costs FILE` takes what `measure.ts` printed.
 */
import { parseArgs } from "node:util";
import { BEAT_EVERY_MS } from "../../src/store/postgres/writer/lease.ts";
import { LOOK_EVERY_MS } from "../../src/store/postgres/changes.ts";
import { SERVER_PACE } from "../../src/store/postgres/writer/writer.ts";
import { WINDOW_MS } from "../../src/store/writer/pace.ts";
import { simulateFleet, type FleetFigures } from "./fleet.ts";

interface Line {
  readonly fixed: number;
  readonly each: number;
}

type Kind = "settleOne" | "settleMany" | "row" | "end" | "touch" | "give" | "take";

/** The part of the output of `measure.ts` that is used here. */
interface Costs {
  readonly perTransaction: Readonly<Record<Kind, Record<"ms" | "cpuUs" | "walBytes", Line>>>;
  readonly heartbeatOf100Replicas: { readonly cpuUs: number; readonly walBytes: number };
  readonly look: { readonly cpuUs: number };
}

/** `bun bench/fleet/measure.ts` on two shared cores, with other work on them. */
const MEASURED: Costs = {
  perTransaction: {
    settleOne: line([0.829, 0.0251], [640, 15.8], [1030, 593]),
    settleMany: line([1.03, 0.105], [638, 86.9], [212, 1600]),
    row: line([0.631, 0.0399], [388, 31.3], [302, 740]),
    end: line([1.13, 0.121], [879, 90.4], [173, 1650]),
    touch: line([0.465, 0.0124], [264, 8.18], [169, 212]),
    give: line([0.505, 0.0372], [365, 18.5], [141, 281]),
    take: line([0.69, 0.0312], [385, 24.4], [175, 469]),
  },
  heartbeatOf100Replicas: { cpuUs: 161, walBytes: 179 },
  look: { cpuUs: 12.1 },
};

const ACCOUNTS = 1_000_000;
const REPLICAS = [2, 10, 30, 100];
const RATES = [100, 1000, 2000, 5000, 20_000];
const STICKY_REPLICAS = [10, 30, 100];
const STICKY_RATES = [1000, 5000, 20_000];
/** The mean. Half of the requests get a row before they end. */
const REQUEST_MS = 1500;
/** Over how many databases the accounts are spread, at SHARDED_RATE requests a second in all. */
const SHARDS = [1, 2, 4, 8];
const SHARDED_RATE = 4000;
const SYNCS = 1000;
const CORES = 16;
const ROUND_TRIP_MS = 0.5;
const WARM_UP_MS = 3 * REQUEST_MS;
const DAY_S = 86_400;

/** A fleet at a rate, and what its requests cost the server each second. */
interface Cell {
  readonly replicas: number;
  readonly rate: number;
  readonly figures: FleetFigures;
  readonly cpu: number;
  readonly walMb: number;
  readonly transactions: number;
}

const { values: args } = parseArgs({
  options: { zipf: { type: "string", default: "1" }, costs: { type: "string" } },
});
const costs: Costs = args.costs === undefined ? MEASURED : await Bun.file(args.costs).json();
const zipf = Number(args.zipf);

function cellOf(replicas: number, rate: number, isSticky = false): Cell {
  const { settleOne, settleMany, row, take } = costs.perTransaction;
  const figures = simulateFleet({
    replicas,
    accounts: ACCOUNTS,
    rate,
    zipf,
    requestMs: REQUEST_MS,
    balance: 10n ** 15n,
    hold: 500_000_000n,
    charge: 85_000_000n,
    isSticky,
    service: {
      // The disk of the measurement acknowledges a sync in a fraction of this.
      fixed: settleMany.ms.fixed + 1000 / SYNCS,
      eachRequest: settleOne.ms.each,
      eachAccount: settleMany.ms.each - settleOne.ms.each,
      eachRow: row.ms.each,
      eachBlock: take.ms.each,
      roundTrip: ROUND_TRIP_MS,
    },
    warmUpMs: WARM_UP_MS,
    // A small fleet needs more time for as many requests.
    measuredMs: Math.min(20_000, Math.max(1000, 10_000_000 / rate)),
    seed: 1,
  });
  const cpu = perSecond(figures, replicas, "cpuUs") / 1e6;
  const walMb = perSecond(figures, replicas, "walBytes") / 1e6;
  const transactions = figures.counts.transactions / figures.seconds;
  return { replicas, rate, figures, cpu, walMb, transactions };
}

/** CPU or WAL: transactions, what they contain, heartbeats and looks. */
function perSecond(
  { counts, seconds }: FleetFigures,
  replicas: number,
  name: "cpuUs" | "walBytes",
): number {
  const of = (kind: Kind): Line => costs.perTransaction[kind][name];
  const others = counts.transactions - counts.settling;
  const eachAccount = of("settleMany").each - of("settleOne").each;
  const sum =
    counts.settling * of("settleMany").fixed +
    others * of("take").fixed +
    counts.ended * of("settleOne").each +
    counts.charged * eachAccount +
    counts.endedLate * Math.max(0, of("end").each - of("settleMany").each) +
    counts.begun * of("row").each +
    counts.touched * of("touch").each +
    counts.given * of("give").each +
    counts.taken * of("take").each;
  const look = name === "cpuUs" ? costs.look.cpuUs : 0;
  const alone = beats(replicas) * costs.heartbeatOf100Replicas[name] + looks(replicas) * look;
  return sum / seconds + alone;
}

const beats = (replicas: number): number => replicas / (BEAT_EVERY_MS / 1000);
const looks = (replicas: number): number => replicas / (LOOK_EVERY_MS / 1000);

function printWork(title: string, cells: readonly Cell[]): void {
  const rows = cells.map(({ replicas, rate, figures, cpu, walMb, transactions }) => {
    if (figures.isBehind) return [replicas, rate, "behind"];
    const { counts, seconds, requests, waits, settles } = figures;
    return [
      replicas,
      rate,
      transactions,
      (1000 * counts.transactions) / requests,
      counts.ended / counts.settling,
      counts.inserted / seconds,
      counts.updated / seconds,
      counts.deleted / seconds,
      percent(waits.length / requests),
      quantile(waits, 0.5),
      quantile(settles, 0.5),
      quantile(settles, 0.99),
      percent(counts.waited / counts.transactions),
      cpu,
      walMb,
    ];
  });
  printTable(title, WORK_COLUMNS, rows);
}

const WORK_COLUMNS = [
  "replicas",
  "requests/s",
  "transactions/s",
  "per 1,000 requests",
  "requests in one",
  "inserts/s",
  "updates/s",
  "deletes/s",
  "wait for a block",
  "p50 ms",
  "settled p50 ms",
  "p99 ms",
  "wait for a row",
  "CPU s/s",
  "WAL MB/s",
];

function printHottest(cells: readonly Cell[]): void {
  const rows = cells.map(({ replicas, rate, figures }) => {
    const { counts, seconds, isBehind } = figures;
    const alone = [beats(replicas), looks(replicas)];
    if (isBehind) return [replicas, rate, "behind", "", "", ...alone];
    return [
      replicas,
      rate,
      counts.hotWanted / seconds,
      percent(counts.hotWaited / Math.max(1, counts.hotWanted)),
      percent(counts.hotLockedMs / 1000 / seconds),
      ...alone,
    ];
  });
  const columns = ["locks/s", "find it locked", "locked", "heartbeats/s", "looks/s"];
  printTable("The row of the hottest account", ["replicas", "requests/s", ...columns], rows);
}

function printLimits(cells: readonly Cell[], sticky: readonly Cell[]): void {
  const rows = REPLICAS.map((replicas) => {
    const kept = (all: readonly Cell[]): readonly Cell[] =>
      all.filter((cell) => cell.replicas === replicas && !cell.figures.isBehind);
    const [any, own] = [kept(cells), kept(sticky)];
    const best = own.length > 0 ? own : any;
    const most = (1000 / SERVER_PACE.everyMs) * replicas;
    return [
      replicas,
      any.at(-1)?.rate ?? 0,
      own.at(-1)?.rate ?? "",
      rateAt(best, 1, ({ cpu }) => cpu),
      rateAt(best, CORES, ({ cpu }) => cpu),
      most < SYNCS
        ? `never: at most ${most}`
        : rateAt(best, SYNCS, ({ transactions }) => transactions),
    ];
  });
  const columns = ["1 core is full", `${CORES} cores are full`, `${SYNCS} commits/s`];
  printTable(
    "Requests a second: the most of those simulated; and with each account at one replica",
    ["replicas", "kept up", "kept up", ...columns],
    rows,
  );
}

/** Between the rates that were simulated, or beyond the last one by what the last requests cost. */
function rateAt(cells: readonly Cell[], limit: number, of: (cell: Cell) => number): number {
  let [beforeRate, before] = [0, 0];
  let slope = 0;
  for (const cell of cells) {
    const now = of(cell);
    slope = (now - before) / (cell.rate - beforeRate);
    if (now >= limit) break;
    [beforeRate, before] = [cell.rate, now];
  }
  return beforeRate + (limit - before) / slope;
}

/** What is kept in one table, or of one day in each partition. Entries of an index: 28 and 52 bytes, pages 70 % full. */
function printPartitions(): void {
  const depth = (rows: number, bytes: number): number =>
    Math.ceil(Math.log(rows) / Math.log((8192 * 0.7) / bytes));
  const rows = [100, 1000, 5000].map((rate) => {
    const [day, kept] = [rate * DAY_S, rate * DAY_S * 90];
    return [
      rate,
      day / 1e6,
      depth(kept, 28),
      depth(day, 28),
      depth(kept, 52),
      depth(day, 52),
      `${rate} rows/s`,
      "1 DROP a day",
    ];
  });
  printTable(
    "Requests of 90 days in one table, or in a partition for each day (computed; the rates above stay)",
    [
      "requests/s",
      "million rows a day",
      "depth by account, one table",
      "by day",
      "depth by id, one table",
      "by day",
      "removed, one table",
      "by day",
    ],
    rows,
  );
}

function printTable(
  title: string,
  columns: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): void {
  const line = (cells: readonly (string | number)[]): string =>
    `| ${columns.map((_, at) => shown(cells[at] ?? "")).join(" | ")} |`;
  console.log(`\n${title}\n\n${line(columns)}\n|${columns.map(() => " --- |").join("")}`);
  for (const row of rows) console.log(line(row));
}

function shown(value: string | number): string {
  if (typeof value === "string") return value;
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(2)));
}

const percent = (share: number): string => `${shown(100 * share)} %`;

function quantile(numbers: readonly number[], share: number): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length * share)] ?? 0;
}

function line(ms: [number, number], cpuUs: [number, number], walBytes: [number, number]) {
  const of = ([fixed, each]: [number, number]): Line => ({ fixed, each });
  return { ms: of(ms), cpuUs: of(cpuUs), walBytes: of(walBytes) };
}

if (import.meta.main) {
  const cells = REPLICAS.flatMap((replicas) => RATES.map((rate) => cellOf(replicas, rate)));
  console.log(
    `${ACCOUNTS} accounts, Zipf ${zipf}; from ${SERVER_PACE.many} operations in ${WINDOW_MS} ms a replica starts ${1000 / SERVER_PACE.everyMs} transactions a`,
  );
  console.log(`second at most. "behind": fewer requests ended than came.`);
  printWork("Any replica serves any account", cells);
  printHottest(cells);
  const sticky = STICKY_REPLICAS.flatMap((replicas) =>
    STICKY_RATES.map((rate) => cellOf(replicas, rate, true)),
  );
  printWork("Each account at one replica", sticky);
  printLimits(cells, sticky);
  printPartitions();
  const shards = SHARDS.map((count) => cellOf(100, SHARDED_RATE / count));
  printWork(`One of ${SHARDS.join(", ")} databases, ${SHARDED_RATE} requests/s in all`, shards);
}
