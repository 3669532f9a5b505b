import { afterAll, describe, expect, test } from "bun:test";
import { chromium, startPageServer } from "../../support/browser/browser.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { usual } from "../../support/provider/chatAnswers.ts";

const pages = startPageServer();
afterAll(() => pages.stop());
const at = openOneModelBefore({
  server: { listen: "127.0.0.1:0", cors_origins: [`http://localhost:${pages.port}`] },
});

const all = ["chat", "stream", "models", "wrongKey", "anthropic", "withCookies"];

// Where Chromium is not installed, cors.test.ts still sends what browsers send.
describe.skipIf(chromium === null)("a page in Chromium", () => {
  test("of an allowed origin uses the whole API, but never with credentials", async () => {
    at.provider.answer = usual;
    const { key } = at.gateway.key();
    expect(await pages.open("localhost", { gateway: at.gateway.url, key })).toEqual({
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
    const { key } = at.gateway.key();
    const result = await pages.open("127.0.0.1", { gateway: at.gateway.url, key });
    expect(result).toEqual(Object.fromEntries(all.map((name) => [name, "blocked"])));
    expect(at.provider.requests).toHaveLength(0);
  });
});
