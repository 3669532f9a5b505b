import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { startDemo, type Demo, type Welcome } from "../../support/binary/demoProcess.ts";
import { startTimeoutMs } from "../../support/binary/gatewayProcess.ts";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import {
  inspectionTimeoutMs,
  viewProblems,
  widthProblems,
} from "../../support/browser/inspection.ts";
import { settled } from "../../support/browser/settled.ts";
import { visit } from "../../support/browser/visit.ts";
import { sample } from "../../support/sample.ts";

const chromium = openChromiumBefore();
let demo: Demo;
let welcome: Welcome;
/** By the name of its screenshot, the fragment of each view. */
const views = {
  overview: "",
  spend: "spend",
  requests: "requests",
  receipt: "requests/ID",
  models: "models",
  try: "try",
  connect: "connect",
};

beforeAll(async () => {
  if (chromiumPath === null) return;
  demo = await startDemo("--json", "--listen", "127.0.0.1:0");
  welcome = JSON.parse(demo.text) as Welcome;
  const authorization = `Bearer ${welcome.key}`;
  const list = await fetch(`${welcome.base_url}/requests?limit=1`, { headers: { authorization } });
  const { data } = (await list.json()) as { data: { id: string }[] };
  views.receipt = `requests/${data[0]?.id}`;
}, startTimeoutMs);
afterAll(() => demo?.end("SIGINT"));

/** What the views have wrong, in this language. */
async function problemsOf(
  language: string,
  look: (page: Parameters<typeof viewProblems>[0], name: string) => Promise<string[]>,
): Promise<string[]> {
  const { href: origin } = new URL("/", welcome.base_url);
  return await visit(
    chromium.browser,
    welcome.page,
    async (page) => {
      await page.locator("main .money").first().waitFor();
      const problems: string[] = [];
      for (const [name, fragment] of sample(
        Object.entries(views),
        3,
        ([name]) => name + language,
      )) {
        await page.goto(`${origin}#/${fragment}`);
        await settled(page);
        problems.push(...(await look(page, `page-${name}-${language.slice(0, 2)}`)));
      }
      return problems;
    },
    { language },
  );
}

describe.skipIf(chromiumPath === null)("the views of the page", () => {
  test(
    "have nothing that axe finds in either scheme, and fit a small screen",
    async () => {
      expect(await problemsOf("en-US", viewProblems)).toEqual([]);
    },
    inspectionTimeoutMs,
  );

  // Structure and colours are those of the English views.
  test(
    "fit a small screen in Russian",
    async () => {
      expect(await problemsOf("ru-RU", widthProblems)).toEqual([]);
    },
    inspectionTimeoutMs,
  );

  test(
    "are a login before there is a key",
    async () => {
      const { origin } = new URL(welcome.base_url);
      const problems = await visit(chromium.browser, origin, async (page) => {
        await settled(page);
        return await viewProblems(page, "page-login");
      });
      expect(problems).toEqual([]);
    },
    inspectionTimeoutMs,
  );
});
