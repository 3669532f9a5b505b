import axe from "axe-core";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { isLong } from "../sample.ts";
import { saveScreenshot } from "./screenshots.ts";

const wide = { width: 1280, height: 800 };
/** The narrowest screen that the pages are made for, in CSS pixels. */
export const narrow = { width: 360, height: 740 };

/** For a test that inspects many views. A busy machine takes a minute for them. */
export const inspectionTimeoutMs = 180_000;

/** https://github.com/dequelabs/axe-core/blob/develop/doc/API.md#axe-core-tags */
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];

/**
 * What is wrong with the view that the page shows, in words: findings of axe in the light scheme, with `isWhole` also in
 * the dark one, and what `narrowProblems` finds. Keeps screenshots as `NAME-light.png` and `NAME-dark.png`. Leaves the
 * page wide and light.
 */
export async function viewProblems(page: Page, name: string, isWhole = isLong): Promise<string[]> {
  await resize(page, wide);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await axeFindings(page, { runOnly: tags });
  await saveScreenshot(page, `${name}-light`);
  const dark = isWhole ? await darkFindings(page, name) : [];
  const named = (where: string, found: readonly string[]): string[] =>
    found.map((problem) => `${name}, ${where}: ${problem}`);
  return [
    ...named("light", light),
    ...named("dark", dark),
    ...(await narrowProblems(page, name, isWhole)),
  ];
}

async function darkFindings(page: Page, name: string): Promise<string[]> {
  await page.emulateMedia({ colorScheme: "dark" });
  // Nothing but colours depends on the scheme.
  const contrast = { type: "rule", values: ["color-contrast"] };
  const found = await axeFindings(page, { runOnly: contrast });
  await saveScreenshot(page, `${name}-dark`);
  await page.emulateMedia({ colorScheme: "light" });
  return found;
}

/**
 * The same on a narrow screen: what `widthProblems` finds, in the long form also findings of axe but for colours. Leaves the
 * page wide.
 */
export async function narrowProblems(
  page: Page,
  name: string,
  isWhole = isLong,
): Promise<string[]> {
  if (!isWhole) return await widthProblems(page, name);
  await resize(page, narrow);
  const rules = { "color-contrast": { enabled: false } };
  const findings = await axeFindings(page, { runOnly: tags, rules });
  const named = findings.map((problem) => `${name}, narrow: ${problem}`);
  return [...named, ...(await widthProblems(page, name))];
}

/** Scrolling sideways on a narrow screen. Keeps a screenshot as `NAME-narrow.png`. Leaves the page wide. */
export async function widthProblems(page: Page, name: string): Promise<string[]> {
  await resize(page, narrow);
  const found = await sidewaysProblems(page);
  await saveScreenshot(page, `${name}-narrow`);
  await resize(page, wide);
  return found.map((problem) => `${name}, narrow: ${problem}`);
}

/**
 * Resolves when the page has adapted too: a script that a new size starts runs within the next frame, and a busy machine
 * draws that late.
 */
async function resize(page: Page, size: { width: number; height: number }): Promise<void> {
  await page.setViewportSize(size);
  await page.evaluate(
    `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`,
  );
}

/** The violations of axe-core's rules, of any impact. */
async function axeFindings(page: Page, options: object): Promise<string[]> {
  // Scripts of the page's own are bound by its policy, but not those of the browser's debugger.
  await page.evaluate(`window.axe ?? (() => { ${axe.source} })()`);
  const run = JSON.stringify({ ...options, resultTypes: ["violations"] });
  const { violations } = await page.evaluate<AxeResults>(`axe.run(document, ${run})`);
  return violations.flatMap(({ id, impact, help, nodes }) =>
    nodes.map(
      ({ target, failureSummary, html }) =>
        `${id} (${impact}): ${help}: ${target.join(" ")} ${html.slice(0, 200)} ${failureSummary?.replace(/\s+/g, " ")}`,
    ),
  );
}

/** That the page scrolls sideways, with elements that stick out of it, unless an ancestor scrolls or cuts them. */
export async function sidewaysProblems(page: Page): Promise<string[]> {
  return await page.evaluate<string[]>(`(() => {
    const { scrollWidth, clientWidth } = document.scrollingElement;
    if (scrollWidth <= innerWidth) return [];
    const isCut = (element) => {
      for (let at = element.parentElement; at !== null && at !== document.body; at = at.parentElement)
        if (getComputedStyle(at).overflowX !== "visible") return true;
      return false;
    };
    const wide = [...document.body.querySelectorAll("*")].filter(
      (element) => element.getBoundingClientRect().right > clientWidth + 0.5 && !isCut(element));
    return ["it scrolls sideways: " + scrollWidth + " pixels",
      ...wide.slice(0, 5).map((element) => "too wide: " + element.outerHTML.slice(0, 120))];
  })()`);
}
