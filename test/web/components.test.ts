import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { ASSETS_PATH, bundleHtml } from "../../src/http/pages/bundle.ts";
import { pageResponse } from "../../src/http/pages/pages.ts";
import { chromiumPath, openChromiumBefore } from "../support/browser/chromium.ts";
import { viewProblems } from "../support/browser/inspection.ts";
import { visit, type VisitOptions } from "../support/browser/visit.ts";

const chromium = openChromiumBefore();
const files = await bundleHtml(join(import.meta.dir, "gallery/index.html"));
const page = new Map(
  files.map((file) => [file.name === "index.html" ? "/" : ASSETS_PATH + file.name, file]),
);
const site = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: (request) =>
    pageResponse(page, new URL(request.url).pathname, request) ??
    new Response("not found", { status: 404 }),
});
afterAll(() => void site.stop(true));

async function inGallery(work: (page: Page) => Promise<void>, options?: VisitOptions) {
  await visit(chromium.browser, site.url.href, work, options);
}

/** Catches what the page copies, also where the browser has no clipboard to read from. */
const catchCopies = `window.copied = [];
navigator.clipboard.writeText = async (text) => void window.copied.push(text);`;
const copied = (page: Page) => page.evaluate<string[]>("window.copied");
const focused = (page: Page) => page.locator(":focus");

describe.skipIf(chromiumPath === null)("the components", () => {
  test("have nothing that axe or a narrow screen finds", () =>
    inGallery(async (page) => expect(await viewProblems(page, "components")).toEqual([])));

  test("do not scroll sideways on a very wide screen", () =>
    inGallery(
      async (page) => {
        expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(
          true,
        );
      },
      { viewport: { width: 3840, height: 2160 } },
    ));

  test("show text from elsewhere as text, with its control characters", () =>
    inGallery(async (page) => {
      const cell = page.locator("tbody .clip").nth(1);
      expect(await cell.textContent()).toStartWith(
        "\\u202e\\u0007<img src=x onerror=alert(1)>=1+1w",
      );
      expect((await cell.boundingBox())?.height).toBeLessThan(30);
      expect(await page.locator("img").count()).toBe(0);
      expect(await page.getByText("no shop", { exact: true }).locator("a").count()).toBe(0);
      expect(await page.getByRole("link", { name: /^shop/ }).getAttribute("rel")).toBe(
        "noopener noreferrer",
      );
    }));

  test("sort a table by exact amounts, and copy it as CSV that runs no formula", () =>
    inGallery(async (page) => {
      await page.evaluate(catchCopies);
      const table = page.getByRole("table", { name: "Requests" });
      await table.getByRole("button", { name: "Cost" }).click();
      const head = table.getByRole("columnheader", { name: "Cost" });
      expect(await head.getAttribute("aria-sort")).toBe("descending");
      expect(await table.locator("tbody tr td:nth-child(4)").allInnerTexts()).toEqual([
        "₽12.000000001",
        "₽0.50",
        "-₽3.00",
      ]);
      await page.getByRole("button", { name: "Copy CSV: Requests" }).click();
      const [csv = ""] = await copied(page);
      expect(csv.split("\r\n").map((line) => line.replace(/w{9,}/, "w"))).toEqual([
        "Time,Model,Tokens,Cost,Status",
        "2026-11-24T11:00:00Z,\u202E\u0007<img src=x onerror=alert(1)>=1+1w,9,12.000000001,failed",
        "2026-11-24T12:00:00Z,large,12000,0.5,done",
        "2026-11-24T10:00:00Z,small,100,-3,running",
      ]);
      expect(await page.getByRole("status").first().innerText()).toContain("Copied 3 rows as CSV");
    }));

  test("return the focus from a dialog, and show a failure in it", () =>
    inGallery(async (page) => {
      const opener = page.locator(".opener").first();
      await opener.focus();
      await page.keyboard.press("Enter");
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Credited amount").and(focused(page)).waitFor();
      await page.keyboard.press("Enter");
      await dialog.getByRole("alert").waitFor();
      expect(await dialog.getByRole("alert").innerText()).toContain("Try again in 40 seconds.");
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
      await opener.and(focused(page)).waitFor();
    }));

  test("copy without the browser's clipboard, and say so within a dialog", () =>
    inGallery(async (page) => {
      await page.evaluate(`Object.defineProperty(navigator, "clipboard", { value: undefined });
        window.copied = [];
        document.execCommand = () => (window.copied.push(document.activeElement.value), true);`);
      await page.locator(".opener").first().click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Copy: the amount" }).click();
      expect(await copied(page)).toEqual(["from the dialog"]);
      await dialog.getByRole("status").getByText("Copied").waitFor();
    }));

  test("read a chart by keyboard and as a table, with exact sums", () =>
    inGallery(async (page) => {
      await page.evaluate(catchCopies);
      const plot = page.getByRole("slider", { name: /^Spend/ });
      await plot.focus();
      await page.keyboard.press("End");
      await page.keyboard.press("ArrowLeft");
      const spoken = (await plot.getAttribute("aria-valuetext")) ?? "";
      expect(spoken).toStartWith("Monday, November 23, Total ₽36.00, ");
      // Seven with a colour of their own, and the rest together.
      expect(spoken).toContain("3 others ₽");
      const chart = page.getByRole("figure").filter({ has: plot });
      await page
        .getByRole("group", { name: "Form: Spend" })
        .getByLabel("Table")
        .check({ force: true });
      const table = page.getByRole("table", { name: "Spend" });
      expect(await table.locator("tbody tr").nth(1).locator("td").first().innerText()).toBe(
        "₽36.00000001",
      );
      expect(await table.getByRole("columnheader").count()).toBe(12);
      await page.getByRole("button", { name: "Copy CSV: Spend" }).click();
      expect((await copied(page))[0]?.split("\r\n")[2]).toStartWith("2026-11-23,36.00000001,");
      expect(await chart.count()).toBe(0);
    }));

  test("draw a chart anew in the colours of the other scheme", () =>
    inGallery(async (page) => {
      // Undefined while one canvas is gone and the other is not there yet.
      const drawn = "document.querySelector('.plot canvas')?.toDataURL()";
      await page.evaluate(`window.light = ${drawn}`);
      await page.emulateMedia({ colorScheme: "dark" });
      // Not by waitForFunction: its second look would be an eval, which the page's policy refuses.
      await page.evaluate(`new Promise((done) => {
        const look = () =>
          [undefined, window.light].includes(${drawn}) ? requestAnimationFrame(look) : done();
        look();
      })`);
    }));

  test("move between tabs by arrow keys", () =>
    inGallery(async (page) => {
      await page.getByRole("tab", { name: "First" }).focus();
      await page.keyboard.press("ArrowRight");
      await page.getByText("The second panel").waitFor();
      await page.getByRole("tab", { name: "Second" }).and(focused(page)).waitFor();
    }));
});
