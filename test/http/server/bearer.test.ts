import { describe, expect, test } from "bun:test";
import { badKey, call, chat, expectRefusal, tooOften } from "../../support/gateway/chatCalls.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { connectRaw } from "../../support/gateway/rawClient.ts";
import { untilAsync } from "../../support/until.ts";

const at = openOneModelBefore();
const limits = {
  failed_keys_per_minute: 3,
  trusted_proxies: ["127.0.0.1", "10.0.0.1", "10.1.0.0/16", "fd00:1::/32"],
};
const proxied = openOneModelBefore({ limits });
const path = "/v1/models";

/** The status of GET /v1/models with exactly these header lines. */
async function statusOf(lines: string, target = path): Promise<readonly [number, string]> {
  const client = await connectRaw(at.gateway.port);
  client.send(Buffer.from(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n${lines}\r\n`, "latin1"));
  const { status, body } = await client.response();
  client.fin();
  return [status, status === 200 ? "" : body];
}

const refused = [401, JSON.stringify({ error: { message: badKey[2], type: badKey[1] } })] as const;

describe("a key is accepted", () => {
  test.each<[string, (key: string) => string]>([
    ["in the documented form", (key) => `Authorization: Bearer ${key}`],
    ["with the scheme in lower case", (key) => `authorization: bearer ${key}`],
    ["with the scheme in upper case", (key) => `AUTHORIZATION: BEARER ${key}`],
    ["after several spaces", (key) => `Authorization: Bearer   ${key}`],
    ["before a trailing space", (key) => `Authorization: Bearer ${key} `],
    ["before a trailing tab", (key) => `Authorization: Bearer ${key}\t`],
    ["without a space after the colon", (key) => `Authorization:Bearer ${key}`],
    ["in x-api-key", (key) => `x-api-key: ${key}`],
    ["in X-API-KEY", (key) => `X-API-KEY: ${key}`],
    ["in x-api-key before a trailing space", (key) => `x-api-key: ${key} `],
    ["in both headers", (key) => `x-api-key: ${key}\r\nAuthorization: Bearer ${key}`],
    ["in x-api-key beside an empty header", (key) => `x-api-key: ${key}\r\nAuthorization:`],
    ["beside an empty x-api-key", (key) => `Authorization: Bearer ${key}\r\nx-api-key:`],
  ])("%s", async (_, line) => {
    expect(await statusOf(`${line((await at.gateway.key()).key)}\r\n`)).toEqual([200, ""]);
  });
});

describe("a key is refused", () => {
  test.each<[string, (key: string) => string]>([
    ["absent", () => ""],
    ["empty", () => "Authorization:\r\n"],
    ["a scheme alone", () => "Authorization: Bearer\r\n"],
    ["a scheme and a space", () => "Authorization: Bearer \r\n"],
    ["without its scheme", (key) => `Authorization: ${key}\r\n`],
    ["with another scheme", (key) => `Authorization: Basic ${key}\r\n`],
    ["as Basic", (key) => `Authorization: Basic ${btoa(`${key}:`)}\r\n`],
    ["after a tab", (key) => `Authorization: Bearer\t${key}\r\n`],
    ["with another scheme before", (key) => `Authorization: Basic x Bearer ${key}\r\n`],
    ["twice in one header", (key) => `Authorization: Bearer ${key} ${key}\r\n`],
    ["as a list", (key) => `Authorization: Bearer ${key}, Bearer ${key}\r\n`],
    ["in two headers", (key) => `Authorization: Bearer ${key}\r\nAuthorization: Bearer ${key}\r\n`],
    ["after an empty header", (key) => `Authorization:\r\nAuthorization: Bearer ${key}\r\n`],
    ["with its scheme in x-api-key", (key) => `x-api-key: Bearer ${key}\r\n`],
    ["as a list in x-api-key", (key) => `x-api-key: ${key}, ${key}\r\n`],
    ["in two x-api-key headers", (key) => `x-api-key: ${key}\r\nx-api-key: ${key}\r\n`],
    ["with an empty x-api-key and another one", (key) => `x-api-key:\r\nx-api-key: ${key}\r\n`],
    [
      "beside another x-api-key",
      (key) => `Authorization: Bearer ${key}\r\nx-api-key: sk-tg-other\r\n`,
    ],
    [
      "in x-api-key beside another token",
      (key) => `x-api-key: ${key}\r\nAuthorization: Bearer sk-tg-other\r\n`,
    ],
    [
      "in x-api-key beside another scheme",
      (key) => `x-api-key: ${key}\r\nAuthorization: Basic YTpi\r\n`,
    ],
    [
      "beside a list of keys in x-api-key",
      (key) => `Authorization: Bearer ${key}\r\nx-api-key: ${key}, ${key}\r\n`,
    ],
    ["one character short in x-api-key", (key) => `x-api-key: ${key.slice(0, -1)}\r\n`],
    ["in api-key", (key) => `api-key: ${key}\r\n`],
    ["in a cookie", (key) => `Cookie: access_token=${key}\r\n`],
    ["in proxy-authorization", (key) => `Proxy-Authorization: Bearer ${key}\r\n`],
    ["one character short", (key) => `Authorization: Bearer ${key.slice(0, -1)}\r\n`],
    ["one character long", (key) => `Authorization: Bearer ${key}0\r\n`],
    ["in upper case", (key) => `Authorization: Bearer ${key.toUpperCase()}\r\n`],
    ["of 10 KB", (key) => `Authorization: Bearer ${key.padEnd(10_240, "a")}\r\n`],
    ["beyond ASCII", (key) => `Authorization: Bearer ${key.slice(0, -1)}\u00e9\r\n`],
    ["as SQL", () => "Authorization: Bearer ' OR 1=1 --\r\n"],
    ["as a log line", () => 'Authorization: Bearer x"}{"level":"info\r\n'],
  ])("%s", async (_, lines) => {
    const { key } = await at.gateway.key();
    expect(await statusOf(lines(key))).toEqual([...refused]);
    expect(at.gateway.logText()).not.toContain(key);
  });

  describe.each<[string, (value: string) => string]>([
    ["authorization", (value) => `Authorization: Bearer ${value}`],
    ["x-api-key", (value) => `x-api-key: ${value}`],
  ])("with what does not belong to it in %s", (_, lineOf) => {
    const quotes = "quotes";
    const separator = "a comma or semicolon";
    const blank = "a line break or an invisible character";
    test.each<[string, (key: string) => string]>([
      [quotes, (key) => `"${key}"`],
      [quotes, (key) => `'${key}'`],
      [quotes, (key) => `\u201c${key}\u201d`],
      [quotes, (key) => `\u00ab${key}\u00bb`],
      [quotes, (key) => `${key}"`],
      [quotes, (key) => `"${key}",`],
      [separator, (key) => `${key},`],
      [separator, (key) => `${key};`],
      [blank, (key) => `${key}\\n`],
      [blank, (key) => `${key}%0A`],
      [blank, (key) => `\u00a0${key}`],
      [blank, (key) => `${key}\u200b`],
      [blank, (key) => `\ufeff${key}`],
    ])("%s: %p", async (foreign, written) => {
      const message = `invalid api key: the header has ${foreign} beside the key, send the key alone`;
      const body = JSON.stringify({ error: { message, type: "auth_error" } });
      const { key } = await at.gateway.key();
      // The answer does not tell whether the key would be right.
      for (const one of [key, `${key.slice(0, -1)}_`, "other"]) {
        const bytes = Buffer.from(lineOf(written(one))).toString("latin1");
        expect(await statusOf(`${bytes}\r\n`)).toEqual([401, body]);
      }
    });
  });

  test("with quotes around scheme and key", async () => {
    const { key } = await at.gateway.key();
    const [status, body] = await statusOf(`Authorization: "Bearer ${key}"\r\n`);
    expect([status, body]).toEqual([401, expect.stringContaining("has quotes beside the key")]);
  });

  test.each(["access_token", "key", "api_key", "x-api-key", "token"])(
    "in the URL as %s",
    async (name) => {
      const { key } = await at.gateway.key();
      expect(await statusOf("", `${path}?${name}=${key}`)).toEqual([...refused]);
      const wrong = "Authorization: Basic x\r\n";
      expect(await statusOf(wrong, `${path}?${name}=${key}`)).toEqual([...refused]);
      expect(await statusOf("Authorization: Bearer wrong\r\n", `${path}?${name}=${key}`)).toEqual([
        ...refused,
      ]);
      expect(at.gateway.logText()).not.toContain(key);
    },
  );

  test("in a form", async () => {
    const { key } = await at.gateway.key();
    const reply = await call(at.gateway, undefined, {
      body: `access_token=${key}`,
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    expectRefusal(reply, badKey);
  });

  test("from the next request after it is revoked, expired, or its account disabled", async () => {
    at.provider.answer = usual;
    const actor = { name: "tester", command: "test", at: Date.now() };
    const { admin } = at.gateway.store;
    const key = await at.gateway.key();
    const expiring = await at.gateway.key({ expiresAt: at.gateway.clock.epochMs() + 10_000 });
    const sibling = await at.gateway.key({ account: key.account, balance: 0n });
    for (const one of [key, expiring, sibling]) {
      expect((await chat(at.gateway, one)).status).toBe(200);
    }
    await admin.revokeKey(actor, key.id);
    await at.gateway.toldOfChanges();
    at.gateway.clock.advance(10_000);
    expectRefusal(await chat(at.gateway, key), badKey);
    expectRefusal(await chat(at.gateway, expiring), badKey);
    expect((await chat(at.gateway, sibling)).status).toBe(200);
    await admin.setDisabled(actor, sibling.account, true);
    await at.gateway.toldOfChanges();
    expectRefusal(await chat(at.gateway, sibling), badKey);
    await admin.setDisabled(actor, sibling.account, false);
    await at.gateway.toldOfChanges();
    expect((await chat(at.gateway, sibling)).status).toBe(200);
    expectRefusal(await chat(at.gateway, key), badKey);
  });

  test("when it is revoked and the clock is then set back", async () => {
    const key = await at.gateway.key();
    const laterMs = at.gateway.clock.epochMs() + 3_600_000;
    await at.gateway.store.admin.revokeKey(
      { name: "tester", command: "test", at: laterMs },
      key.id,
    );
    await at.gateway.toldOfChanges();
    expectRefusal(await call(at.gateway, key, { path }), badKey);
  });

  test("and does not update its last use", async () => {
    const key = await at.gateway.key();
    expect((await at.gateway.store.keys.find(key.id))?.lastUsedAt).toBeNull();
    const now = at.gateway.clock.epochMs();
    expect((await call(at.gateway, key, { path })).status).toBe(200);
    expect((await call(at.gateway, key, { path })).status).toBe(200);
    const lastUsedAt = async () => (await at.gateway.store.keys.find(key.id))?.lastUsedAt ?? 0;
    await untilAsync("the last use is written", async () => (await lastUsedAt()) > 0);
    expect(await lastUsedAt()).toBeWithin(now, now + 10_000);
  });
});

