/** Writes the pages of docs/ that are made from declarations: `bun run reference`. A test compares them. */
import { join, resolve } from "node:path";
import { callsPage } from "./callsPage.ts";
import { commandsPage } from "./commandsPage.ts";
import { errorsPage } from "./errorsPage.ts";
import { eventsPage } from "./eventsPage.ts";
import { metricsPage } from "./metricsPage.ts";

const docs = resolve(import.meta.dir, "../../docs");

/** By their paths in docs/. */
const pages: Readonly<Record<string, (path: string) => string | Promise<string>>> = {
  "troubleshoot/events.md": eventsPage,
  "reference/calls.md": callsPage,
  "reference/commands.md": commandsPage,
  "reference/metrics.md": metricsPage,
  "reference/errors.md": errorsPage,
};

export const referencePages = Object.keys(pages);

export async function referenceText(path: string): Promise<string> {
  const text = await pages[path]?.(path);
  return `<!-- \`bun run reference\` makes this page from declarations. -->\n\n${text}\n`;
}

if (import.meta.main) {
  for (const path of referencePages) await Bun.write(join(docs, path), await referenceText(path));
}
