/** Writes what is made from declarations, pages of docs/ and the example config: `bun run reference`. A test compares it. */
import { join, resolve } from "node:path";
import { apiPage } from "./apiPage.ts";
import { callsPage } from "./callsPage.ts";
import { commandsPage } from "./commandsPage.ts";
import { errorsPage } from "./errorsPage.ts";
import { configPage, exampleOf } from "./config.ts";
import { eventsPage } from "./eventsPage.ts";
import { metricsPage } from "./metricsPage.ts";

const root = resolve(import.meta.dir, "../..");
const EXAMPLE = "config.example.toml";

/** By their paths in docs/. */
const pages: Readonly<Record<string, (path: string) => string | Promise<string>>> = {
  "troubleshoot/events.md": eventsPage,
  "reference/api.md": apiPage,
  "reference/calls.md": callsPage,
  "reference/commands.md": commandsPage,
  "reference/config.md": configPage,
  "reference/metrics.md": metricsPage,
  "reference/errors.md": errorsPage,
};

/** By their paths in the project. */
export const referenceFiles = [EXAMPLE, ...Object.keys(pages).map((path) => `docs/${path}`)];

export async function referenceText(file: string): Promise<string> {
  if (file === EXAMPLE) return exampleOf(await Bun.file(join(root, EXAMPLE)).text());
  const path = file.replace(/^docs\//, "");
  const text = await pages[path]?.(path);
  return `<!-- \`bun run reference\` makes this page from declarations. -->\n\n${text}\n`;
}

if (import.meta.main) {
  for (const file of referenceFiles) await Bun.write(join(root, file), await referenceText(file));
}
