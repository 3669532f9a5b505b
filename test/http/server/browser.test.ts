import { afterAll, describe, expect, test } from "bun:test";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import type { PageResult, PageTask } from "../../support/browser/page.ts";
import { startPageServer } from "../../support/browser/pageServer.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { usual } from "../../support/provider/chatAnswers.ts";

const pages = startPageServer();
afterAll(() => pages.stop());
const chromium = openChromiumBefore();
const at = openOneModelBefore({
  server: { listen: "127.0.0.1:0", cors_origins: [`http://localhost:${pages.port}`] },
});

/** What the page reads of the gateway when the browser opens it under this name of the machine. */
async function readBy(host: string, task: PageTask): Promise<PageResult> {
  const page = await chromium.browser.newPage();
  try {
    await page.goto(`http://${host}:${pages.port}/`);
    return await page.evaluate<PageResult>(`callGateway(${JSON.stringify(task)})`);
  } finally {
    await page.close();
  }
}

const all = ["chat", "stream", "models", "wrongKey", "anthropic", "withCookies"];

// Where Chromium is not installed, cors.test.ts still sends what browsers send.
describe.skipIf(chromiumPath === null)("a page in Chromium", () => {
  test("of an allowed origin uses the whole API, but never with credentials", async () => {
    at.provider.answer = usual;
    const { key } = await at.gateway.key();
    expect(await readBy("localhost", { gateway: at.gateway.url, key })).toEqual({
      chat: ["Hello there", "0.0018025", "req_"],
      stream: "Hello there",
      models: ["small"],
      wrongKey: [401, "401 invalid api key"],
      anthropic: [200, "req_", false],
      withCookies: "blocked",
    });
    expect(at.provider.requests).toHaveLength(2);
  });

  test("of another origin reads nothing, and no request with a key arrives", async () => {
    at.provider.answer = usual;
    const { key } = await at.gateway.key();
    const result = await readBy("127.0.0.1", { gateway: at.gateway.url, key });
    expect(result).toEqual(Object.fromEntries(all.map((name) => [name, "blocked"])));
    expect(at.provider.requests).toHaveLength(0);
  });
});
