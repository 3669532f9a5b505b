import { afterAll, describe, expect, test } from "bun:test";
import { openBinaryBefore } from "../../support/binary/gatewayBefore.ts";
import { chromiumPath, openChromiumBefore } from "../../support/browser/chromium.ts";
import { visit } from "../../support/browser/visit.ts";
import { streamed } from "../../support/provider/chatAnswers.ts";
import { startProvider } from "../../support/provider/scriptedProvider.ts";
import { startPathProxy, type PathProxy } from "../../support/servers/pathProxy.ts";

const chromium = openChromiumBefore();
const provider = startProvider(streamed);
const setup = openBinaryBefore(
  {
    providers: { local: `http://127.0.0.1:${provider.port}/v1` },
    models: [{ id: "small", routes: [{ provider: "local" }] }],
  },
  provider,
);
const proxies: PathProxy[] = [];
afterAll(() => {
  for (const proxy of proxies) proxy.stop();
});

/** A visit fails if one of its requests is answered with 404. */
describe.skipIf(chromiumPath === null)("the page below a path", () => {
  test.each(["/llm/", "/a/b%20c/"])(
    "%s: loads, shows the account, sends a chat and shows its receipt",
    async (path) => {
      const proxy = startPathProxy(setup.gateway.url, path);
      proxies.push(proxy);
      await visit(chromium.browser, `${proxy.url}#key=${setup.key}`, async (page) => {
        await page.getByRole("heading", { name: "alice" }).waitFor();
        await page.getByRole("link", { name: "Connect" }).click();
        await page.getByText(`${proxy.url}v1/chat/completions`).first().waitFor();
        expect(await page.locator("code").allInnerTexts()).toContainEqual(
          expect.stringContaining(`ANTHROPIC_BASE_URL='${proxy.url.slice(0, -1)}'`) as string,
        );
        await page.getByRole("link", { name: "Try it" }).click();
        await page.getByLabel("Message").fill("hello");
        // The frame of a new view takes the focus for a moment.
        await page.getByLabel("Message").press("Enter");
        await page.getByText("Hello there").waitFor();
        await page.getByRole("link", { name: "Requests" }).click();
        await page.locator("tbody tr").first().waitFor();
        await page.reload();
        await page.getByLabel("API key").waitFor();
      });
    },
  );
});
