import { beforeAll } from "bun:test";
import { chromium, type Browser } from "playwright-core";

/** The path of Chromium; null if it is not installed. The shell without a window takes half the processor's time. */
export const chromiumPath =
  Bun.which("chromium-headless-shell") ??
  Bun.which("chromium") ??
  Bun.which("chromium-browser") ??
  Bun.which("google-chrome");

/** Launching takes under a second, unless all cores are busy. */
const launchTimeoutMs = 30_000;

/** Starts a headless Chromium. It ends with this process at the latest. */
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

let shared: Promise<Browser> | undefined;

/**
 * One Chromium for all test files of a worker: it is there from the first test on, and ends with the worker. Each visit
 * has a profile of its own. Without Chromium, nothing happens.
 */
export function openChromiumBefore(): { readonly browser: Browser } {
  let browser: Browser | undefined;
  beforeAll(async () => {
    if (chromiumPath !== null) browser = await (shared ??= launchChromium());
  }, launchTimeoutMs);
  return {
    get browser() {
      if (browser === undefined) throw new Error("Chromium is not open yet");
      return browser;
    },
  };
}
