import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chat, expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { refusal, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { startRawServer, testAuthority } from "../../support/provider/rawServer.ts";
import { until } from "../../support/until.ts";

/** The command writes what a test puts into a file, and its failures are as loud as those of real programs. */
const folder = mkdtempSync(join(tmpdir(), "tollgate-keys-"));
afterAll(() => rmSync(folder, { recursive: true }));
const keyFile = join(folder, "key");
const runsFile = join(folder, "runs");
const script = join(folder, "script.sh");
writeFileSync(script, `echo run >>${runsFile}; echo "canary-stderr" >&2; cat ${keyFile}\n`);
writeFileSync(join(folder, "authority.pem"), testAuthority());

const writes = (key: string): void => writeFileSync(keyFile, key);
const runs = (): number => readFileSync(runsFile, "utf8").split("\n").length - 1;

/** GigaChat's server of tokens: each answer is another token. */
const tokens = { count: 0, seen: [] as string[], status: 200, lifeMs: 1_800_000, epochMs: () => 0 };
const tokenServer = startRawServer(
  async (peer) => {
    const request = await peer.request();
    tokens.seen.push(request);
    tokens.count += 1;
    const body = JSON.stringify({
      access_token: `canary-token-${tokens.count}`,
      expires_at: tokens.epochMs() + tokens.lifeMs,
    });
    await peer.send(
      `HTTP/1.1 ${tokens.status} x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
  },
  { certificate: "localhost" },
);
afterAll(() => tokenServer.stop());

writes("canary-key-0");
const at = openBefore(["one", "two"], ({ one, two }) => ({
  providers: {
    one: { base_url: one, api_key_command: ["sh", script], api_key_lifetime: "10m" },
    two,
    giga: {
      base_url: one,
      auth: "gigachat",
      api_key: "canary-authorization",
      scope: "GIGACHAT_API_B2B",
      token_url: `https://localhost:${tokenServer.port}/api/v2/oauth`,
      ca_file: join(folder, "authority.pem"),
    },
  },
  models: [
    { id: "small", routes: [{ provider: "one" }] },
    { id: "safe", routes: [{ provider: "one" }, { provider: "two" }] },
    { id: "giga", routes: [{ provider: "giga" }] },
  ],
}));

/** The keys that come to the provider. */
const keys = () =>
  at.providers.one.requests.map(({ headers }) => new Map(headers).get("authorization"));
/** Takes one key alone. */
const only =
  (key: string): ProviderAnswer =>
  (peer, request) =>
    (request.text.includes(`Bearer ${key}\r\n`) ? usual : refusal(401, `no ${key}`))(peer, request);
const ask = async (model = "small", stream = false) =>
  chat(at.gateway, await at.gateway.key(), { model, stream });
const events = (name: string) => at.gateway.log.filter(({ event }) => event === name);

beforeEach(async () => {
  tokens.status = 200;
  tokens.epochMs = () => at.gateway.clock.epochMs();
  at.providers.one.answer = usual;
  at.providers.two.answer = usual;
  writes("canary-key-0");
  // The providers are those of a start.
  at.gateway.forgetFailures();
  await until("the command has run", () => runs() > 0);
});

