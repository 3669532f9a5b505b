import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { BrowserContext, Page } from "playwright-core";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import { signIn, startConsole, type ConsoleProcess } from "../support/binary/consoleProcess.ts";
import { chromiumPath, openChromiumBefore } from "../support/browser/chromium.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";
import { until } from "../support/until.ts";

// The worst case: the other site knows both addresses and a key, and its visitor is signed in at the console.

const chromium = openChromiumBefore();
const provider = startProvider();
const setup = openBinaryBefore(oneModel(`http://127.0.0.1:${provider.port}/v1`), provider);
let console: ConsoleProcess;
let cookie: { readonly name: string; readonly value: string };
let pageSecret: string;

beforeAll(async () => {
  console = await startConsole(setup.gateway.cli);
  const page = await signIn(console);
  const [name = "", value = ""] = page.cookie.split("=");
  cookie = { name, value };
  ({ pageSecret } = page);
});
afterAll(() => console?.stop());

/** The last header with cookies that the other site got. */
let seenCookie = "";

/** Its pages allow everything. */
const otherSite = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch({ headers }) {
    seenCookie = headers.get("cookie") ?? "";
    return new Response("<!doctype html><title>Another site</title><body>", {
      headers: { "content-type": "text/html" },
    });
  },
});
afterAll(() => void otherSite.stop(true));

/** Scripts by what they try. They know the addresses and the key, and `blocked` and `loaded` tell what they got. */
type Attempts = Readonly<Record<string, string>>;

const credit = "console + '/api/accounts/alice/credit'";
const amount = `'{"amount":"1000000"}'`;

const reads: Attempts = {
  "the public API with a key":
    "blocked(fetch(gateway + '/v1/account', { headers: { authorization: 'Bearer ' + key } }))",
  "a charged answer with a key": `blocked(fetch(gateway + '/v1/chat/completions', {
    method: 'POST', headers: { authorization: 'Bearer ' + key },
    body: '{"model":"small","messages":[{"role":"user","content":"hi"}]}' }))`,
  "the console's API with the cookie":
    "blocked(fetch(console + '/api/state', { credentials: 'include' }))",
  "the console's API unseen":
    "blocked(fetch(console + '/api/state', { credentials: 'include', mode: 'no-cors' }))",
  "the console's events": `new Promise((resolve) => {
    const events = new EventSource(console + '/api/changes', { withCredentials: true });
    events.onopen = () => resolve('opened');
    events.onerror = () => resolve('blocked');
  })`,
  "the console's answers as a script": "loaded('script', { src: console + '/api/state' })",
  "the HTML of the page": "blocked(fetch(gateway + '/', { mode: 'no-cors' }))",
  "the HTML of the console": "blocked(fetch(console + '/', { mode: 'no-cors' }))",
};

const changes: Attempts = {
  "a request that needs no permission": `blocked(fetch(${credit}, { method: 'POST', mode: 'no-cors', credentials: 'include', body: ${amount} }))`,
  "a request with the header of the console": `blocked(fetch(${credit}, {
    method: 'POST', credentials: 'include', body: ${amount},
    headers: { 'x-tollgate-console': '1', 'content-type': 'application/json' } }))`,
  "a form": `(() => {
    const form = Object.assign(document.createElement('form'),
      { method: 'POST', action: ${credit}, enctype: 'text/plain', target: 'target' });
    const field = { name: '{"amount":"1000000","ref":"', value: '"}' };
    form.append(Object.assign(document.createElement('input'), field));
    document.body.append(form);
    const shown = loaded('iframe', { name: 'target' });
    form.submit();
    return shown;
  })()`,
  "a beacon": `navigator.sendBeacon(${credit}, ${amount})`,
};

/** A page of the other site, at this name of the machine, in the browser of the operator. */
async function withOtherPage<Result>(
  host: string,
  work: (page: Page, context: BrowserContext) => Promise<Result>,
): Promise<Result> {
  const context = await chromium.browser.newContext();
  try {
    const { url } = console;
    await context.addCookies([{ ...cookie, url, httpOnly: true, sameSite: "Strict" }]);
    const page = await context.newPage();
    await page.goto(`http://${host}:${otherSite.port}/`);
    return await work(page, context);
  } finally {
    await context.close();
  }
}

