import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { dirname } from "node:path";
import type { Page } from "playwright-core";
import { startConsole } from "../../support/binary/consoleProcess.ts";
import { startDemo, type Demo, type Welcome } from "../../support/binary/demoProcess.ts";
import { startTimeoutMs } from "../../support/binary/gatewayProcess.ts";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import { narrowProblems, viewProblems } from "../../support/browser/inspection.ts";
import { settled } from "../../support/browser/settled.ts";
import { visit } from "../../support/browser/visit.ts";

const chromium = openChromiumBefore();
let demo: Demo;
let welcome: Welcome;

beforeAll(async () => {
  if (chromiumPath === null) return;
  demo = await startDemo("--json", "--listen", "127.0.0.1:0");
  welcome = JSON.parse(demo.text) as Welcome;
}, startTimeoutMs);
afterAll(() => demo?.end("SIGINT"));

/** The views by the name of their screenshot, and the fragments of their addresses. */
const views = [
  ["overview", ""],
  ["accounts", "accounts"],
  ["account", "accounts/demo"],
  ["keys", "keys"],
  ["key", "keys/KEY"],
  ["requests", "requests"],
  ["request", "requests/REQUEST"],
  ["providers", "providers"],
  ["vouchers", "vouchers"],
  ["audit", "audit"],
] as const;

/** What the views have wrong, in this language. */
async function problemsOf(
  language: string,
  look: (page: Page, name: string) => Promise<string[]>,
): Promise<string[]> {
  const console = await startConsole({ folder: dirname(welcome.config), config: welcome.config });
  try {
    const work = async (page: Page): Promise<string[]> => {
      await settled(page);
      const first = `fetch("/api/requests?limit=1").then((answer) => answer.json())`;
      const { data } = await page.evaluate<{ data: { id: string; key: string }[] }>(first);
      const [{ id, key } = { id: "", key: "" }] = data;
      const problems: string[] = [];
      for (const [name, fragment] of views) {
        const place = fragment.replace("KEY", key).replace("REQUEST", id);
        await page.goto(`${console.url}/#/${place}`);
        await settled(page);
        problems.push(...(await look(page, `console-${name}-${language.slice(0, 2)}`)));
      }
      return problems;
    };
    return await visit(chromium.browser, console.address, work, { language });
  } finally {
    await console.stop();
  }
}

describe.skipIf(chromiumPath === null)("the views of the console", () => {
  test("have nothing that axe finds in either scheme, and fit a small screen", async () => {
    expect(await problemsOf("en-US", viewProblems)).toEqual([]);
  });

  // What is longer in Russian shows on the small screen. Colours are the same.
  test("have nothing of that in Russian", async () => {
    expect(await problemsOf("ru-RU", narrowProblems)).toEqual([]);
  });
});
