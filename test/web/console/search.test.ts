import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { startTimeoutMs } from "../../support/binary/gatewayProcess.ts";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import { showView, visitConsole } from "../../support/browser/consoleVisit.ts";
import { accountName, aMillion, fillMonths, monthsConfig } from "../../support/store/months.ts";

const chromium = openChromiumBefore();
let cli: CliFolder;

// A million takes 20 s to write: `bun bench/consoleViews.ts` opens the views on that many.
beforeAll(async () => {
  if (chromiumPath === null) return;
  cli = await openCliFolder(monthsConfig("tollgate.db"));
  fillMonths(cli.database, { ...aMillion, requests: 20_000, untilMs: Date.now() });
}, startTimeoutMs);
afterAll(() => cli?.remove());

/** The texts of a column of the requests that are shown. */
async function shown(page: Page, column: string): Promise<Set<string>> {
  const cells = page.getByRole("table", { name: "Requests" }).locator(`[data-head="${column}"]`);
  return new Set(await cells.allInnerTexts());
}

/** Types into a filter, and resolves when the requests are shown that pass it. */
async function filter(page: Page, label: string, value: string): Promise<void> {
  const answered = page.waitForResponse((response) => response.url().includes("/api/requests?"));
  await page.getByLabel(label, { exact: true }).fill(value);
  await page.keyboard.press("Enter");
  await answered;
}

describe.skipIf(chromiumPath === null)("among many requests", () => {
  test("filters find those of an account, a model, a provider and a cost", async () => {
    await visitConsole(chromium.browser, cli, async (page) => {
      await showView(page, "requests");
      expect((await shown(page, "Account")).size).toBeGreaterThan(2);
      await filter(page, "Account", accountName(1));
      await page.getByText(accountName(2), { exact: true }).first().waitFor({ state: "detached" });
      expect(await shown(page, "Account")).toEqual(new Set([accountName(1)]));
      await filter(page, "Model", "gpt-5");
      await page.getByText("gpt-5-mini", { exact: true }).first().waitFor({ state: "detached" });
      expect(await shown(page, "Model")).toEqual(new Set(["gpt-5"]));
      await filter(page, "Cost from, ₽", "1000000");
      await page.getByText("Nothing found").waitFor();
      // The filters are in the address, so that the way back and a link keep them.
      const filtered = `account=${accountName(1)}&model=gpt-5&cost_min=1000000`;
      await page.waitForURL(({ hash }) => hash.includes(filtered));
      await page.getByRole("button", { name: "Clear filters" }).first().click();
      await page.getByText(accountName(2), { exact: true }).first().waitFor();
    });
  });

  test("more of them load below", async () => {
    await visitConsole(chromium.browser, cli, async (page) => {
      await showView(page, `requests?account=${accountName(1)}`);
      const rows = page.getByRole("table", { name: "Requests" }).locator("tbody tr");
      const before = await rows.count();
      await page.getByRole("button", { name: "Show more" }).click();
      await rows.nth(before).waitFor();
      const cells = await rows.locator("time").all();
      const times = await Promise.all(cells.map((cell) => cell.getAttribute("datetime")));
      const newestFirst = times.toSorted((one, other) => String(other).localeCompare(String(one)));
      expect(times).toEqual(newestFirst);
    });
  });
});
