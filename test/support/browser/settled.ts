import type { Page } from "playwright-core";

/** Resolves when nothing of the view loads any more. */
export async function settled(page: Page): Promise<void> {
  await page.locator("h1").first().waitFor();
  const loading = page.locator('[aria-busy="true"], .skeleton, .skeleton-block');
  while ((await loading.count()) > 0) await loading.first().waitFor({ state: "detached" });
}
