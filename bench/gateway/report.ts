import type { Figures } from "./figures.ts";

type Read = (figures: Figures, tollgate: string) => number | undefined;

/** A figure that the project wants to reach. */
interface Goal {
  readonly what: string;
  readonly unit: string;
  /** The bounds, first the one to reach first. */
  readonly bounds: readonly number[];
  readonly isBetter: "less" | "more";
  readonly read: Read;
}

/** One kind of figure, shown for every contestant. */
interface Kind {
  readonly label: string;
  readonly kind: string;
  readonly unit: string;
  readonly scale: number;
}

const KB = 1000;
const MB = 1_000_000;
/** Times to first byte that differ by less are equal: timers and a busy machine cause such differences. */
const SAME_MS = 0.5;

const toNginx =
  (kind: string): Read =>
  (figures, name) =>
    figures.ratio([kind, name], [kind, "nginx"]);
const growth =
  (from: string, to: string): Read =>
  (figures, name) =>
    figures.ratio([to, name], [from, name]);
/** For figures whose rounds are not the same. */
const quotient =
  (above: string, below: string): Read =>
  (figures, name) => {
    const [over, under] = [figures.median(above, name), figures.median(below, name)];
    return over === undefined || under === undefined ? undefined : over / under;
  };
const median =
  (kind: string, scale: number): Read =>
  (figures, name) =>
    scaled(figures.median(kind, name), scale);
const beyond =
  (kind: string, base: string): Read =>
  (figures, name) => {
    const [value, least] = [figures.median(kind, name), figures.median(kind, base)];
    return value === undefined || least === undefined ? undefined : value - least;
  };
const added = (kind: string): Read => beyond(kind, "provider");
const addedToRow =
  (kind: string): Read =>
  (figures, name) => {
    const [ours, row] = [name, "Bun and a row"].map((of) => added(kind)(figures, of));
    return ours === undefined || row === undefined ? undefined : ours / row;
  };
const firstByteGrowth: Read = (figures, name) => {
  const [none, held] = ["none", "1000"].map((open) =>
    figures.median(`first byte, ${open} open`, name),
  );
  return none === undefined || held === undefined ? undefined : held - none;
};

/** The rows of "figures to reach" that this benchmark measures. */
const goals: readonly Goal[] = [
  goal("CPU of a JSON request at 64, to nginx", "x", [5, 4], toNginx("json 64")),
  goal(
    "the same with 1,000 keys of 200 accounts, to one key",
    "x",
    [1.15],
    growth("json 64", "json 64, many keys"),
  ),
  goal("growth of that from 64 to 1,000", "x", [1.3], growth("json 64", "json 1000")),
  {
    ...goal("requests a second at 64, to nginx", "x", [0.2], toNginx("json 64, a second")),
    isBetter: "more",
  },
  goal(
    "CPU of a request at 100 a second, to its cost at 64",
    "x",
    [2],
    quotient("json, 100 a second", "json 64"),
  ),
  goal("CPU of an SSE event at 64, to nginx", "x", [1.4], toNginx("event 64")),
  goal(
    "first bytes of 64 streams that open at once, p50, minus nginx",
    "ms",
    [8],
    beyond("first byte, 64 at once", "nginx"),
  ),
  goal(
    "the same straight after half a second of JSON requests",
    "ms",
    [8],
    beyond("first byte, 64 after traffic", "nginx"),
  ),
  goal(
    "first bytes of 1,000 new connections at once, p99, minus nginx",
    "ms",
    [100],
    beyond("first byte, 1000 connections, p99", "nginx"),
  ),
  goal(
    "first byte later, 1,000 streams of another provider open",
    "ms",
    [SAME_MS],
    firstByteGrowth,
  ),
  goal("memory of an idle open stream, 5,000 open", "KB", [20], median("idle stream bytes", KB)),
  goal("memory left 30 s after they close", "MB", [10], median("idle bytes left", MB)),
  goal("added latency at 100 a second, p50", "ms", [1], added("latency p50")),
  goal("added latency at 100 a second, p99", "ms", [3], added("latency p99")),
  goal("first answer after 10 s of silence", "ms", [2], median("first after silence", 1)),
  goal('p50 added, to "Bun and a row"', "x", [2], addedToRow("latency p50")),
  goal('p99 added, to "Bun and a row"', "x", [2], addedToRow("latency p99")),
  goal("start to the first answer", "ms", [45], median("start ms", 1)),
  goal("memory grown while 200 MB go to a slow reader", "MB", [10], median("bulk bytes grown", MB)),
];

