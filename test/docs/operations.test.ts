import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { events } from "../../src/telemetry/events.ts";
import { createPrometheusMetrics } from "../../src/telemetry/prometheus.ts";
import { readScrape } from "../support/gateway/scrape.ts";
import { readSourceTree } from "../support/sourceTree.ts";
import { codeOf, rowsUnder, tableUnder } from "./markdownTable.ts";

const root = join(import.meta.dir, "../..");
const page = join(root, "docs/operations.md");
const document = await Bun.file(page).text();

/** The rows of the table of log lines, from the table that the log itself uses. */
const eventRows = Object.entries(events).map(([name, { level, message, meaning, advice }]) => [
  `\`${name}\``,
  level,
  message.includes("`") ? `\`\`${message}\`\`` : `\`${message}\``,
  meaning,
  advice,
]);

/** Writes the table of log lines again. */
async function renewEvents(): Promise<void> {
  const old = tableUnder(document, "Log lines");
  const lineOf = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const [before = "", after = ""] = document.split("\n### Log lines\n");
  const kept = after.split("\n");
  const start = kept.findIndex((line) => line.startsWith("|"));
  kept.splice(start, old.length, ...[...old.slice(0, 2), ...eventRows].map(lineOf));
  await Bun.write(page, `${before}\n### Log lines\n${kept.join("\n")}`);
}

if (process.env["RENEW_EVENTS"] === "1") await renewEvents();

describe("docs/operations.md", () => {
  test("says of every warning and error of the log what it means and what to do", () => {
    expect(rowsUnder(document, "Log lines")).toEqual(eventRows);
    for (const row of eventRows) expect(row).not.toContain("");
  });

  test("has no event that nothing logs", async () => {
    const files = await readSourceTree(root, "src");
    const sources = files.filter(({ path }) => path !== "src/telemetry/events.ts");
    const logged = (name: string) => sources.some(({ source }) => source.includes(`"${name}"`));
    expect(Object.keys(events).filter((name) => !logged(name))).toEqual([]);
  });

  test("lists every metric with its type and meaning, and no other", async () => {
    const served = readScrape(await createPrometheusMetrics().read()).types;
    const rows = rowsUnder(document, "Metrics");
    expect(Object.fromEntries(rows.map(([name, type]) => [codeOf(name), type]))).toEqual(served);
    for (const [name, , meaning] of rows) expect([name, meaning]).not.toContain("");
  });
});
