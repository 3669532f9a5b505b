import type { Locator, Page } from "playwright-core";

/** More than any view has before its content. */
const PRESSES_MAX = 60;

/** Presses Tab until the control has the focus, as a person without a mouse does. Throws if it cannot be reached. */
export async function tabTo(page: Page, control: Locator): Promise<void> {
  const target = control.first();
  const focused = page.locator(":focus");
  await target.waitFor();
  for (let press = 0; press < PRESSES_MAX; press += 1) {
    if ((await target.and(focused).count()) > 0) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`Tab does not reach ${String(control)}`);
}
