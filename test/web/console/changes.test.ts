import { afterEach, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { openBinaryBefore } from "../../support/binary/gatewayBefore.ts";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import { showView, visitConsole } from "../../support/browser/consoleVisit.ts";
import type { VisitOptions } from "../../support/browser/visit.ts";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { startProvider } from "../../support/provider/scriptedProvider.ts";

const chromium = openChromiumBefore();
const provider = startProvider(usual);
const setup = openBinaryBefore(oneModel(`http://127.0.0.1:${provider.port}/v1`), provider);
afterEach(() => setup.gateway.expectAuditPasses());

async function withConsole(
  work: (page: Page) => Promise<void>,
  options?: VisitOptions,
): Promise<void> {
  await visitConsole(chromium.browser, setup.gateway.cli, work, options);
}

async function credit(account: string, amount: string, ref: string): Promise<void> {
  await setup.gateway.cli.run("balance", "credit", account, amount, "--ref", ref);
}

/** Credits one rouble `count` times by the API of the console, which is faster than the command. */
async function creditOften(page: Page, account: string, count: number): Promise<void> {
  const post = `fetch("/api/accounts/${account}/credit", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-tollgate-console": localStorage.getItem("tollgate-console"),
    },
    body: '{"amount":"1"}',
  })`;
  await page.evaluate(`(async () => { for (let n = 0; n < ${count}; n++) await ${post}; })()`);
}

describe.skipIf(chromiumPath === null)("when the store changes", () => {
  test("a list keeps its opened pages and its place", async () => {
    await setup.gateway.key("ann", "1000");
    await withConsole(async (page) => {
      await creditOften(page, "ann", 120);
      await showView(page, "accounts/ann");
      const rows = page.getByRole("table", { name: "Ledger" }).locator("tbody tr");
      await page.getByRole("button", { name: "Show more" }).click();
      await rows.nth(99).waitFor();
      // The balance after an entry names its row.
      const row = rows.nth(80);
      const balance = await row.locator("td").nth(2).innerText();
      await row.scrollIntoViewIfNeeded();
      const before = await row.boundingBox();
      await credit("ann", "7", "from outside");
      await rows.first().getByText("from outside").waitFor();
      const same = rows.filter({ hasText: balance });
      expect(await rows.count()).toBeGreaterThanOrEqual(100);
      expect(Math.abs(((await same.boundingBox())?.y ?? 0) - (before?.y ?? 0))).toBeLessThan(2);
    });
  });

  test("a dialog keeps what is typed, and its figures follow", async () => {
    await setup.gateway.key("bob", "1000");
    await withConsole(async (page) => {
      await showView(page, "accounts/bob");
      await page.getByRole("button", { name: "Debit" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Amount").fill("5");
      await dialog.getByLabel("Note").fill("half a note");
      const ref = await dialog.getByLabel("Ref").inputValue();
      await credit("bob", "7", "meanwhile");
      await dialog.getByText("₽1,002.00").first().waitFor();
      expect(await dialog.getByLabel("Note").inputValue()).toBe("half a note");
      expect(await dialog.getByLabel("Ref").inputValue()).toBe(ref);
    });
  });
});

describe.skipIf(chromiumPath === null)("a credit", () => {
  test("counts once if its button is hit twice, its answer is lost and it is sent again", async () => {
    await setup.gateway.key("carol", "1000");
    let calls = 0;
    const work = async (page: Page): Promise<void> => {
      await page.route("**/credit", async (route) => {
        calls++;
        if (calls > 1) return route.continue();
        await route.fetch();
        return route.abort("connectionrefused");
      });
      await showView(page, "accounts/carol");
      await page.getByRole("button", { name: "Credit" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Amount").fill("50");
      await dialog.getByRole("button", { name: "Credit" }).dblclick();
      await dialog.getByText("may have been made all the same").waitFor();
      expect(calls).toBe(1);
      await dialog.getByRole("button", { name: "Credit" }).click();
      await dialog.getByText("Nothing changed").waitFor();
    };
    await withConsole(work, { mayLoseConnection: true });
    expect(await setup.gateway.cli.json("balance", "show", "carol")).toMatchObject({
      balance_rub: "1050",
    });
  });
});

describe.skipIf(chromiumPath === null)("filters", () => {
  test("are in the address, and the way back keeps them", async () => {
    const key = await setup.gateway.key("erin", "1000");
    const answer = await fetch(`${setup.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "small", messages: [{ role: "user", content: "hello" }] }),
    });
    expect(answer.status).toBe(200);
    await withConsole(async (page) => {
      await showView(page, "requests?account=erin&status=done");
      expect(await page.getByLabel("Account").inputValue()).toBe("erin");
      await page.getByLabel("Model").fill("small");
      await page.keyboard.press("Enter");
      await page.getByRole("table").getByRole("link").first().click();
      await page.getByRole("heading", { name: /^Request req_/ }).waitFor();
      await page.goBack();
      await page.getByLabel("Model").waitFor();
      expect(await page.getByLabel("Model").inputValue()).toBe("small");
      await page.waitForURL(/#\/requests\?account=erin&status=done&model=small$/);
      await page.getByRole("button", { name: "Clear filters" }).click();
      await page.waitForURL(/#\/requests$/);
    });
  });
});
