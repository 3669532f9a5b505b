import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { events } from "../../src/telemetry/events.ts";

const docs = join(import.meta.dir, "../../docs");
const pages = ["fleet.md", ...(await readdir(join(docs, "fleet"))).map((name) => `fleet/${name}`)];
const text = (path: string) => Bun.file(join(docs, path)).text();
const metrics = await Bun.file(join(docs, "../src/telemetry/prometheus.ts")).text();
const alerts = await text("monitoring/alerts.yaml");
const pagesInMarkdown = pages.filter((name) => name.endsWith(".md"));

/** The heading as GitHub names it in a link. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} -]/gu, "")
    .replaceAll(" ", "-");

test.each(pagesInMarkdown)("docs/%s links to pages and sections that exist", async (page) => {
  const missing: string[] = [];
  for (const [, link = ""] of (await text(page)).matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^https?:/.test(link)) continue;
    const [path = "", anchor] = link.split("#");
    const file = path === "" ? join(docs, page) : join(docs, dirname(page), path);
    const headings = existsSync(file) && anchor !== undefined ? await Bun.file(file).text() : "";
    const anchors = [...headings.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
      anchorOf(heading),
    );
    if (!existsSync(file) || (anchor !== undefined && !anchors.includes(anchor)))
      missing.push(link);
  }
  expect(missing).toEqual([]);
});

test("docs/fleet/failures.md names events, metrics and alerts that exist", async () => {
  const names = [...(await text("fleet/failures.md")).matchAll(/`(\w+)`/g)].map(
    ([, name = ""]) => name,
  );
  const isKnown = (name: string): boolean => {
    if (name.startsWith("tollgate_")) return metrics.includes(`"${name}"`);
    if (/^Tollgate[A-Z]/.test(name)) return alerts.includes(`alert: ${name}\n`);
    return (
      !/^(?:\w+_(?:fenced|silent|differs|blocked|unusable|full))$/.test(name) || name in events
    );
  };
  expect(names.filter((name) => !isKnown(name))).toEqual([]);
  expect(names.filter((name) => /^[Tt]ollgate/.test(name)).length).toBeGreaterThan(4);
});
