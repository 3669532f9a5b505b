import { expect, test } from "bun:test";
import { join } from "node:path";
import { referenceFiles, referenceText } from "../../scripts/docs/reference.ts";
import { events } from "../../src/telemetry/events.ts";
import { readSourceTree } from "../support/sourceTree.ts";

const root = join(import.meta.dir, "../..");

test.each(referenceFiles)("%s is what `bun run reference` makes", async (path) => {
  expect(await Bun.file(join(root, path)).text()).toBe(await referenceText(path));
});

test("no event is listed that nothing logs", async () => {
  const files = await readSourceTree(root, "src");
  const sources = files.filter(({ path }) => path !== "src/telemetry/events.ts");
  const isLogged = (name: string) => sources.some(({ source }) => source.includes(`"${name}"`));
  expect(Object.keys(events).filter((name) => !isLogged(name))).toEqual([]);
});
