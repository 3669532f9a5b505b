/**
 * What the store costs as it grows: `bun bench/storeGrowth.ts`, with 10 thousand and 1 million requests;
 * `--long` adds 10 million (4 GB, and a quarter of an hour to fill). `--folder DIR` keeps the filled
 * stores there and takes up the ones that are there; `--json FILE` saves the figures.
 */
import { constants, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { fillStore } from "./filledStore.ts";
import { measurePointReads, measureReports } from "./storeReading.ts";
import { measureFolding, measureSettling } from "./storeSettling.ts";

/** Names and figures, in the unit that the name ends with. */
export type Figures = Readonly<Record<string, number>>;

const SIZES = [10_000, 1_000_000];
const LONG_SIZE = 10_000_000;
/** Figures in microseconds are measured in turns, so that other load disturbs all sizes alike. */
const TURNS = 4;

/** Fills the stores that are not there, and measures them. What only reads comes first. */
async function measure(folder: string, sizes: readonly number[]): Promise<Figures[]> {
  const stores = sizes.map((size) => ({ size, path: join(folder, `measured-${size}.db`) }));
  const measured: Figures[] = [];
  for (const { size, path } of stores) {
    const startedMs = performance.now();
    const filled = join(folder, `filled-${size}.db`);
    if (!existsSync(filled)) fillStore(filled, size);
    copyFileSync(filled, path, constants.COPYFILE_FICLONE);
    const seconds = (performance.now() - startedMs) / 1000;
    console.error(`${size} requests: filled and copied in ${seconds.toFixed(0)} s`);
    const bytes = { "bytes on disk for each request, B": Bun.file(path).size / size };
    measured.push({ ...bytes, ...(await measureReports(path)) });
  }
  const turns: Figures[][] = [];
  for (let turn = 0; turn < TURNS; turn += 1) {
    const figures: Figures[] = [];
    for (const { path } of stores)
      figures.push({ ...(await measurePointReads(path)), ...measureSettling(path) });
    turns.push(figures);
  }
  for (const [at, { path }] of stores.entries()) {
    const fastest = least(turns.map((turn) => turn[at] ?? {}));
    measured[at] = { ...measured[at], ...fastest, ...(await measureFolding(path)) };
  }
  return measured;
}

function least(all: readonly Figures[]): Figures {
  const names = Object.keys(all[0] ?? {});
  return Object.fromEntries(
    names.map((name) => [name, Math.min(...all.map((figures) => figures[name] ?? Infinity))]),
  );
}

function printTable(sizes: readonly number[], measured: readonly Figures[]): void {
  const [first = {}] = measured;
  const cells = (row: readonly string[]) =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(52) : cell.padStart(12))).join("");
  console.log(cells(["", ...sizes.map((size) => size.toLocaleString("en")), "growth"]));
  for (const name of Object.keys(first)) {
    const values = measured.map((figures) => figures[name] ?? Number.NaN);
    const growth = (values.at(-1) ?? 0) / (values[0] ?? 1);
    console.log(cells([name, ...values.map(shown), `${growth.toFixed(2)} x`]));
  }
}

function shown(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

const { values: options } = parseArgs({
  options: {
    long: { type: "boolean", default: false },
    folder: { type: "string" },
    json: { type: "string" },
  },
});
const sizes = options.long ? [...SIZES, LONG_SIZE] : SIZES;
const folder = options.folder ?? mkdtempSync(join(tmpdir(), "tollgate-growth-"));
mkdirSync(folder, { recursive: true });
try {
  const measured = await measure(folder, sizes);
  printTable(sizes, measured);
  if (options.json) await Bun.write(options.json, JSON.stringify({ sizes, measured }, null, 2));
} finally {
  if (options.folder === undefined) rmSync(folder, { recursive: true, force: true });
}
