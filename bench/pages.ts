/**
 * What both pages cost a browser: `bun bench/pages.ts`. Chromium opens them on the data of the demo, with empty caches,
 * at the full speed of the machine and on a CPU that is four times slower. `--runs COUNT` sets the runs of each.
 */
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { bundlePage, pageNames, type PageName } from "../src/http/pages/bundle.ts";
import { startConsole } from "../test/support/binary/consoleProcess.ts";
import { startDemo, type Welcome } from "../test/support/binary/demoProcess.ts";
import { launchChromium } from "../test/support/browser/chromium.ts";
import { quantile } from "./gateway/figures.ts";

const SLOWDOWNS = [1, 4] as const;
const GZIP_BYTES_MAX = 80 * 1024;
const FIRST_PAINT_MS_MAX = 100;
const KB = 1024;
/** https://web.dev/articles/tbt: a task blocks for what it takes beyond this. */
const SHORT_TASK_MS = 50;

/** Milliseconds since the navigation, or in all; bytes as they came, compressed. */
interface Measured {
  readonly firstPaint: number;
  readonly largestPaint: number;
  readonly blocking: number;
  readonly figures: number;
  readonly bytes: number;
}

/** Notes in the page when the first amount of money is shown, and each long task. */
const observer = `
  window.noted = { figures: 0, blocking: 0, largestPaint: 0 };
  const shown = Promise.withResolvers();
  window.figuresShown = shown.promise;
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) noted.blocking += Math.max(duration - ${SHORT_TASK_MS}, 0);
  }).observe({ type: "longtask", buffered: true });
  new PerformanceObserver((list) => {
    for (const { startTime } of list.getEntries()) noted.largestPaint = startTime;
  }).observe({ type: "largest-contentful-paint", buffered: true });
  new MutationObserver((_, own) => {
    if (document.querySelector("main .money") === null) return;
    own.disconnect();
    requestAnimationFrame(() => setTimeout(() => {
      noted.figures = performance.now();
      shown.resolve();
    }));
  }).observe(document, { childList: true, subtree: true });
`;

/** Nothing of the first view comes later. */
const QUIET_MS = 500;

/** Opens the address in a new profile. */
async function measure(browser: Browser, address: string, slowdown: number): Promise<Measured> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  try {
    const page = await context.newPage();
    const debug = await context.newCDPSession(page);
    await debug.send("Emulation.setCPUThrottlingRate", { rate: slowdown });
    await debug.send("Network.enable");
    let bytes = 0;
    debug.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
    await page.addInitScript(observer);
    await page.goto(address);
    await page.evaluate("figuresShown");
    await page.waitForTimeout(QUIET_MS * slowdown);
    const shown = await page.evaluate<Omit<Measured, "bytes">>(`({
      ...noted,
      firstPaint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    })`);
    return { ...shown, bytes };
  } finally {
    await context.close();
  }
}

/** Of the files that a browser may load for this page, each compressed by itself. */
async function gzipBytes(page: PageName): Promise<number> {
  const files = await bundlePage(dirname(import.meta.dir), page);
  return files.reduce((sum, { identity }) => sum + gzipSync(identity, { level: 9 }).byteLength, 0);
}

/** A page with one figure and no script: what Chromium itself takes on this machine. */
const floor = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: () =>
    new Response(
      '<!doctype html><link rel="icon" href="data:,"><main><p class="money">0</p></main>',
      {
        headers: { "content-type": "text/html" },
      },
    ),
});

type Target = PageName | "one figure, no script";

/** Opens the page of the demo, or a console of its own each time: the token of a console is good once. */
async function measureTarget(
  browser: Browser,
  demo: Welcome,
  target: Target,
  slowdown: number,
): Promise<Measured> {
  if (target === "page") return await measure(browser, demo.page, slowdown);
  if (target !== "console") return await measure(browser, floor.url.href, slowdown);
  const folder = { folder: dirname(demo.config), config: demo.config };
  const console = await startConsole(folder);
  try {
    return await measure(browser, console.address, slowdown);
  } finally {
    await console.stop();
  }
}

/** The fastest and the median: other load makes runs slower, never faster. */
function milliseconds(all: readonly Measured[], read: (one: Measured) => number): string {
  const each = all.map(read);
  return `${Math.min(...each).toFixed(0)} / ${(quantile(each, 0.5) ?? 0).toFixed(0)}`;
}

function rowOf(target: Target, slowdown: number, gzip: string, all: readonly Measured[]): string {
  const bytes = Math.min(...all.map((one) => one.bytes));
  const cells = [
    target,
    `${slowdown} x`,
    gzip,
    `${(bytes / KB).toFixed(1)} KB`,
    milliseconds(all, (one) => one.firstPaint),
    milliseconds(all, (one) => one.largestPaint),
    milliseconds(all, (one) => one.figures),
    milliseconds(all, (one) => one.blocking),
  ];
  return `| ${cells.join(" | ")} |`;
}

const head = [
  "| page | CPU slower by | files, gzip | transferred | first paint, ms | largest paint, ms | figures shown, ms | blocked, ms |",
  "| --- | --- | --- | --- | --- | --- | --- | --- |",
];

async function main(runs: number): Promise<void> {
  const demo = await startDemo("--json", "--listen", "127.0.0.1:0");
  const browser = await launchChromium();
  try {
    const welcome = JSON.parse(demo.text) as Welcome;
    console.log(`The fastest and the median of ${runs} runs, Chromium ${browser.version()}.\n`);
    console.log(head.join("\n"));
    const verdicts: string[] = [];
    for (const target of ["one figure, no script", ...pageNames] as const) {
      const isOurs = target !== "one figure, no script";
      const gzip = isOurs ? await gzipBytes(target) : undefined;
      for (const slowdown of SLOWDOWNS) {
        // The first one compiles the code of the server.
        await measureTarget(browser, welcome, target, slowdown);
        const all: Measured[] = [];
        for (let run = 0; run < runs; run += 1)
          all.push(await measureTarget(browser, welcome, target, slowdown));
        console.log(rowOf(target, slowdown, gzip ? `${(gzip / KB).toFixed(1)} KB` : "", all));
        const firstPaint = Math.min(...all.map((one) => one.firstPaint));
        if (!isOurs || slowdown > 1) continue;
        verdicts.push(
          `${target}: first paint under ${FIRST_PAINT_MS_MAX} ms: ${firstPaint < FIRST_PAINT_MS_MAX ? "met" : "MISSED"}`,
          `${target}: at most ${GZIP_BYTES_MAX / KB} KB: ${(gzip ?? 0) <= GZIP_BYTES_MAX ? "met" : "MISSED"}`,
        );
      }
    }
    console.log(`\n${verdicts.join("\n")}`);
  } finally {
    await browser.close();
    await demo.end("SIGINT");
    await floor.stop(true);
  }
}

const { values } = parseArgs({ options: { runs: { type: "string", default: "5" } } });
await main(Number(values.runs));
