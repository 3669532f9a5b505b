import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { dirname } from "node:path";
import type { Page } from "playwright-core";
import { startDemo, type Demo, type Welcome } from "../../support/binary/demoProcess.ts";
import { startTimeoutMs } from "../../support/binary/gatewayProcess.ts";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import { showView, visitConsole } from "../../support/browser/consoleVisit.ts";
import {
  inspectionTimeoutMs,
  narrowProblems,
  viewProblems,
  widthProblems,
} from "../../support/browser/inspection.ts";
import { sample } from "../../support/sample.ts";

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

/** A dialog of each form, by its view and the button that opens it. */
const dialogs = [
  ["accounts/demo", "Credit"],
  ["accounts/demo", "Disable"],
  ["keys", "New key"],
  ["keys/KEY", "Rotate"],
  ["requests/REQUEST", "Refund"],
  ["vouchers", "New vouchers"],
] as const;

type Look = (page: Page, name: string) => Promise<string[]>;

/** Opens a console on the demo. `place` makes the fragment of an address for a key and a request that exist. */
async function withDemo<Result>(
  work: (page: Page, place: (fragment: string) => string) => Promise<Result>,
  language: string,
): Promise<Result> {
  const { config } = welcome;
  const opened = async (page: Page): Promise<Result> => {
    const first = `fetch("/api/requests?limit=1", {
        headers: { "x-tollgate-console": localStorage.getItem("tollgate-console") },
      }).then((answer) => answer.json())`;
    const { data } = await page.evaluate<{ data: { id: string; key_id: string }[] }>(first);
    const [{ id, key_id: key } = { id: "", key_id: "" }] = data;
    return await work(page, (fragment) => fragment.replace("KEY", key).replace("REQUEST", id));
  };
  return await visitConsole(chromium.browser, { folder: dirname(config), config }, opened, {
    language,
  });
}

/** What the views have wrong, in this language. */
async function problemsOf(language: string, look: Look): Promise<string[]> {
  return await withDemo(async (page, place) => {
    const problems: string[] = [];
    for (const [name, fragment] of sample(views, 4, ([name]) => name + language)) {
      await showView(page, place(fragment));
      problems.push(...(await look(page, `console-${name}-${language.slice(0, 2)}`)));
    }
    return problems;
  }, language);
}

describe.skipIf(chromiumPath === null)("the views of the console", () => {
  test(
    "have nothing that axe finds in either scheme, and fit a small screen",
    async () => {
      expect(await problemsOf("en-US", viewProblems)).toEqual([]);
    },
    inspectionTimeoutMs,
  );

  test(
    "have nothing of that in their dialogs",
    async () => {
      const problems = await withDemo(async (page, place) => {
        const found: string[] = [];
        for (const [fragment, button] of sample(dialogs, 2)) {
          await showView(page, place(fragment));
          await page.getByRole("button", { name: button, exact: true }).first().click();
          await page.getByRole("dialog").waitFor();
          found.push(...(await narrowProblems(page, `console-dialog-${button.replace(" ", "-")}`)));
          await page.keyboard.press("Escape");
        }
        return found;
      }, "en-US");
      expect(problems).toEqual([]);
    },
    inspectionTimeoutMs,
  );

  // Structure and colours are those of the English views.
  test(
    "fit a small screen in Russian",
    async () => {
      expect(await problemsOf("ru-RU", widthProblems)).toEqual([]);
    },
    inspectionTimeoutMs,
  );
});
