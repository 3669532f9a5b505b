import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join, resolve } from "node:path";

const testFolder = resolve(import.meta.dir, "..");
const docs = resolve(testFolder, "../docs");
/** `http/chat.test.ts`: "the name of a test", "another". Names are cited as they stand in the source. */
const fileReference = /`((?:[\w-]+\/)+[\w-]+\.test\.ts)`((?:(?:,| and|:)? "[^"]+")*)/g;

test.each(["failures.md", "money.md", "architecture.md"])(
  "docs/%s names tests that exist",
  async (page) => {
    const text = (await Bun.file(join(docs, page)).text()).replace(/\s+/g, " ");
    const missing: string[] = [];
    for (const [, path = "", names = ""] of text.matchAll(fileReference)) {
      const file = Bun.file(join(testFolder, path.replace(/^test\//, "")));
      const source = (await file.exists()) ? await file.text() : undefined;
      if (source === undefined) missing.push(path);
      for (const [, name = ""] of names.matchAll(/"([^"]+)"/g)) {
        if (source !== undefined && !source.includes(name)) missing.push(`${path}: "${name}"`);
      }
    }
    expect(missing).toEqual([]);
  },
);

test("the pages name files and folders that exist", async () => {
  const root = resolve(docs, "..");
  const names = (await readdir(docs, { recursive: true })).filter((name) => name.endsWith(".md"));
  const pages = [...names.map((name) => join(docs, name)), join(root, "README.md")];
  const missing: string[] = [];
  for (const page of pages) {
    const text = await Bun.file(page).text();
    for (const [, path = ""] of text.matchAll(/`((?:src|test|scripts|bench)\/[\w./-]*\w\/?)`/g)) {
      if (!path.includes("KIND") && !path.includes("NAME") && !existsSync(join(root, path))) {
        missing.push(`${basename(page)}: ${path}`);
      }
    }
  }
  expect(missing).toEqual([]);
});
