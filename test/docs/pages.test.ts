import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { CELL_MAX, readPage } from "../../scripts/docs/markdown.ts";
import { navigation } from "../../scripts/docs/navigation.ts";

const root = resolve(import.meta.dir, "../..");
const inDocs = (await readdir(join(root, "docs"), { recursive: true }))
  .filter((name) => name.endsWith(".md"))
  .map((name) => `docs/${name}`);
const pages = new Map(
  await Promise.all(
    [...inDocs, "README.md", "CHANGELOG.md"].map(async (path) => {
      const text = await Bun.file(join(root, path)).text();
      return [path, { text, ...readPage(text) }] as const;
    }),
  ),
);
/** The pages for those who change the project. All others are for its users. */
const forContributors = /^(?:docs\/contribute\/.*|README|CHANGELOG)\.md$/;
const forUsers = [...pages].filter(([path]) => !forContributors.test(path));

/** Whether a path of the project, with or without an anchor, leads anywhere. */
function leadsSomewhere(target: string): boolean {
  const [path = "", anchor] = target.split("#");
  if (anchor === undefined) return existsSync(join(root, path));
  return pages.get(path)?.anchors.includes(anchor) ?? false;
}

test.each([...pages])("%s: its links lead to pages and headings", (path, { links }) => {
  const inside = links.filter((link) => !/^(?:https?|mailto):/.test(link));
  const targets = inside.map((link) =>
    link.startsWith("#") ? `${path}${link}` : join(dirname(path), link),
  );
  expect(targets.filter((target) => !leadsSomewhere(target))).toEqual([]);
});

test("what the project says of its pages leads somewhere", async () => {
  const folders = ["src", "test", "scripts", "bench", "docs"];
  const names = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(join(root, folder), { recursive: true }))
        .filter((name) => /\.(?:ts|tsx|ya?ml|json|toml)$/.test(name))
        .map((name) => `${folder}/${name}`),
    ),
  );
  const missing: string[] = [];
  for (const file of ["config.example.toml", ...names.flat()]) {
    if (file.includes("node_modules/")) continue;
    const text = await Bun.file(join(root, file)).text();
    for (const [target] of text.matchAll(/\bdocs\/[\w/-]+\.md(?:#[\w-]+)?/g)) {
      if (!leadsSomewhere(target)) missing.push(`${file}: ${target}`);
    }
  }
  expect(missing).toEqual([]);
});

test("the pages name files and folders that exist", () => {
  const missing: string[] = [];
  for (const [page, { text }] of pages) {
    if (page === "CHANGELOG.md") continue;
    for (const [, path = ""] of text.matchAll(/`((?:src|test|scripts|bench)\/[\w./-]*\w\/?)`/g)) {
      if (!/KIND|NAME/.test(path) && !existsSync(join(root, path)))
        missing.push(`${page}: ${path}`);
    }
  }
  expect(missing).toEqual([]);
});

/** `http/chat.test.ts`: "the name of a test", "another". Names are cited as they stand in the source. */
const citedTests = /`((?:[\w-]+\/)+[\w-]+\.test\.ts)`((?:(?:,| and|:)? "[^"]+")*)/g;

test("the tests that a page cites exist", async () => {
  const missing: string[] = [];
  for (const { text } of pages.values()) {
    for (const [, path = "", names = ""] of text.replace(/\s+/g, " ").matchAll(citedTests)) {
      const file = Bun.file(join(root, "test", path.replace(/^test\//, "")));
      const source = (await file.exists()) ? await file.text() : undefined;
      if (source === undefined) missing.push(path);
      for (const [, name = ""] of names.matchAll(/"([^"]+)"/g)) {
        if (source !== undefined && !source.includes(name)) missing.push(`${path}: "${name}"`);
      }
    }
  }
  expect(missing).toEqual([]);
});

test.each(forUsers)("%s: its metrics, alerts and events exist", (_, { text }) => {
  const metrics = pages.get("docs/reference/metrics.md")?.text ?? "";
  const events = pages.get("docs/troubleshoot/events.md")?.anchors ?? [];
  const shown = text.match(/`(?:tollgate_\w+|Tollgate[A-Z]\w+)`/g) ?? [];
  expect(shown.filter((name) => !metrics.includes(name))).toEqual([]);
  const named = [...text.matchAll(/`(\w+_(?:fenced|silent|differs|unusable))`/g)];
  expect(named.filter(([, name = ""]) => !events.includes(name))).toEqual([]);
});

test("no two headings of a page have one anchor", () => {
  for (const [path, { anchors }] of pages) {
    const twice = anchors.filter((anchor, at) => anchors.indexOf(anchor) !== at);
    if (path !== "CHANGELOG.md") expect([path, twice]).toEqual([path, []]);
  }
});

test("the site lists each page once", () => {
  const listed = ["index.md", ...navigation.flatMap(([, names]) => names)];
  expect(listed.map((name) => `docs/${name}`).sort()).toEqual(inDocs.sort());
});

test("no page has text that a site would run or take for a tag", () => {
  for (const path of inDocs) {
    const { prose = "" } = pages.get(path) ?? {};
    const found = prose.match(/\{\{|(?<!\\)<(?!https?:|!--)[a-z/!][^\n]*/gi) ?? [];
    expect([path, found]).toEqual([path, []]);
  }
});

test.each([...pages])("%s: no cell of a table is long", (_, { cells }) => {
  expect(cells.filter((cell) => cell.length > CELL_MAX)).toEqual([]);
});

test.each(forUsers)("%s: no test and no source file is named", (_, { text }) => {
  expect(text.match(/[\w/-]+\.test\.ts|\b(?:test|src|scripts|bench)\/[\w/.-]*/g) ?? []).toEqual([]);
});
