import { join, resolve } from "node:path";
import type { Page } from "playwright-core";

/** Where a run of the tests keeps what the pages look like. It is no part of the tree. */
export const screenshotsFolder = resolve(import.meta.dir, "../../../.ci/screenshots");

/** Keeps the whole page as `NAME.png`. */
export async function saveScreenshot(page: Page, name: string): Promise<void> {
  const path = join(screenshotsFolder, `${name}.png`);
  await page.screenshot({ path, fullPage: true, animations: "disabled", caret: "hide" });
}
