import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { startConsole, type ConsoleProcess } from "../../support/binary/consoleProcess.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { startTimeoutMs } from "../../support/binary/gatewayProcess.ts";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import { viewProblems } from "../../support/browser/inspection.ts";
import { visit } from "../../support/browser/visit.ts";

const chromium = openChromiumBefore();
let cli: CliFolder;

beforeAll(async () => {
  cli = await openCliFolder();
  await cli.json("accounts", "create", "alice");
}, startTimeoutMs);
afterAll(() => cli.remove());

async function withConsole(work: (console: ConsoleProcess) => Promise<void>): Promise<void> {
  const console = await startConsole(cli);
  try {
    await work(console);
  } finally {
    await console.stop();
  }
}

const over = "This console is not open";

describe.skipIf(chromiumPath === null)("the address of a console", () => {
  test("opens it once, and its token leaves the address and the history at once", async () => {
    await withConsole(async (console) => {
      await visit(chromium.browser, console.address, async (page) => {
        await page.getByRole("link", { name: "Overview" }).waitFor();
        await page.waitForURL(`${console.url}/#/`);
        expect(await page.evaluate("history.length")).toBe(2);
        expect(await page.evaluate("document.cookie")).toBe("");
        // What it keeps is no cookie, which other ports would get, and opens nothing without the cookie.
        const kept = "[Object.keys(localStorage), sessionStorage.length]";
        expect(await page.evaluate(kept)).toEqual([["tollgate-console"], 0]);
        // It opens again in this browser: by a reload, in a second tab, and with the same address.
        await page.reload();
        await page.getByRole("link", { name: "Overview" }).waitFor();
        const second = await page.context().newPage();
        await second.goto(`${console.url}/#/accounts`);
        await second.getByRole("link", { name: "alice" }).waitFor();
      });
      const refused = { refusals: [401] };
      await visit(
        chromium.browser,
        console.address,
        async (page) => {
          await page.getByText(over).waitFor();
          await page.waitForURL(`${console.url}/#/`);
          expect(await viewProblems(page, "console-over")).toEqual([]);
        },
        refused,
      );
    });
  });

  test("is not ended by a site that opens it with wrong tokens in the operator's browser", async () => {
    await withConsole(async (console) => {
      await visit(chromium.browser, console.address, async (page) => {
        await page.getByRole("link", { name: "Overview" }).waitFor();
        const other = await page.context().newPage();
        for (let opened = 0; opened < 12; opened += 1) {
          await other.goto("about:blank");
          await other.goto(`${console.url}/#token=wrong`);
          await other.getByRole("link", { name: "Overview" }).waitFor();
        }
      });
    });
  });

  test("shows that it is over when the operator ends it", async () => {
    await withConsole(async (console) => {
      await visit(chromium.browser, console.address, async (page) => {
        await page.getByRole("button", { name: "End" }).click();
        await page.getByText(over).waitFor();
        expect(await console.ended).toBe(0);
      });
    });
  });

  test("tells when nothing answers any more", async () => {
    await withConsole(async (console) => {
      const work = async (page: Page): Promise<void> => {
        await page.getByRole("link", { name: "Overview" }).waitFor();
        await console.stop();
        await page.getByText("No connection to the console.").waitFor();
      };
      await visit(chromium.browser, console.address, work, { mayLoseConnection: true });
    });
  });
});

describe.skipIf(chromiumPath === null)("a console whose reads are those of a standby", () => {
  test("says how far it is behind, in its foot, and above the view where that matters", async () => {
    let standby = {};
    await withConsole(async (console) => {
      await visit(chromium.browser, console.address, async (page) => {
        await page.route("**/api/state", async (route) => {
          const response = await route.fetch();
          const json: unknown = await response.json();
          await route.fulfill({ response, json: Object.assign({}, json, { standby }) });
        });
        for (const [behind, problem, words, isAbove] of [
          [300, null, /from the standby postgres:.*, at most 300\s?ms behind\./, false],
          [20_000, null, /from the standby postgres:.*, at most 20.* behind\./, true],
          [null, null, /How far it is behind is not known\./, true],
          [null, "it is gone", /it is gone/, true],
        ] as const) {
          standby = { database: "postgres://reader@replica/books", behind_ms: behind, problem };
          await page.reload();
          await page.getByText(words).first().waitFor();
          const above = page.locator(".notice-warning").filter({ hasText: words });
          expect(await above.count()).toBe(isAbove ? 1 : 0);
        }
        expect(await viewProblems(page, "console-standby")).toEqual([]);
      });
    });
  });
});
