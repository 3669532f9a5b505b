import { testAuthority } from "../support/provider/rawServer.ts";
import { expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "smol-toml";
import { codeBlocks } from "../../scripts/docs/markdown.ts";
import { strictServers } from "../conformance/strict/servers.ts";
import { loadText } from "../config/loadText.ts";

const docs = join(import.meta.dir, "../../docs");
const pagesOf = async (folder: string) =>
  await Promise.all(
    (await readdir(join(docs, folder))).map(
      async (name) => [name, await Bun.file(join(docs, folder, name)).text()] as const,
    ),
  );
const providers = await pagesOf("providers");
const clients = await pagesOf("clients");

const setups = providers.flatMap(([name, text]) =>
  codeBlocks(text, "toml")
    .filter((block) => block.includes("[[providers]]"))
    .map((block) => [name, block] as const),
);

test.each(setups)("docs/providers/%s: its config loads, with nothing to warn of", (_, block) => {
  const variables = [...block.matchAll(/\$\{(\w+)\}/g)].map(([, name = ""]) => [name, "a-secret"]);
  const text = block.replaceAll("/run/secrets/", "");
  const named = [...text.matchAll(/^(ca|api_key)_file = "([^"]+)"/gm)];
  const files = named.map(([, of, name = ""]) => [
    name,
    of === "ca" ? testAuthority() : "a-secret",
  ]);
  const outcome = loadText(text, {
    environment: Object.fromEntries(variables),
    files: Object.fromEntries(files),
  });
  expect(outcome.problems).toEqual([]);
  const hasModels = block.includes("[[models]]");
  expect(outcome.warnings).toEqual(
    hasModels ? [] : ["FOLDER/config.toml: has no [[models]]: no request can be served"],
  );
});

test.each(strictServers.map(({ name, provider }) => [name, provider] as const))(
  "the page about %s has the lines with which the tests reach its model",
  (name, provider) => {
    const page = `${/ on /.test(name) ? "vllm" : /^\w+/.exec(name)?.[0].toLowerCase()}.md`;
    const [, block = ""] = setups.find(([name]) => name === page) ?? [];
    const [shown] = parse(block)["providers"] as object[];
    expect(shown).toMatchObject(provider);
  },
);

const [, index = ""] = clients.find(([name]) => name === "index.md") ?? [];
const addresses = [...index.matchAll(/^\| \[[^\]]+\]\(([\w-]+\.md)\) *\| (with|without) `/gm)];

test("the list of clients has each page", () => {
  const listed = addresses.map(([, name = ""]) => name);
  const pages = clients.map(([name]) => name).filter((name) => name !== "index.md");
  expect(listed.sort()).toEqual(pages.sort());
});

test.each(addresses.map(([, name = "", word = ""]) => [name, word] as const))(
  "docs/clients/%s has the address %s /v1",
  (name, word) => {
    const [, text = ""] = clients.find(([page]) => page === name) ?? [];
    const used =
      text.match(/https?:\/\/(?:127\.0\.0\.1:8080|gateway\.example\.com)(?:\/v1)?/g) ?? [];
    expect(used.length).toBeGreaterThan(0);
    for (const address of used) expect(address.endsWith("/v1")).toBe(word === "with");
  },
);

test("files that a page shows can be parsed", () => {
  for (const [, text] of clients) {
    for (const block of codeBlocks(text, "json")) JSON.parse(block);
    for (const block of codeBlocks(text, "toml")) parse(block);
    for (const block of codeBlocks(text, "yaml")) Bun.YAML.parse(block);
  }
});
