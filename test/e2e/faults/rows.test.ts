import { expect, test } from "bun:test";
import { readdir } from "node:fs/promises";

/** The fault matrix. The files of this folder test its rows: A reaching, B statuses, C bodies and streams, D usage. */
const rowsFirst = 1;
const rowsLast = 90;

test("tests every row of the fault matrix against the executable", async () => {
  const names = (await readdir(import.meta.dir)).filter((name) => name !== "rows.test.ts");
  const sources = await Promise.all(
    names.map((name) => Bun.file(`${import.meta.dir}/${name}`).text()),
  );
  // A row that only a comment names is not tested.
  const code = sources.join("\n").replace(/^\s*(?:\/\/|\/\*|\*).*$/gm, "");
  const found = code.matchAll(/(?:\brow: |\btestRow\(|\bsetup\.model\(|["`]row )(\d+)/g);
  const played = new Set([...found].map(([, row]) => Number(row)));
  const all = Array.from({ length: rowsLast }, (_, at) => at + rowsFirst);
  const missing = all.filter((row) => !played.has(row));
  expect(missing).toEqual([]);
});
