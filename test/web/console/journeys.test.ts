import OpenAI, { APIError } from "openai";
import { afterEach, describe, expect, test } from "bun:test";
import type { Locator, Page } from "playwright-core";
import { openBinaryBefore } from "../../support/binary/gatewayBefore.ts";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import { showView, visitConsole } from "../../support/browser/consoleVisit.ts";
import { tabTo } from "../../support/browser/keyboard.ts";
import { settled } from "../../support/browser/settled.ts";
import type { VisitOptions } from "../../support/browser/visit.ts";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { startProvider } from "../../support/provider/scriptedProvider.ts";

const chromium = openChromiumBefore();
const provider = startProvider(usual);
const setup = openBinaryBefore(oneModel(`http://127.0.0.1:${provider.port}/v1`), provider);
afterEach(() => setup.gateway.expectAuditPasses());

/** The charge of the usual answer in roubles. */
const usualCost = "0.0018025";

async function withConsole(
  work: (page: Page) => Promise<void>,
  options?: VisitOptions,
): Promise<void> {
  await visitConsole(chromium.browser, setup.gateway.cli, work, options);
}

/** The status of one chat request with this key, and the request's id. */
async function chat(key: string): Promise<{ status: number; id: string }> {
  const client = new OpenAI({ baseURL: `${setup.gateway.url}/v1`, apiKey: key, maxRetries: 0 });
  const messages = [{ role: "user" as const, content: "hello" }];
  try {
    const { response, request_id: id } = await client.chat.completions
      .create({ model: "small", messages })
      .withResponse();
    return { status: response.status, id: id ?? "" };
  } catch (error) {
    if (error instanceof APIError) return { status: Number(error.status), id: "" };
    throw error;
  }
}

async function balanceOf(account: string): Promise<unknown> {
  const { cli } = setup.gateway;
  return ((await cli.json("balance", "show", account)) as { balance_rub: unknown }).balance_rub;
}

/** The figure before and after a change, as a dialog shows it. */
async function changeOf(dialog: Locator, figure: string): Promise<string[]> {
  const changed = dialog.locator(".changed", { hasText: figure });
  return await changed.locator(".changed-before, .changed-after").allInnerTexts();
}

