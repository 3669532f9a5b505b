import { afterAll, beforeAll } from "bun:test";
import { chromium, type Browser } from "playwright-core";

/** The path of Chromium; null if it is not installed. */
export const chromiumPath =
  Bun.which("chromium") ?? Bun.which("chromium-browser") ?? Bun.which("google-chrome");

/** Launching takes under a second, unless all cores are busy. */
const launchTimeoutMs = 30_000;

/** Starts a headless Chromium. Close it, also after a failure. */
export async function launchChromium(): Promise<Browser> {
  if (chromiumPath === null) throw new Error("Chromium is not installed");
  return await chromium.launch({
    executablePath: chromiumPath,
    timeout: launchTimeoutMs,
    // Chromium has no sandbox for root, and containers give it little shared memory.
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
  });
}

/** One Chromium for the tests of a file: it is there from the first test on. Without Chromium, nothing happens. */
export function openChromiumBefore(): { readonly browser: Browser } {
  let browser: Browser | undefined;
  beforeAll(async () => {
    if (chromiumPath !== null) browser = await launchChromium();
  }, launchTimeoutMs);
  afterAll(() => browser?.close());
  return {
    get browser() {
      if (browser === undefined) throw new Error("Chromium is not open yet");
      return browser;
    },
  };
}
