import { expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { readSourceTree } from "../support/sourceTree.ts";

const projectRoot = resolve(import.meta.dir, "../..");
const docs = join(projectRoot, "docs");
const heading = "## Words that are not used";

/** The first column of the table, one word or several words with a comma between. */
async function wordsNotUsed(): Promise<string[]> {
  const page = await Bun.file(join(docs, "contribute/glossary.md")).text();
  const rows = page.slice(page.indexOf(heading)).matchAll(/^\| (\S[^|]*?) *\|/gm);
  return [...rows].flatMap(([, cell = ""]) => cell.split(", ")).slice(1);
}

/** Texts that people read, by file: comments and messages of the source, and the pages. */
async function textsForPeople(): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const { path, text } of await readSourceTree(projectRoot, "src")) {
    const messages = text.literals.filter((literal) => literal.includes(" "));
    texts.set(path, [...text.comments, ...messages].join("\n"));
  }
  for (const name of await readdir(docs, { recursive: true })) {
    if (!name.endsWith(".md")) continue;
    const page = await Bun.file(join(docs, name)).text();
    texts.set(`docs/${name}`, page.split(heading)[0] ?? "");
  }
  texts.set("README.md", await Bun.file(join(projectRoot, "README.md")).text());
  return texts;
}

test("comments, messages and pages use no word that the glossary replaces", async () => {
  const words = await wordsNotUsed();
  expect(words.length).toBeGreaterThan(10);
  const forbidden = new RegExp(`\\b(?:${words.join("|")})\\b`, "gi");
  const found = [...(await textsForPeople())].flatMap(([path, text]) =>
    [...text.matchAll(forbidden)].map(([word]) => `${path}: ${word}`),
  );
  expect(found).toEqual([]);
});