/** Runs a script in the page. */
async function run(page: Page, script: string): Promise<unknown> {
  const values = { gateway: setup.gateway.url, console: console.url, key: setup.key };
  return await page.evaluate(`(({ gateway, console, key }) => {
    const blocked = (work) => work.then((value) => "got " + value, () => "blocked");
    const loaded = (tag, fields) => new Promise((resolve) => {
      const element = Object.assign(document.createElement(tag), fields);
      element.onload = () => resolve("loaded");
      element.onerror = () => resolve("blocked");
      document.body.append(element);
    });
    return (${script});
  })(${JSON.stringify(values)})`);
}

/** The console takes the cookie from its own page: what follows is no refusal of a broken cookie. */
test.skipIf(chromiumPath === null)("the cookie is good in the console's own page", async () => {
  await withOtherPage("127.0.0.1", async (page) => {
    await page.goto(console.url);
    const init = JSON.stringify({ headers: { "x-tollgate-console": pageSecret } });
    const status = `fetch('/api/state', ${init}).then(({ status }) => status)`;
    expect(await page.evaluate(status)).toBe(200);
  });
});

/** Browsers send a cookie to every port of its host: https://www.rfc-editor.org/rfc/rfc6265#section-8.5 */
test.skipIf(chromiumPath === null)("another port gets the cookie, and can do nothing", async () => {
  await withOtherPage("127.0.0.1", async () => {
    expect(seenCookie).toBe(`${cookie.name}=${cookie.value}`);
  });
  const headers = { cookie: seenCookie, origin: console.url, "x-tollgate-console": "1" };
  const init = { method: "POST", headers, body: '{"amount":"1000000"}' };
  const stolen = await fetch(`${console.url}/api/accounts/alice/credit`, init);
  expect(stolen.status).toBe(401);
  expect((await fetch(`${console.url}/api/state`, { headers })).status).toBe(401);
});

// A port has no part in what a site is: to the cookie, 127.0.0.1 is the same site and localhost is another.
describe.skipIf(chromiumPath === null).each(["127.0.0.1", "localhost"])(
  "a page of another site at %s",
  (host) => {
    test("reads nothing", async () => {
      const results = await withOtherPage(host, async (page) => {
        const read: [string, unknown][] = [];
        for (const [what, script] of Object.entries(reads))
          read.push([what, await run(page, script)]);
        return Object.fromEntries(read);
      });
      expect(results).toEqual({
        ...Object.fromEntries(Object.keys(reads).map((what) => [what, "blocked"])),
        // It gets an answer without status, headers and body, which is a refusal.
        "the console's API unseen": "got [object Response]",
      });
      expect(provider.requests).toHaveLength(0);
    });

    test("changes nothing", async () => {
      const statuses: number[] = [];
      await withOtherPage(host, async (page, context) => {
        context.on("response", (response) => statuses.push(response.status()));
        for (const script of Object.values(changes)) await run(page, script);
        // Chromium itself ends the request with the header, when the console does not permit it.
        const areAnswered = () => statuses.length === Object.keys(changes).length - 1;
        await until("each change is answered", areAnswered);
      });
      expect(statuses).toEqual([403, 403, 403]);
      expect(await setup.gateway.cli.json("balance", "show", "alice")).toMatchObject({
        balance_rub: "1000",
      });
    });

    test.each(["gateway", "console"])("cannot show the page of the %s in a frame", async (name) => {
      await withOtherPage(host, async (page) => {
        await run(page, `loaded("iframe", { src: ${name} + "/" })`);
        const isRefused = () => page.frames()[1]?.url() === "chrome-error://chromewebdata/";
        await until("the frame shows an error of the browser", isRefused);
      });
    });

    test.each(["gateway", "console"])("keeps no hold of the %s that it opens", async (name) => {
      await withOtherPage(host, async (page, context) => {
        const opening = context.waitForEvent("page");
        await run(page, `void (window.opened = open(${name} + "/"))`);
        const opened = await opening;
        await opened.waitForLoadState("load");
        expect(await opened.evaluate("opener")).toBeNull();
        expect(await page.evaluate("opened.closed")).toBe(true);
      });
    });
  },
);