const kinds: readonly Kind[] = [
  ...["64", "256", "1000", "64, many keys", "200 KB", "200 KB, an agent's"].map((of) =>
    cost(`JSON request, ${of}`, `json ${of}`),
  ),
  cost("JSON request, 100 a second", "json, 100 a second"),
  { label: "JSON requests, 64", kind: "json 64, a second", unit: "a second", scale: 1 },
  transactions("64", "json 64"),
  transactions("100 a second", "json, 100 a second"),
  ...["64", "256", "1000"].map((of) => cost(`JSON request over TLS, ${of}`, `tls json ${of}`)),
  ...["64", "256", "1000"].map((of) => cost(`event, ${of} streams`, `event ${of}`)),
  ...["64", "256", "1000"].map((of) => cost(`event over TLS, ${of} streams`, `tls event ${of}`)),
  cost("event at full speed, 64 streams", "event 64, full speed"),
  {
    label: "events in one read of these",
    kind: "event 64, full speed, a read",
    unit: "",
    scale: 1,
  },
  cost("stream of 20 events, 64 at once", "stream of 20"),
  { label: "answer at 100 a second, p50", kind: "latency p50", unit: "ms", scale: 1 },
  { label: "answer at 100 a second, p95", kind: "latency p95", unit: "ms", scale: 1 },
  { label: "answer at 100 a second, p99", kind: "latency p99", unit: "ms", scale: 1 },
  { label: "first byte, 64 open at once", kind: "first byte, 64 at once", unit: "ms", scale: 1 },
  {
    label: "first byte, 64 open at once after traffic",
    kind: "first byte, 64 after traffic",
    unit: "ms",
    scale: 1,
  },
  ...["p50", "p99"].map((part) => ({
    label: `first byte, 1,000 new connections, ${part}`,
    kind: `first byte, 1000 connections, ${part}`,
    unit: "ms",
    scale: 1,
  })),
  { label: "first answer after 10 s", kind: "first after silence", unit: "ms", scale: 1 },
  { label: "first byte, no stream open", kind: "first byte, none open", unit: "ms", scale: 1 },
  { label: "first byte, 1,000 open", kind: "first byte, 1000 open", unit: "ms", scale: 1 },
  { label: "start to the first answer", kind: "start ms", unit: "ms", scale: 1 },
  { label: "idle open stream", kind: "idle stream bytes", unit: "KB", scale: KB },
  { label: "left 30 s after 5,000 closed", kind: "idle bytes left", unit: "MB", scale: MB },
  { label: "grown, 200 MB to a slow reader", kind: "bulk bytes grown", unit: "MB", scale: MB },
  { label: "memory at most meanwhile", kind: "bulk bytes most", unit: "MB", scale: MB },
];

/** Tables in Markdown: the goals and whether each Tollgate meets them, then the figures of each contestant. */
export function reportOf(
  figures: Figures,
  contestants: readonly string[],
  tollgates: readonly string[],
): string {
  const goalRows = goals.map((row) => {
    const { what, unit, bounds, isBetter } = row;
    const bound = `${isBetter === "less" ? "<=" : ">="} ${bounds.join(", then ")} ${unit}`;
    return [what, bound].concat(tollgates.map((name) => verdict(row, row.read(figures, name))));
  });
  const kindRows = kinds.flatMap(({ label, kind, unit, scale }) => {
    const cells = contestants.map((name) => shown(scaled(figures.median(kind, name), scale)));
    return cells.every((cell) => cell === "") ? [] : [[label, unit, ...cells]];
  });
  return [
    table(["figure to reach", "goal", ...tollgates], goalRows),
    table(["medians of the rounds", "", ...contestants], kindRows),
  ].join("\n\n");
}

function goal(what: string, unit: string, bounds: readonly number[], read: Read): Goal {
  return { what, unit, bounds, isBetter: "less", read };
}

function cost(label: string, kind: string): Kind {
  return { label, kind, unit: "CPU us", scale: 1 };
}

function transactions(of: string, kind: string): Kind {
  const label = `transactions of PostgreSQL, ${of}`;
  return { label, kind: `${kind}, transactions`, unit: "for 1,000", scale: 1 };
}

function scaled(value: number | undefined, scale: number): number | undefined {
  return value === undefined ? undefined : value / scale;
}

function verdict({ bounds, isBetter, unit }: Goal, value: number | undefined): string {
  if (value === undefined) return "not measured";
  const met = bounds.filter((bound) => (isBetter === "less" ? value <= bound : value >= bound));
  const word = met.length === bounds.length ? "met" : met.length > 0 ? "first met" : "MISSED";
  return `${shown(value)} ${unit}: ${word}`;
}

/** A figure with three digits or more; nothing for undefined. */
export function shown(value: number | undefined): string {
  if (value === undefined) return "";
  return value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0);
}

/** A table in Markdown. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, at) =>
    Math.max(...[head, ...rows].map((row) => (row[at] ?? "").length)),
  );
  const line = (row: readonly string[]): string =>
    `| ${widths.map((width, at) => (row[at] ?? "").padEnd(width)).join(" | ")} |`;
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [line(head), rule, ...rows.map(line)].join("\n");
}
