/** Makes the screenshots of the README from the data of the demo: `bun scripts/screenshots.ts`. It needs Chromium. */
import { dirname, join, resolve } from "node:path";
import type { Browser } from "playwright-core";
import { startConsole } from "../test/support/binary/consoleProcess.ts";
import { startDemo, type Welcome } from "../test/support/binary/demoProcess.ts";
import { launchChromium } from "../test/support/browser/chromium.ts";
import { settled } from "../test/support/browser/settled.ts";

const docs = resolve(import.meta.dir, "../docs");
const viewport = { width: 1280, height: 900 };
const schemes = { light: "", dark: "-dark" } as const;

/** Opens an address, and makes `docs/NAME.png` and `docs/NAME-dark.png` when its figures and its charts are there. */
async function shoot(browser: Browser, address: string, name: string): Promise<void> {
  const context = await browser.newContext({
    viewport,
    locale: "en-US",
    timezoneId: "UTC",
    reducedMotion: "reduce",
  });
  try {
    const page = await context.newPage();
    await page.goto(address);
    // Headless Chromium leaves the room of a scrollbar empty.
    await page.evaluate('document.documentElement.style.scrollbarGutter = "auto"');
    for (const [colorScheme, suffix] of Object.entries(schemes)) {
      await page.emulateMedia({ colorScheme: colorScheme as keyof typeof schemes });
      await page.locator("main .money").first().waitFor();
      await page.locator("main canvas").first().waitFor();
      await settled(page);
      const path = join(docs, `${name}${suffix}.png`);
      await page.screenshot({ path, animations: "disabled", caret: "hide" });
      console.log(`${path}: ${(Bun.file(path).size / 1000).toFixed(0)} KB`);
    }
  } finally {
    await context.close();
  }
}

const demo = await startDemo("--json", "--listen", "127.0.0.1:0");
const browser = await launchChromium();
try {
  const welcome = JSON.parse(demo.text) as Welcome;
  await shoot(browser, welcome.page, "page");
  const { config } = welcome;
  const operator = await startConsole({ config, folder: dirname(config) });
  try {
    await shoot(browser, operator.address, "console");
  } finally {
    await operator.stop();
  }
} finally {
  await browser.close();
  await demo.end("SIGINT");
}