test("the first and the last address of a key are recorded, and removed with [log] addresses = false", async () => {
  const { gateway } = proxied;
  const key = await gateway.key();
  const use = async (address: string, after: number) => {
    gateway.clock.advance(after);
    const at = gateway.clock.epochMs();
    const headers = { "x-forwarded-for": address };
    expect((await call(gateway, key, { path, headers })).status).toBe(200);
    return at;
  };
  const recorded = async (at: number) => {
    await untilAsync("the use is written", async () => {
      const row = await gateway.store.keys.find(key.id);
      return (row?.lastUsedAt ?? 0) >= at;
    });
    const row = await gateway.store.keys.find(key.id);
    return [row?.firstAddress, row?.lastAddress];
  };
  const first = "203.0.113.1";
  expect(await recorded(await use(first, 0))).toEqual([first, first]);
  // Within the minute nothing is written, so the next use is the next write.
  await use("203.0.113.2", 1000);
  expect(await recorded(await use("2001:db8::3", 60_000))).toEqual([first, "2001:db8::3"]);
  const reload = (addresses: boolean) =>
    gateway.reload(oneModel("http://127.0.0.1:9/v1", { limits, log: { addresses } }));
  await reload(false);
  expect(await recorded(await use("203.0.113.4", 60_000))).toEqual([null, null]);
  await reload(true);
  expect(await recorded(await use("203.0.113.5", 60_000))).toEqual(["203.0.113.5", "203.0.113.5"]);
});

