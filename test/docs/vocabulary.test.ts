import { expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { readSourceTree } from "../support/sourceTree.ts";

const projectRoot = resolve(import.meta.dir, "../..");
const docs = join(projectRoot, "docs");
/** Words that people had to look up, each with what to write instead. */
const replacements = new Map([
  ["amid", "during"],
  ["books", "ledger, database"],
  ["culprits?", "failing account"],
  ["dear(?:er|est)?", "expensive, high"],
  ["goes away|went away", "disconnects"],
  ["injected dependenc(?:y|ies)", "parameter"],
  ["journey", "request scope"],
  ["leaver", "client that disconnected"],
  ["leave alone|put aside", "cooldown"],
  ["lest", "so that ... not"],
  ["misfire", "isolated failure"],
  ["nobody's", "no one is responsible"],
  ["passage", "permit"],
  ["stranger", "client without a valid key"],
  ["thoughts", "reasoning"],
  ["token bound", "output limit, max_tokens"],
  ["under way", "in flight"],
  ["unfit", "unsupported"],
  ["visit", "request scope"],
  ["whoever", "the client, the operator"],
  ["words for", "can express, supports"],
]);

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
    texts.set(`docs/${name}`, page);
  }
  texts.set("README.md", await Bun.file(join(projectRoot, "README.md")).text());
  return texts;
}

test("comments, messages and pages use plain words", async () => {
  const word = new RegExp(`\\b(?:${[...replacements.keys()].join("|")})\\b`, "gi");
  const found = [...(await textsForPeople())].flatMap(([path, text]) =>
    [...text.matchAll(word)].map(([match]) => {
      const [, better] =
        [...replacements].find(([one]) => new RegExp(`^(?:${one})$`, "i").test(match)) ?? [];
      return `${path}: ${match}: write ${better}`;
    }),
  );
  expect(found).toEqual([]);
});
