import { expect, test } from "bun:test";
import { readdir } from "node:fs/promises";

/** The parts of the matrix of faults that the files beside this one play: A reaching, B statuses, C bodies and streams, D usage. */
const rowsFirst = 1;
const rowsLast = 90;

test("every row of the matrix is played against the executable", async () => {
  const names = (await readdir(import.meta.dir)).filter((name) => name !== "rows.test.ts");
  const sources = await Promise.all(
    names.map((name) => Bun.file(`${import.meta.dir}/${name}`).text()),
  );
  // A row that is only spoken of in a comment is not played; that what is made for one is asked, the bench sees to.
  const code = sources.join("\n").replace(/^\s*(?:\/\/|\/\*|\*).*$/gm, "");
  const found = code.matchAll(/(?:\brow: |\btestRow\(|\bbench\.model\(|["`]row )(\d+)/g);
  const played = new Set([...found].map(([, row]) => Number(row)));
  const all = Array.from({ length: rowsLast }, (_, at) => at + rowsFirst);
  const missing = all.filter((row) => !played.has(row));
  expect(missing).toEqual([]);
});