describe("api_key_command", () => {
  test("gives the key of each request, and runs once until it is due", async () => {
    const before = runs();
    for (let round = 0; round < 5; round += 1) expect((await ask()).status).toBe(200);
    expect(keys()).toEqual(Array.from({ length: 5 }, () => "Bearer canary-key-0"));
    expect(runs() - before).toBeLessThanOrEqual(1);
  });

  test("is run again before the end of the key, while requests go on with the old one", async () => {
    expect((await ask()).status).toBe(200);
    writes(JSON.stringify({ access_token: "canary-key-1", expires_in: 3600 }));
    await at.gateway.advance(8.5 * 60_000);
    expect((await ask()).status).toBe(200);
    while (keys().at(-1) !== "Bearer canary-key-1") expect((await ask()).status).toBe(200);
    expect(keys()[1]).toBe("Bearer canary-key-0");
    // The command says that this one lives for an hour.
    const before = runs();
    await at.gateway.advance(50 * 60_000);
    expect((await ask()).status).toBe(200);
    expect(runs()).toBe(before);
    expect(keys().at(-1)).toBe("Bearer canary-key-1");
  });

  test("that fails leaves the old key while it is valid; then the provider is unavailable", async () => {
    expect((await ask()).status).toBe(200);
    rmSync(keyFile);
    await at.gateway.advance(8.5 * 60_000);
    expect((await ask()).status).toBe(200);
    await until("it has failed", () => events("provider_key_not_renewed").length > 0);
    expect(events("provider_key_not_renewed").at(-1)).toMatchObject({
      provider: "one",
      problem: "the command ended with the exit status 1",
    });
    expect((await ask()).status).toBe(200);
    await at.gateway.advance(90_000);
    const reply = await ask();
    expect(Number(reply.headers.get("retry-after"))).toBeWithin(1, 61);
    reply.headers.delete("retry-after");
    expectRefusal(reply, noProvider);
    expect((await ask("safe")).status).toBe(200);
    await at.gateway.advance(60_000);
    await ask("safe");
    await until("it is told", () => events("provider_without_key").length > 0);
    expect(at.gateway.app.notices.counts().provider_without_key).toBe(1);
    writes("canary-key-2");
    await at.gateway.advance(60_000);
    const isBack = async () => (await ask()).status === 200;
    while (!(await isBack())) await at.gateway.advance(5000);
    expect(keys().at(-1)).toBe("Bearer canary-key-2");
    expect(at.gateway.app.notices.counts().provider_without_key).toBe(0);
  });

  test.each([false, true])(
    "a refused key that is old is renewed once, and the request is answered (stream: %p)",
    async (stream) => {
      expect((await ask()).status).toBe(200);
      await at.gateway.advance(60_000);
      writes("canary-key-3");
      at.providers.one.answer = only("canary-key-3");
      const before = runs();
      const reply = await ask("small", stream);
      expect(reply.status).toBe(200);
      expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
        { provider: "one", outcome: "key expired", status: 401 },
        { provider: "one", outcome: "ok" },
      ]);
      expect(runs() - before).toBe(1);
      expect(at.gateway.app.notices.counts().provider_refused).toBe(0);
    },
  );

  test("a refused key that is new is a refused account", async () => {
    at.providers.one.answer = refusal(401);
    const before = runs();
    const reply = await ask();
    reply.headers.delete("retry-after");
    expectRefusal(reply, noProvider);
    expect(at.providers.one.requests).toHaveLength(1);
    expect(runs() - before).toBeLessThanOrEqual(1);
    expect(at.gateway.app.notices.counts().provider_refused).toBe(1);
  });
});

describe("GigaChat", () => {
  test("gets a token for the authorization key, over its own certificate authority", async () => {
    expect((await ask("giga")).status).toBe(200);
    expect(keys()).toEqual([`Bearer canary-token-${tokens.count}`]);
    const sent = tokens.seen.at(-1) ?? "";
    expect(sent).toStartWith("POST /api/v2/oauth HTTP/1.1\r\n");
    expect(sent).toContain("authorization: Basic canary-authorization\r\n");
    expect(sent).toContain("content-type: application/x-www-form-urlencoded\r\n");
    expect(sent).toMatch(/rquid: [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\r\n/);
    expect(sent).toEndWith("\r\n\r\nscope=GIGACHAT_API_B2B");
  });

  test("renews it before its 30 minutes end", async () => {
    expect((await ask("giga")).status).toBe(200);
    const before = tokens.count;
    await at.gateway.advance(26 * 60_000);
    expect((await ask("giga")).status).toBe(200);
    await until("it is renewed", () => tokens.count === before + 1);
  });

  test("tells the status of a refusal, and nothing of its text", async () => {
    expect((await ask("giga")).status).toBe(200);
    tokens.status = 401;
    await at.gateway.advance(31 * 60_000);
    expect((await ask("giga")).status).toBe(502);
    expect(events("provider_without_key").at(-1)).toMatchObject({
      provider: "giga",
      problem: "the token server answers with the status 401",
    });
  });
});

test("no key is in the log", async () => {
  for (const model of ["small", "giga"]) {
    expect((await ask(model)).status).toBe(200);
    at.providers.one.answer = (peer, request) => {
      const [own = ""] = /canary-[\w-]+/.exec(request.text) ?? [];
      expect(own).toMatch(/^canary-(?:key|token)-/);
      return refusal(400, `you sent ${own}`)(peer, request);
    };
    const reply = await ask(model);
    expect(reply.status).toBe(400);
    expect(reply.text).toContain("you sent ***");
    expect(reply.text).not.toContain("canary");
    at.providers.one.answer = usual;
  }
  expect(at.gateway.logText()).not.toContain("canary");
});
