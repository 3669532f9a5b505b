import { afterAll, describe, expect, test } from "bun:test";
import { viewProblems } from "../support/browser/inspection.ts";
import { chromiumPath, openChromiumBefore } from "../support/browser/chromium.ts";
import { visit, type VisitOptions } from "../support/browser/visit.ts";

const chromium = openChromiumBefore();
let body = "";
const site = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: ({ url }) =>
    new URL(url).pathname === "/"
      ? new Response(
          `<!doctype html><html lang="en"><title>A page</title><link rel="icon" href="/icon"><body>${body}`,
          {
            headers: {
              "content-type": "text/html",
              "content-security-policy": "default-src 'self'; img-src *; style-src 'unsafe-inline'",
            },
          },
        )
      : new Response("", { status: new URL(url).pathname === "/icon" ? 200 : 404 }),
});
afterAll(() => void site.stop(true));

async function opened(html: string, script = "0", options?: VisitOptions): Promise<void> {
  body = html;
  await visit(chromium.browser, site.url.href, (page) => page.evaluate(script), options);
}

// The tests of the pages rely on these.
describe.skipIf(chromiumPath === null)("a visit fails", () => {
  const rows: readonly (readonly [string, string, string, RegExp])[] = [
    ["a script within the HTML", "<script>1</script>", "0", /Executing inline script violates/],
    [
      "an image of another site",
      '<img src="http://localhost:1/">',
      "0",
      /to another origin: http:/,
    ],
    ["a request to another site", "", "void fetch('//localhost:1').catch(String)", /localhost:1/],
    ["an error on the console", "", "console.error('broken')", /error on the console: broken/],
    [
      "an error that nothing catches",
      "",
      "void Promise.reject(Error('lost'))",
      /nothing caught: lost/,
    ],
    ["an answer that refuses", "", "fetch('/nowhere').then(String)", /a status of 404/],
    ["a dialog", "", "setTimeout(alert, 0, 'boo')", /a dialog of the browser: boo/],
    ["a key in a URL", "", "fetch('/icon?sk-tg-0').then(String)", /a secret in the address/],
  ];
  test.each(rows)("for %s", async (_, html, script, message) => {
    const work = `(async () => { ${script}; await new Promise((done) => setTimeout(done, 50)); })()`;
    const failure = await opened(html, work).then(String, String);
    expect(failure).toMatch(message);
  });

  test("not for a refusal that is meant", async () => {
    await opened("", "fetch('/nowhere').then(String)", { refusals: [404] });
  });
});

describe.skipIf(chromiumPath === null)("an inspection", () => {
  test("finds what axe finds in each scheme, and what is too wide for a small screen", async () => {
    body = `<style>@media (prefers-color-scheme: dark) { body { background: black; color: #333 } }</style>
      <main><h1>A page</h1><img src="/icon"><p style="width: 600px">Wide</p></main>`;
    const problems = await visit(chromium.browser, site.url.href, (page) =>
      viewProblems(page, "sample", true),
    );
    const short = problems.map((problem) => problem.replace(/^(.*?: [\w-]+).*$/s, "$1")).sort();
    expect(short).toEqual([
      "sample, dark: color-contrast",
      "sample, dark: color-contrast",
      "sample, light: image-alt",
      "sample, narrow: image-alt",
      "sample, narrow: it",
      "sample, narrow: too",
    ]);
  });
});
