import { describe, expect, test } from "bun:test";
import { answered, choice, usual } from "../../support/provider/chatAnswers.ts";
import { ask, call, chat } from "../../support/gateway/chatCalls.ts";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import { connectRaw } from "../../support/gateway/rawClient.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";
import { storedText } from "../../support/store/gatewayDatabase.ts";

const at = openOneModelBefore({ log: { level: "debug" } });

type Line = Readonly<Record<string, unknown>>;

/** Waits until the requests of `work` have this many log lines, and returns them. */
async function linesOf(count: number, work: () => Promise<unknown>): Promise<readonly Line[]> {
  const before = at.gateway.log.length;
  const lines = () => at.gateway.log.slice(before).filter(({ msg }) => msg === "request");
  await work();
  await until(`${count} lines`, () => lines().length >= count);
  return lines();
}

describe("each request has one line in the log", () => {
  const served = {
    level: "info",
    method: "POST",
    path: "/v1/chat/completions",
    endpoint: "chat",
    model: "small",
    provider: "local",
    status: 200,
    outcome: "done",
    prompt_tokens: 20,
    completion_tokens: 7,
    cost_rub: "0.0018025",
    attempts: 1,
  };

  test.each([false, true])("with the key, the model and the cost (stream: %j)", async (stream) => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    let id = "";
    const lines = await linesOf(1, async () => ({ id } = await chat(at.gateway, key, { stream })));
    expect(lines).toEqual([
      expect.objectContaining({
        ...served,
        stream,
        request_id: id,
        account: key.account,
        key: key.id,
        duration_ms: expect.any(Number),
      }),
    ]);
  });

  test.each<[number, string, () => Promise<unknown>]>([
    [400, "info", async () => call(at.gateway, await at.gateway.key(), { body: "{" })],
    [401, "info", () => chat(at.gateway, undefined)],
    [402, "info", async () => chat(at.gateway, await at.gateway.key({ balance: 0n }))],
    [404, "info", async () => chat(at.gateway, await at.gateway.key(), { model: "x" })],
    [404, "info", () => call(at.gateway, undefined, { path: "/nothing" })],
    [200, "info", () => call(at.gateway, undefined, { path: "/healthz" })],
    [502, "info", async () => chat(at.gateway, await at.gateway.key())],
  ])("with status %d: %s", async (status, level, work) => {
    at.provider.answer = refusal(500);
    expect(await linesOf(1, work)).toMatchObject([{ status, level }]);
  });

  test("that gives the reason when the gateway accepts no more requests", async () => {
    const { app } = at.gateway;
    const work = async () => chat(at.gateway, await at.gateway.key());
    const refused = { status: 502, level: "error", error: "ShuttingDown" };
    app.phase = "refusing";
    const draining = await linesOf(1, work).finally(() => (app.phase = "serving"));
    app.gateway.inFlight.isAborting = true;
    const cut = await linesOf(1, work).finally(() => (app.gateway.inFlight.isAborting = false));
    expect([...draining, ...cut]).toMatchObject([refused, refused]);
  });

  test.each<[number, () => Promise<{ readonly key: string } | undefined>]>([
    [200, () => at.gateway.key()],
    [401, () => Promise.resolve(undefined)],
    [401, () => Promise.resolve({ key: "sk-tg-wrong" })],
  ])("with the address and the user agent of the client, status %d", async (status, keyOf) => {
    at.provider.answer = usual;
    const key = await keyOf();
    const headers = { "user-agent": "OpenAI/Python 2.1" };
    const lines = await linesOf(2, async () => {
      await call(at.gateway, key, { body: ask(), headers });
      await call(at.gateway, key, { path: "/v1/models", headers });
    });
    const origin = { status, address: "127.0.0.1", user_agent: "OpenAI/Python 2.1" };
    expect(lines).toMatchObject([origin, origin]);
  });

  test.each<[string, (secret: string) => string, string]>([
    ["at most 256 characters", () => "a".repeat(9000), "a".repeat(256)],
    ["no character that is not printable", () => "a\tb\u009b31m\u00e9", "a?b?31m?"],
    ["no key", (secret) => `curl/${secret}`, "curl/sk-tg-***"],
  ])("with a user agent of %s", async (_, agentOf, shown) => {
    const { key } = await at.gateway.key();
    const client = await connectRaw(at.gateway.port);
    const lines = await linesOf(1, async () => {
      const head = `GET /x HTTP/1.1\r\nHost: localhost\r\nUser-Agent: ${agentOf(key)}\r\n\r\n`;
      client.send(Buffer.from(head, "latin1"));
      await client.response();
    });
    client.fin();
    expect(lines).toMatchObject([{ user_agent: shown }]);
  });

  test("for any path", async () => {
    const path = "/v1/models/%0a%7B%22level%22%3A%22error%22%7D%1b[31m?key=sk-tg-secret";
    const lines = await linesOf(1, async () => call(at.gateway, await at.gateway.key(), { path }));
    expect(lines).toMatchObject([{ status: 404, path: path.split("?")[0] }]);
    expect(at.gateway.logText()).not.toContain("\u001b");
    expect(at.gateway.logText()).not.toContain("sk-tg-secret");
  });

  test.each<[string, (key: string) => string, string]>([
    ["a receipt's id", (key) => `/v1/requests/${key}`, "/v1/requests/sk-tg-***"],
    ["a path of none", (key) => `/x/${key}/y`, "/x/sk-tg-***/y"],
    ["a wrong one", (key) => `/v1/models/a${key}0;b`, "/v1/models/ask-tg-***;b"],
    ["two of them", (key) => `/${key},${key}`, "/sk-tg-***,sk-tg-***"],
    [
      "one that is percent-encoded",
      (key) => `/v1/models/${Buffer.from(key).toString("hex").replace(/../g, "%$&")}`,
      "/v1/models/sk-tg-***",
    ],
    ["one of which a part is", (key) => `/${key.replaceAll("-", "%2D")}`, "/sk-tg-***"],
  ])("without an API key in its path: %s", async (_, pathWith, path) => {
    const key = await at.gateway.key();
    const lines = await linesOf(1, () => call(at.gateway, key, { path: pathWith(key.key) }));
    expect(lines).toMatchObject([{ path }]);
    expect(at.gateway.logText()).not.toContain(key.key.slice(-20));
  });

  test.each(["/v1/chat/completions", "/v1/responses"])(
    "without an API key in the place of the model: %s",
    async (path) => {
      const key = await at.gateway.key();
      const body = ask({ model: `openai/${key.key}`, input: "Hello" });
      const lines = await linesOf(1, () => call(at.gateway, key, { path, body }));
      expect(lines).toMatchObject([{ status: 404, model: "openai/sk-tg-***" }]);
      expect(at.gateway.logText()).not.toContain(key.key.slice(-20));
    },
  );
});

