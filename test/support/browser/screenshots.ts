import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { isLong } from "../sample.ts";

/** Where a run of the tests in the long form keeps what the pages look like. It is no part of the tree. */
export const screenshotsFolder = resolve(import.meta.dir, "../../../.ci/screenshots");

/** Keeps the whole page as `NAME.png`: in the long form, for each costs as much as the rest of a visit. */
export async function saveScreenshot(page: Page, name: string): Promise<void> {
  if (!isLong) return;
  const path = join(screenshotsFolder, `${name}.png`);
  await page.screenshot({ path, fullPage: true, animations: "disabled", caret: "hide" });
}