describe.skipIf(chromiumPath === null)("an account", () => {
  test("is credited, with the balance before and after", async () => {
    await setup.gateway.key("bob", "1000");
    await withConsole(async (page) => {
      await page.getByRole("link", { name: "Accounts", exact: true }).click();
      await page.getByLabel("Search accounts").fill("bo");
      await page.getByRole("link", { name: "bob" }).click();
      await page.getByRole("button", { name: "Credit" }).click();
      const dialog = page.getByRole("dialog", { name: "Credit bob" });
      await dialog.getByLabel("Amount").fill("250.5");
      await dialog.getByLabel("Note").fill("invoice 7");
      expect(await changeOf(dialog, "Balance")).toEqual(["₽1,000.00", "₽1,250.50"]);
      await dialog.getByRole("button", { name: "Credit" }).click();
      await page.getByText("₽250.50 credited to bob").waitFor();
      const entry = page.getByRole("table", { name: "Ledger" }).getByRole("row").nth(1);
      await entry.getByText("invoice 7").waitFor();
      expect(await entry.innerText()).toMatch(/credit\s+₽250\.50\s+₽1,250\.50/);
    });
    expect(await balanceOf("bob")).toBe("1250.5");
  });

  test("is not credited with a text that is no amount, in the words of the command", async () => {
    await setup.gateway.key("carol", "1");
    const { stderr } = await setup.gateway.cli.run("balance", "credit", "carol", "1.2.3");
    const work = async (page: Page): Promise<void> => {
      await showView(page, "accounts/carol");
      await page.getByRole("button", { name: "Credit" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Amount").fill("1.2.3");
      await page.keyboard.press("Enter");
      const said = await dialog.locator(".field-error").innerText();
      expect(stderr).toContain(said);
      // The field that is wrong has the focus.
      await dialog.getByLabel("Amount").and(page.locator(":focus")).waitFor();
    };
    await withConsole(work, { refusals: [400] });
    expect(await balanceOf("carol")).toBe("1");
  });

  test("shows a change by a command without a reload", async () => {
    await setup.gateway.key("dave", "7");
    await withConsole(async (page) => {
      await showView(page, "accounts/dave");
      await page.getByText("₽7.00").first().waitFor();
      await setup.gateway.cli.json("balance", "credit", "dave", "5", "--note", "by a command");
      await page.getByText("₽12.00").first().waitFor();
      await page.getByText("by a command").waitFor();
    });
  });

  test("is credited without a mouse", async () => {
    await setup.gateway.key("erin", "1");
    await withConsole(async (page) => {
      await tabTo(page, page.getByRole("link", { name: "Accounts", exact: true }));
      await page.keyboard.press("Enter");
      await tabTo(page, page.getByLabel("Search accounts"));
      await page.keyboard.type("erin");
      await tabTo(page, page.getByRole("link", { name: "erin" }));
      await page.keyboard.press("Enter");
      await tabTo(page, page.getByRole("button", { name: "Credit" }));
      await page.keyboard.press("Enter");
      // The amount has the focus.
      await page.getByRole("dialog").getByLabel("Amount").and(page.locator(":focus")).waitFor();
      await page.keyboard.type("2");
      await page.keyboard.press("Enter");
      await page.getByText("₽2.00 credited to erin").waitFor();
      // The focus returns to where it was.
      await page.getByRole("button", { name: "Credit" }).and(page.locator(":focus")).waitFor();
    });
    expect(await balanceOf("erin")).toBe("3");
  });
});

describe.skipIf(chromiumPath === null)("a key", () => {
  test("is created, works at once, is shown once, and stops when it is revoked", async () => {
    await withConsole(async (page) => {
      await showView(page, "keys");
      await page.getByRole("button", { name: "New key" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Account").fill("alice");
      await dialog.getByLabel("Label").fill("made in a browser");
      await dialog.getByRole("button", { name: "Create the key" }).click();
      const key = await dialog.locator(".secret code").innerText();
      expect((await chat(key)).status).toBe(200);

      // It asks before the key is gone.
      await page.keyboard.press("Escape");
      await dialog.getByText("You have not copied it yet.").waitFor();
      await dialog.getByRole("button", { name: "Close without a copy" }).click();
      await dialog.waitFor({ state: "detached" });
      expect(await page.content()).not.toContain(key);

      await page.getByRole("link", { name: "made in a browser" }).click();
      await page.getByRole("button", { name: "Revoke" }).click();
      expect(await changeOf(dialog, "State")).toEqual(["active", "revoked"]);
      await dialog.getByRole("button", { name: "Revoke the key" }).click();
      await page.getByText("The key is revoked").waitFor();
      expect((await chat(key)).status).toBe(401);
    });
  });
});

describe.skipIf(chromiumPath === null)("a request", () => {
  test("is found by its account, and its charge is refunded", async () => {
    const { id } = await chat(await setup.gateway.key("frank", "10"));
    await setup.gateway.unreserved("frank");
    await withConsole(async (page) => {
      await showView(page, "requests");
      await page.getByLabel("Account").fill("frank");
      await page.keyboard.press("Enter");
      const list = page.getByRole("table", { name: "Requests" });
      await settled(page);
      expect(await list.getByRole("rowheader").count()).toBe(1);
      await list.getByRole("rowheader").getByRole("link").click();
      await page.getByRole("heading", { name: id }).waitFor();
      await page.getByRole("button", { name: "Refund" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("₽9.9981975").waitFor();
      expect(await changeOf(dialog, "Balance of frank")).toEqual(["₽9.9981975", "₽10.00"]);
      expect(await changeOf(dialog, "Left of the charge")).toEqual([`₽${usualCost}`, "₽0.00"]);
      await dialog.getByRole("button", { name: "Refund" }).click();
      await page.getByText(`₽${usualCost} refunded to frank`).waitFor();
    });
    expect(await balanceOf("frank")).toBe("10");
  });
});

describe.skipIf(chromiumPath === null)("vouchers", () => {
  test("are created, and show who redeemed them without a reload", async () => {
    const key = await setup.gateway.key("grace", "0");
    await withConsole(async (page) => {
      await showView(page, "vouchers");
      await page.getByRole("button", { name: "New vouchers" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Amount").fill("50");
      await dialog.getByLabel("How many").fill("2");
      expect(await changeOf(dialog, "Worth of the new codes")).toEqual(["₽0.00", "₽100.00"]);
      await dialog.getByRole("button", { name: "Create the vouchers" }).click();
      const codes = (await dialog.locator(".codes pre").innerText()).split("\n");
      expect(codes).toHaveLength(2);
      await page.keyboard.press("Escape");
      await dialog.getByRole("button", { name: "Close without a copy" }).click();

      const redeemed = await fetch(`${setup.gateway.url}/v1/vouchers/redeem`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ code: codes[0] }),
      });
      expect(redeemed.status).toBe(200);
      await page.getByRole("link", { name: "grace" }).waitFor();

      await page.getByRole("button", { name: /^Revoke the voucher/ }).click();
      await dialog.getByRole("button", { name: "Revoke the voucher" }).click();
      await page.getByText("The voucher is revoked").waitFor();
    });
    expect(await balanceOf("grace")).toBe("50");
  });
});

describe.skipIf(chromiumPath === null)("the audit", () => {
  test("runs, and shows what it proved", async () => {
    await withConsole(async (page) => {
      await showView(page, "audit");
      await page.getByRole("button", { name: "Run the audit" }).click();
      await page.getByText("The ledger is consistent").waitFor();
      await page.getByText("What it proved").waitFor();
    });
  });
});