test("debug level logs each attempt that did not fail by its provider", async () => {
  const key = await at.gateway.key();
  at.provider.answer = usual;
  const { id: whole } = await chat(at.gateway, key);
  at.provider.answer = refusal(400);
  const { id: refused } = await chat(at.gateway, key);
  const attempt = {
    level: "debug",
    provider: "local",
    model: "small",
    duration_ms: expect.any(Number),
  };
  const lines = () => at.gateway.log.filter(({ msg }) => msg === "attempt ended").slice(-2);
  await until("both are logged", () => lines().at(-1)?.["request_id"] === refused);
  expect(lines()).toMatchObject([
    { ...attempt, request_id: whole, outcome: "ok", status: 200 },
    { ...attempt, request_id: refused, status: 400 },
  ]);
});

describe("the log and the store never contain", () => {
  test("a key, a prompt, an answer, or text of a provider", async () => {
    const key = await at.gateway.key();
    const messages = [{ role: "user", content: "canary-of-the-prompt" }];
    const headers = { "x-other": "canary-of-a-header" };
    at.provider.answer = answered({ choices: [choice({ content: "canary-of-the-answer" })] });
    expect((await call(at.gateway, key, { body: ask({ messages }), headers })).status).toBe(200);
    at.provider.answer = refusal(500, "canary-of-the-provider");
    expect((await chat(at.gateway, key, { messages })).status).toBe(502);
    at.provider.answer = refusal(400, "canary-of-the-provider");
    expect((await chat(at.gateway, key, { messages })).status).toBe(400);
    const field = { "canary-of-a-field": 1, temperature: "canary-of-a-value" };
    expect((await chat(at.gateway, key, field)).status).toBe(400);
    await at.gateway.expectAuditPasses();
    const texts = [at.gateway.logText(), await storedText(at.gateway.place)];
    // Both may contain the id of the key. Finding it proves that the search works.
    const found = [key.id, "canary-of", key.key, upstreamKey].map((part) => [
      part,
      texts.filter((text) => text.includes(part)).length > 0,
    ]);
    expect(found).toEqual([
      [key.id, true],
      ["canary-of", false],
      [key.key, false],
      [upstreamKey, false],
    ]);
  });
});

test("a reload with [log] addresses = false keeps addresses and user agents out", async () => {
  const reload = (log: { level: string; addresses?: boolean }) =>
    at.gateway.reload(oneModel(`http://127.0.0.1:${at.provider.port}/v1`, { log }));
  await reload({ level: "debug", addresses: false });
  const lines = await linesOf(2, async () => {
    await chat(at.gateway, undefined);
    await call(at.gateway, await at.gateway.key(), { path: "/v1/models" });
  });
  await reload({ level: "debug" });
  expect(lines).toMatchObject([{ status: 401 }, { status: 200 }]);
  for (const line of lines) expect(line).not.toContainAnyKeys(["address", "user_agent"]);
});
