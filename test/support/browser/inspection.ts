import axe from "axe-core";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { saveScreenshot } from "./screenshots.ts";

const wide = { width: 1280, height: 800 };
/** The narrowest screen that the pages are made for, in CSS pixels. */
const narrow = { width: 360, height: 740 };

/** https://github.com/dequelabs/axe-core/blob/develop/doc/API.md#axe-core-tags */
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];

/**
 * What is wrong with the view that the page shows, in words: findings of axe in the light and in the dark scheme and on a
 * narrow screen, and scrolling sideways on it. Keeps a screenshot of each as `NAME-light.png`, `NAME-dark.png` and
 * `NAME-narrow.png`. Leaves the page wide and light.
 */
export async function viewProblems(page: Page, name: string): Promise<string[]> {
  const problems: string[] = [];
  const note = async (where: string, found: Promise<readonly string[]>): Promise<void> => {
    problems.push(...(await found).map((problem) => `${name}, ${where}: ${problem}`));
    await saveScreenshot(page, `${name}-${where}`);
  };
  await page.setViewportSize(wide);
  await page.emulateMedia({ colorScheme: "light" });
  await note("light", axeFindings(page, { runOnly: tags }));
  await page.emulateMedia({ colorScheme: "dark" });
  // Nothing but colours depends on the scheme.
  await note("dark", axeFindings(page, { runOnly: { type: "rule", values: ["color-contrast"] } }));
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(narrow);
  await note(
    "narrow",
    Promise.all([axeFindings(page, { runOnly: tags }), sidewaysProblems(page)]).then((all) =>
      all.flat(),
    ),
  );
  await page.setViewportSize(wide);
  return problems;
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

/** Elements that stick out of the window, unless an ancestor scrolls or cuts them. */
async function sidewaysProblems(page: Page): Promise<string[]> {
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