describe("wrong keys from one address", () => {
  function fail(forwarded?: string, key?: string) {
    return call(
      proxied.gateway,
      { key: key ?? "sk-tg-wrong" },
      {
        path,
        headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded },
      },
    );
  }

  test("are a 429 beyond the limit, and are forgiven over time", async () => {
    for (let round = 0; round < 3; round += 1) expectRefusal(await fail("1.2.3.4"), badKey);
    const reply = await fail("1.2.3.4");
    expectRefusal(reply, tooOften);
    expect(Number(reply.headers.get("retry-after"))).toBeWithin(19, 21);
    expectRefusal(await fail("1.2.3.5"), badKey);
    proxied.gateway.clock.advance(20_000);
    expectRefusal(await fail("1.2.3.4"), badKey);
    expectRefusal(await fail("1.2.3.4"), tooOften);
  });

  test("never block a valid key", async () => {
    for (let round = 0; round < 5; round += 1) await fail("2.2.2.2");
    expectRefusal(await fail("2.2.2.2"), tooOften);
    expect((await fail("2.2.2.2", (await proxied.gateway.key()).key)).status).toBe(200);
  });

  test("count for the nearest address that is not a trusted proxy", async () => {
    const claims = [
      "9.9.9.9, 3.3.3.3, ,",
      "8.8.8.8,3.3.3.3, 10.0.0.1",
      "x, ::ffff:3.3.3.3, 10.1.2.3,[fd00:1:2::3]:99",
      "3.3.3.3",
    ];
    const statuses: number[] = [];
    for (const claim of claims) statuses.push((await fail(claim)).status);
    expect(statuses).toEqual([401, 401, 401, 429]);
  });

  test("count for the first address if all are trusted proxies", async () => {
    const claims = ["10.1.0.1", "10.1.0.1,10.1.0.2", "10.1.0.1, 10.0.0.1", "10.1.0.1, 127.0.0.1"];
    const statuses: number[] = [];
    for (const claim of claims) statuses.push((await fail(claim)).status);
    expect([...statuses, (await fail("10.1.0.2")).status]).toEqual([401, 401, 401, 429, 401]);
  });

  test("count for the /64 network of an IPv6 address", async () => {
    const statuses: number[] = [];
    for (const at of ["1::1", "1:ffff::2", "1:0:0:3:4", "1::5"])
      statuses.push((await fail(`2001:db8:64:${at}`)).status);
    expect([...statuses, (await fail("2001:db8:64:2::1")).status]).toEqual([
      401, 401, 401, 429, 401,
    ]);
  });

  test("count with quotes around them as any other", async () => {
    const statuses: number[] = [];
    for (const key of ["'a'", '"b"', "c", "'d'"])
      statuses.push((await fail("7.7.7.7", key)).status);
    expect(statuses).toEqual([401, 401, 401, 429]);
  });

  test.each([
    ["with a port", (round: number) => `9.9.9.${round}, 5.5.5.5:500${round}`],
    ["in brackets", (round: number) => `9.9.9.${round}, [2001:db8::1]`],
    [
      "in brackets, with a port",
      (round: number) => `9.9.9.${round},[2001:db8:0:2::1]:500${round}, 10.0.0.1:1`,
    ],
  ])("count for an address that a proxy writes %s", async (_, claim) => {
    const statuses: number[] = [];
    for (const round of [1, 2, 3, 4]) statuses.push((await fail(claim(round))).status);
    expect(statuses).toEqual([401, 401, 401, 429]);
  });

  test("never count for an address that a client forges", async () => {
    for (let round = 0; round < 4; round += 1) await fail("6.6.6.6, unknown");
    expectRefusal(await fail("6.6.6.6"), badKey);
  });

  test("are not counted from the loopback address", async () => {
    for (let round = 0; round < 6; round += 1) {
      expectRefusal(await fail(), badKey);
      expectRefusal(await fail("127.0.0.1"), badKey);
      expectRefusal(await fail("nonsense"), badKey);
    }
  });

  test("count for the peer when it is not a trusted proxy", async () => {
    for (let round = 0; round < 80; round += 1) {
      const headers = { "x-forwarded-for": "4.4.4.4" };
      const reply = await call(at.gateway, { key: "sk-tg-wrong" }, { path, headers });
      expect(reply.status).toBe(401);
    }
  });
});
