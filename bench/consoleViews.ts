/**
 * What the console's views take in Chromium on a store of a million requests: `bun bench/consoleViews.ts`. A view is there
 * when nothing of it loads any more. `--requests COUNT` makes another size, `--runs COUNT` sets the runs of each.
 */
import { parseArgs } from "node:util";
import type { Page } from "playwright-core";
import { openCliFolder } from "../test/support/binary/cli.ts";
import { visitConsole } from "../test/support/browser/consoleVisit.ts";
import { launchChromium } from "../test/support/browser/chromium.ts";
import { accountName, aMillion, fillMonths, monthsConfig } from "../test/support/store/months.ts";
import { quantile } from "./gateway/figures.ts";

/** Each view has to be there within this time. */
const VIEW_MS_MAX = 300;

const views: Readonly<Record<string, string>> = {
  "overview, 30 days": "",
  accounts: "accounts",
  "account with most requests, 30 days": `accounts/${accountName(1)}`,
  "the same, 90 days": `accounts/${accountName(1)}?span=90d`,
  keys: "keys",
  requests: "requests",
  "requests of the busiest account": `requests?account=${accountName(1)}`,
  "requests of a model": "requests?model=gpt-5-mini",
  "requests, failed": "requests?status=failed",
  "requests above 3 roubles": "requests?cost_min=3",
  "requests that do not exist": "requests?model=no-such-model",
  "providers, 7 days": "providers",
  vouchers: "vouchers",
};

/** Goes to a view by its address within the page. Resolves with the milliseconds until nothing of it loads. */
async function openingMs(page: Page, fragment: string): Promise<number> {
  return await page.evaluate<number>(`new Promise((resolve) => {
    const startedMs = performance.now();
    let quietSinceMs;
    const isLoading = () => document.querySelector('[aria-busy="true"], .skeleton, .skeleton-block') !== null;
    const look = () => {
      const nowMs = performance.now();
      if (isLoading()) quietSinceMs = undefined;
      else quietSinceMs ??= nowMs;
      // A frame shows what is loaded, and nothing more begins to load after it.
      if (quietSinceMs !== undefined && nowMs - quietSinceMs > 50) resolve(quietSinceMs - startedMs);
      else requestAnimationFrame(look);
    };
    location.hash = ${JSON.stringify(`#/${fragment}`)};
    requestAnimationFrame(look);
  })`);
}

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: String(aMillion.requests) },
    runs: { type: "string", default: "5" },
  },
});
const requests = Number(values.requests);
const runs = Number(values.runs);
const cli = await openCliFolder(monthsConfig("tollgate.db"));
const browser = await launchChromium();
try {
  const startedMs = performance.now();
  fillMonths(cli.database, { ...aMillion, requests, untilMs: Date.now() });
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
  console.log(`${requests.toLocaleString("en")} requests, written in ${seconds} s\n`);
  console.log("| view | median of " + runs + ", ms | longest |\n| --- | --- | --- |");
  await visitConsole(browser, cli, async (page) => {
    for (const [name, fragment] of Object.entries(views)) {
      const all: number[] = [];
      for (let run = 0; run < runs; run += 1) {
        await openingMs(page, "audit");
        all.push(await openingMs(page, fragment));
      }
      const median = quantile(all, 0.5) ?? 0;
      const verdict = median <= VIEW_MS_MAX ? "met" : "MISSED";
      console.log(`| ${name} | ${median.toFixed(0)} ${verdict} | ${Math.max(...all).toFixed(0)} |`);
    }
  });
} finally {
  await browser.close();
  await cli.remove();
}
