import OpenAI from "openai";
import { afterEach, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { openBinaryBefore } from "../../support/binary/gatewayBefore.ts";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import { tabTo } from "../../support/browser/keyboard.ts";
import { visit, type VisitOptions } from "../../support/browser/visit.ts";
import {
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  thereEvent,
  usageEvent,
  usual,
} from "../../support/provider/chatAnswers.ts";
import {
  piece,
  startProvider,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";

const chromium = openChromiumBefore();
const provider = startProvider(usual);
const setup = openBinaryBefore(
  {
    providers: { local: `http://127.0.0.1:${provider.port}/v1` },
    models: [{ id: "small", routes: [{ provider: "local" }] }],
    sections: {
      page: { contact: "https://example.com/buy" },
      billing: { disconnect_grace: "100ms" },
    },
  },
  provider,
);
afterEach(() => provider.forget());

/** The charge of the usual answer: 12 tokens x 25, 5 cached x 2.5, 3 written x 30 and 7 x 200 roubles per 1M. */
const usualCost = "₽0.0018025";

/** Opens the page with a key in its address, and runs `work` when the account is shown. */
async function withKey(
  key: string,
  work: (page: Page) => Promise<void>,
  options?: VisitOptions,
): Promise<void> {
  const address = `${setup.gateway.url}/#key=${key}`;
  const opened = async (page: Page): Promise<void> => {
    await page.getByRole("link", { name: "Overview" }).waitFor();
    await work(page);
  };
  await visit(chromium.browser, address, opened, options);
}

/** One request by the official client; returns its id. */
async function chargedRequest(key: string): Promise<string> {
  const client = new OpenAI({ baseURL: `${setup.gateway.url}/v1`, apiKey: key, maxRetries: 0 });
  const messages = [{ role: "user" as const, content: "hello" }];
  const { request_id: id } = await client.chat.completions
    .create({ model: "small", messages })
    .withResponse();
  return id ?? "";
}

/** The value of a figure of the overview. */
async function figure(page: Page, label: string): Promise<string> {
  const term = page.locator("dt", { hasText: new RegExp(`^${label}$`) });
  return await page.locator("div", { has: term }).last().locator("dd").first().innerText();
}

const loginField = (page: Page) => page.getByLabel("API key");

async function login(page: Page, key: string): Promise<void> {
  await loginField(page).fill(key);
  await page.getByRole("button", { name: "Open", exact: true }).click();
}

describe.skipIf(chromiumPath === null)("the login", () => {
  test("takes a pasted key, and keeps it in memory alone", async () => {
    await visit(chromium.browser, setup.gateway.url, async (page) => {
      await login(page, ` ${setup.key}\n`);
      await page.getByRole("heading", { name: "alice" }).waitFor();
      expect(await figure(page, "Balance")).toContain("₽1,000.00");
      const kept = "[localStorage.length, sessionStorage.length, document.cookie]";
      expect(await page.evaluate(kept)).toEqual([0, 0, ""]);
      await page.reload();
      expect(await loginField(page).inputValue()).toBe("");
    });
  });

  test("says that a key is wrong, and then takes the right one", async () => {
    const work = async (page: Page): Promise<void> => {
      await page.getByRole("button", { name: "Open", exact: true }).click();
      await page.getByText("Paste the key first.").waitFor();
      await login(page, "sk-tg-0000000000000000000000000000000000000000000");
      await page.getByText("The gateway does not accept this key.").waitFor();
      await login(page, setup.key);
      await page.getByRole("heading", { name: "alice" }).waitFor();
    };
    await visit(chromium.browser, setup.gateway.url, work, { refusals: [401] });
  });

  test("takes the key of the address, which leaves the address and the history at once", async () => {
    await withKey(setup.key, async (page) => {
      await page.waitForURL(`${setup.gateway.url}/#/`);
      // The blank page of the new tab, and this one.
      expect(await page.evaluate("history.length")).toBe(2);
      await page.reload();
      await loginField(page).waitFor();
      await page.goBack();
      await page.goForward();
      expect(page.url()).not.toContain("sk-tg-");
      expect(await loginField(page).inputValue()).toBe("");
    });
  });

  test("lasts over a reload where the holder stays on this tab, until the holder signs out", async () => {
    await visit(chromium.browser, setup.gateway.url, async (page) => {
      await page.getByLabel("Stay on this tab").check();
      await login(page, setup.key);
      await page.getByRole("heading", { name: "alice" }).waitFor();
      await page.reload();
      await page.getByRole("heading", { name: "alice" }).waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await loginField(page).waitFor();
      expect(await page.evaluate("sessionStorage.length")).toBe(0);
      await page.reload();
      await loginField(page).waitFor();
    });
  });

  test("comes back when the key is revoked while the page is open", async () => {
    const key = await setup.gateway.key("mallory", "10");
    const work = async (page: Page): Promise<void> => {
      const [{ id } = { id: "" }] = (await setup.gateway.cli.json(
        "keys",
        "list",
        "--account",
        "mallory",
      )) as { id: string }[];
      await setup.gateway.cli.json("keys", "revoke", id);
      await setup.gateway.toldOfChanges();
      await page.clock.fastForward(30_000);
      await page.getByText("The gateway no longer accepts the key.").waitFor();
      expect(await page.getByText("mallory").count()).toBe(0);
    };
    await withKey(key, work, { refusals: [401], hasOwnClock: true });
  });
});

describe.skipIf(chromiumPath === null)("a charge", () => {
  test("appears after a request, without a reload", async () => {
    const key = await setup.gateway.key("bob", "100");
    const work = async (page: Page): Promise<void> => {
      await page.getByText("No requests yet").waitFor();
      await chargedRequest(key);
      await page.clock.fastForward(30_000);
      const row = page
        .getByRole("table", { name: "Last requests" })
        .getByRole("row", { name: "small" });
      await row.getByText(usualCost).waitFor();
      await page.getByText("₽99.9981975").or(page.getByTitle("₽99.9981975")).first().waitFor();
    };
    await withKey(key, work, { hasOwnClock: true });
  });

  test("is written out in its receipt, with its attempts", async () => {
    const key = await setup.gateway.key("carol", "100");
    const id = await chargedRequest(key);
    await withKey(key, async (page) => {
      await page.getByRole("link", { name: "Requests", exact: true }).click();
      await page
        .getByRole("table", { name: "Requests" })
        .getByRole("rowheader")
        .getByRole("link")
        .click();
      await page.getByRole("heading", { name: `Receipt ${id}` }).waitFor();
      const sum = page.getByRole("table", { name: "How the cost came about" });
      await sum.getByText("Charged").waitFor();
      const rows = (await sum.getByRole("row").allInnerTexts()).map((row) => row.split(/\s*\t\s*/));
      expect(rows.slice(1)).toEqual([
        ["Prompt, not cached", "12", "× ₽25.00 per 1M", "= ₽0.0003"],
        ["Prompt from the cache", "5", "× ₽2.50 per 1M", "= ₽0.0000125"],
        ["Written to the cache", "3", "× ₽30.00 per 1M", "= ₽0.00009"],
        ["Answer", "7", "× ₽200.00 per 1M", "= ₽0.0014"],
        ["Charged", usualCost],
      ]);
      await page.getByText("answered").waitFor();
    });
  });
});

describe.skipIf(chromiumPath === null)("try it", () => {
  /** Opens the chat and asks. */
  async function ask(page: Page): Promise<void> {
    await page.getByRole("link", { name: "Try it" }).click();
    await page.getByLabel("Message").fill("hello");
    await page.getByLabel("Message").press("Enter");
  }

  test("streams an answer, and shows what it was charged", async () => {
    const key = await setup.gateway.key("dave", "100");
    const goOn = Promise.withResolvers<void>();
    provider.answer = async (peer) => {
      await peer.send(streamHead);
      for (const event of [roleEvent, helloEvent]) await peer.send(piece(event));
      await goOn.promise;
      for (const event of [thereEvent, stopEvent, usageEvent, doneEvent])
        await peer.send(piece(event));
      await peer.send(streamEnd);
    };
    await withKey(key, async (page) => {
      await ask(page);
      await page.getByText("Hello", { exact: true }).waitFor();
      goOn.resolve();
      await page.getByText("Hello there", { exact: true }).waitFor();
      await page.locator(".charge", { hasText: usualCost }).waitFor();
      const charge = await page.locator(".charge").innerText();
      expect(charge).toMatch(/prompt 20 \(cached 5\)\s*answer 7/);
    });
  });

  test("can be stopped amid an answer, and shows what that was charged", async () => {
    const key = await setup.gateway.key("erin", "100");
    provider.answer = async (peer) => {
      await peer.send(streamHead);
      for (const event of [roleEvent, helloEvent]) await peer.send(piece(event));
    };
    const work = async (page: Page): Promise<void> => {
      await ask(page);
      await page.getByText("Hello", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Stop" }).click();
      await page.getByText("Stopped. What the provider had sent is charged.").waitFor();
      await page.locator(".charge", { hasText: "estimated" }).waitFor();
      const [request] = (await setup.gateway.cli.json("requests", "--account", "erin")) as {
        id: string;
        cost_rub: string;
        status: string;
      }[];
      expect(request?.status).toBe("cancelled");
      await page.locator(".charge", { hasText: `₽${request?.cost_rub}` }).waitFor();
    };
    // The page asks for the receipt until there is one.
    await withKey(key, work, { refusals: [404] });
  });
});

describe.skipIf(chromiumPath === null)("a voucher", () => {
  test("is redeemed once, and changes the balance", async () => {
    const key = await setup.gateway.key("frank", "1");
    const made = (await setup.gateway.cli.json("vouchers", "create", "--amount", "500")) as {
      code: string;
    }[];
    const code = made[0]?.code ?? "";
    const redeem = async (page: Page, text: string): Promise<void> => {
      await page.getByLabel("Voucher code").fill(text);
      await page.getByRole("button", { name: "Redeem" }).click();
    };
    const work = async (page: Page): Promise<void> => {
      await redeem(page, "not a code");
      await page.getByText("code has a typing error").waitFor();
      await redeem(page, code.toLowerCase());
      await page.getByText("₽500.00 added").waitFor();
      await page.getByText("₽501.00").nth(1).waitFor();
      expect(await figure(page, "Balance")).toContain("₽501.00");
      await redeem(page, code);
      await page.getByText("already redeemed").waitFor();
    };
    await withKey(key, work, { refusals: [400] });
  });
});

describe.skipIf(chromiumPath === null)("a link with another key", () => {
  test("cannot get a voucher unseen: its field names the account", async () => {
    const other = await setup.gateway.key("mallory", "1");
    await withKey(await setup.gateway.key("victim", "1"), async (page) => {
      await page.getByText("Adds to the account victim").waitFor();
      await page.evaluate(`location.hash = "#key=${other}"`);
      await page.getByText("Adds to the account mallory").waitFor();
      await page.waitForURL(`${setup.gateway.url}/#/`);
    });
  });
});

describe.skipIf(chromiumPath === null)("without a mouse", () => {
  test("one comes from the login to a receipt", async () => {
    const key = await setup.gateway.key("grace", "100");
    await chargedRequest(key);
    await visit(chromium.browser, setup.gateway.url, async (page) => {
      // The field has the focus.
      await page.keyboard.type(key);
      await page.keyboard.press("Enter");
      await tabTo(page, page.getByRole("link", { name: "Requests", exact: true }));
      await page.keyboard.press("Enter");
      const list = page.getByRole("table", { name: "Requests" });
      await tabTo(page, list.getByRole("rowheader").getByRole("link"));
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Receipt" }).waitFor();
      await page.getByText(usualCost).first().waitFor();
    });
  });
});
