import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { createPrometheusMetrics } from "../../src/telemetry/prometheus.ts";
import { readScrape } from "../support/gateway/scrape.ts";
import { readSourceTree } from "../support/sourceTree.ts";
import { codeOf, rowsUnder } from "./markdownTable.ts";

const root = join(import.meta.dir, "../..");
const document = await Bun.file(join(root, "docs/operations.md")).text();

const tableUnder = (heading: string): string[][] => rowsUnder(document, heading);

/** Every `level message` that src/ gives to log.warn and log.error. */
async function loggedMessages(): Promise<string[]> {
  const files = await readSourceTree(root, "src");
  return files.flatMap(({ path, source }) =>
    [...source.matchAll(/\blog\.(warn|error)\(\s*(?:"([^"]*)"|(\w+))/g)].map(
      ([, level = "", literal, name]) => {
        const constant = new RegExp(`const ${name} =\\s*"([^"]*)"`);
        const message = literal ?? constant.exec(source)?.[1];
        if (message === undefined)
          throw new Error(`${path}: the message of log.${level} is no text`);
        return `${level} ${message}`;
      },
    ),
  );
}

const sortedOnce = (texts: readonly string[]): string[] => [...new Set(texts)].sort();

describe("docs/operations.md", () => {
  test("lists every warn and error message of the log, and no other", async () => {
    const listed = tableUnder("Log lines").map(([level, message]) => `${level} ${codeOf(message)}`);
    expect(listed.toSorted()).toEqual(sortedOnce(await loggedMessages()));
  });

  test("says of every log message what it means and what to do", () => {
    for (const row of tableUnder("Log lines")) {
      expect(row).toHaveLength(4);
      expect(row).not.toContain("");
    }
  });

  test("lists every metric with its type and meaning, and no other", async () => {
    const served = readScrape(await createPrometheusMetrics().read()).types;
    const rows = tableUnder("Metrics");
    expect(Object.fromEntries(rows.map(([name, type]) => [codeOf(name), type]))).toEqual(served);
    for (const [name, , meaning] of rows) expect([name, meaning]).not.toContain("");
  });

  test("alerts on metrics that exist", async () => {
    const served = Object.keys(readScrape(await createPrometheusMetrics().read()).types);
    const expressions = tableUnder("Recommended alerts").map(([, , expression]) => expression);
    const used = [...expressions.join("\n").matchAll(/\b(?:tollgate|process|nodejs)_\w+/g)];
    expect(used).not.toBeEmpty();
    for (const [name] of used) expect(served).toContain(name.replace(/_bucket$/, ""));
  });
});
