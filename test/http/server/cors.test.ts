import { describe, expect, test } from "bun:test";
import { call, chat, openCall, ask, type Reply } from "../../support/gateway/chatCalls.ts";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { connectRaw } from "../../support/gateway/rawClient.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";

const page = "https://chat.example.com";
const at = openOneModelBefore({
  server: {
    listen: "127.0.0.1:0",
    cors_origins: [page, "http://localhost:3000", "app://obsidian.md"],
  },
});

const vary = "authorization, x-api-key, origin";
const exposed = [
  "x-request-id",
  "request-id",
  "retry-after",
  "x-tollgate-cost-rub",
  "x-tollgate-model",
  "x-tollgate-estimated",
  "x-ratelimit-limit-requests",
  "x-ratelimit-remaining-requests",
  "x-ratelimit-reset-requests",
  "x-ratelimit-limit-tokens",
  "x-ratelimit-remaining-tokens",
  "x-ratelimit-reset-tokens",
].join(", ");

/** The CORS headers of an answer, and `vary`. */
function corsOf({ headers }: Pick<Reply, "headers">): Readonly<Record<string, string>> {
  const named = [...headers].filter(
    ([name]) => name.startsWith("access-control-") || name === "vary",
  );
  return Object.fromEntries(named);
}

const allowed = {
  vary,
  "access-control-allow-origin": page,
  "access-control-expose-headers": exposed,
};

/** The header lines of a preflight as a browser sends it. */
const browsers: Readonly<Record<string, readonly string[]>> = {
  Chrome: [
    "Connection: close",
    "Accept: */*",
    "Access-Control-Request-Method: METHOD",
    "Access-Control-Request-Headers: HEADERS",
    "Origin: ORIGIN",
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/150.0.0.0 Safari/537.36",
    "Sec-Fetch-Mode: cors",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Dest: empty",
    "Referer: ORIGIN/",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Accept-Language: en-US,en;q=0.9",
  ],
  Firefox: [
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0",
    "Accept: */*",
    "Accept-Language: en-US,en;q=0.5",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Access-Control-Request-Method: METHOD",
    "Access-Control-Request-Headers: HEADERS",
    "Referer: ORIGIN/",
    "Origin: ORIGIN",
    "Connection: close",
    "Sec-Fetch-Dest: empty",
    "Sec-Fetch-Mode: cors",
    "Sec-Fetch-Site: cross-site",
    "Priority: u=4",
  ],
};

/** The headers that SDKs set in a browser, as a preflight lists them. */
const sdkHeaders = {
  openai:
    "authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout",
  anthropic:
    "anthropic-beta,anthropic-dangerous-direct-browser-access,anthropic-version,content-type,x-api-key,x-stainless-arch,x-stainless-helper-method,x-stainless-lang,x-stainless-os",
  plain: "authorization, content-type",
};

/** Sends a preflight as bytes, and returns its status line and its headers. */
async function preflight(
  path: string,
  lines: readonly string[],
): Promise<readonly [status: number, headers: Headers]> {
  const client = await connectRaw(at.gateway.port);
  client.send(`OPTIONS ${path} HTTP/1.1\r\nHost: api.example.com\r\n${lines.join("\r\n")}\r\n\r\n`);
  const { status, head } = await client.response();
  const fields = head.split("\r\n").slice(1);
  const headers = new Headers(fields.map((line) => line.split(/: ?(.*)/s, 2) as [string, string]));
  return [status, headers];
}

function linesOf(browser: string, origin: string, method: string, names: string): string[] {
  return (browsers[browser] ?? []).map((line) =>
    line.replace("ORIGIN", origin).replace("METHOD", method).replace("HEADERS", names),
  );
}

describe("a preflight", () => {
  const rows = Object.keys(browsers).flatMap((browser) =>
    Object.entries(sdkHeaders).map(([sdk, names]) => [browser, sdk, names] as const),
  );
  test.each(rows)("of %s with the headers of %s is allowed", async (browser, _, names) => {
    for (const [path, method, methods] of [
      ["/v1/chat/completions", "POST", "POST, OPTIONS"],
      ["/v1/responses", "POST", "POST, OPTIONS"],
      ["/v1/models", "GET", "GET, HEAD, OPTIONS"],
      ["/v1/models/org%2Flarge", "GET", "GET, HEAD, OPTIONS"],
    ] as const) {
      const [status, headers] = await preflight(path, linesOf(browser, page, method, names));
      expect([status, corsOf({ headers })]).toEqual([
        204,
        {
          ...allowed,
          "access-control-allow-methods": methods,
          "access-control-allow-headers": names,
          "access-control-max-age": "600",
        },
      ]);
    }
  });

  test.each(["http://localhost:3000", "app://obsidian.md"])("of %s too", async (origin) => {
    const lines = linesOf("Chrome", origin, "POST", "authorization");
    const [, headers] = await preflight("/v1/chat/completions", lines);
    expect(headers.get("access-control-allow-origin")).toBe(origin);
  });

  test.each([
    "https://evil.example",
    "http://chat.example.com",
    "https://chat.example.com:8443",
    "https://chat.example.com.evil.example",
    "https://sub.chat.example.com",
    "https://CHAT.example.com",
    "https://chat.example.com/",
    "https://chat.example.com, https://evil.example",
    "null",
    "*",
    "",
  ])("of the foreign origin %j is refused by the absence of headers", async (origin) => {
    const lines = linesOf("Chrome", origin, "POST", "authorization");
    const [status, headers] = await preflight("/v1/chat/completions", lines);
    expect([status, corsOf({ headers }), headers.get("allow")]).toEqual([
      204,
      { vary },
      "POST, OPTIONS",
    ]);
  });

  test("with two origins is refused", async () => {
    const lines = [...linesOf("Chrome", page, "POST", "authorization"), `Origin: ${page}`];
    const [, headers] = await preflight("/v1/chat/completions", lines);
    expect(corsOf({ headers })).toEqual({ vary });
  });

  test.each([
    ["a blank in a name", "a b"],
    ["an empty name", "a,,b"],
    ["nothing", ""],
    ["quotes", '"a"'],
    ["5,000 characters", "a,".repeat(2500) + "a"],
  ])("whose list of headers has %s names no headers", async (_, names) => {
    const reply = await call(at.gateway, undefined, {
      path: "/v1/models",
      method: "OPTIONS",
      headers: {
        origin: page,
        "access-control-request-method": "GET",
        "access-control-request-headers": names,
      },
    });
    expect(reply.status).toBe(204);
    expect(reply.headers.has("access-control-allow-headers")).toBe(false);
    expect(reply.headers.get("access-control-allow-methods")).toBe("GET, HEAD, OPTIONS");
  });

  test("needs no key, and never allows credentials", async () => {
    const lines = linesOf("Chrome", page, "POST", "authorization");
    const [, headers] = await preflight("/v1/chat/completions", lines);
    expect(headers.has("access-control-allow-credentials")).toBe(false);
  });
});

describe("every answer to an allowed page can be read by it", () => {
  const headers = { origin: page };
  const version = { ...headers, "anthropic-version": "2023-06-01" };

  test.each<[string, number, () => Promise<Reply>]>([
    [
      "a list",
      200,
      async () => call(at.gateway, await at.gateway.key(), { path: "/v1/models", headers }),
    ],
    [
      "Anthropic's list",
      200,
      async () =>
        call(at.gateway, await at.gateway.key(), { path: "/v1/models", headers: version }),
    ],
    [
      "the account",
      200,
      async () => call(at.gateway, await at.gateway.key(), { path: "/v1/account", headers }),
    ],
    ["openapi.json", 200, () => call(at.gateway, undefined, { path: "/openapi.json", headers })],
    ["healthz", 200, () => call(at.gateway, undefined, { path: "/healthz", headers })],
    ["a chat", 200, async () => call(at.gateway, await at.gateway.key(), { body: ask(), headers })],
    ["a wrong key", 401, () => call(at.gateway, undefined, { path: "/v1/models", headers })],
    ["a wrong key of a chat", 401, () => call(at.gateway, undefined, { body: ask(), headers })],
    [
      "a wrong body",
      400,
      async () => call(at.gateway, await at.gateway.key(), { body: "{", headers }),
    ],
    [
      "no money",
      402,
      async () => call(at.gateway, await at.gateway.key({ balance: 0n }), { body: ask(), headers }),
    ],
    ["an unknown path", 404, () => call(at.gateway, undefined, { path: "/v1/nothing", headers })],
    [
      "a foreign host",
      400,
      () =>
        call(at.gateway, undefined, { path: "/v1/models", headers: { ...headers, host: "a/b" } }),
    ],
  ])("%s: %d", async (_, status, work) => {
    at.provider.answer = usual;
    const reply = await work();
    expect([reply.status, corsOf(reply)]).toEqual([status, allowed]);
  });

  test("a rate limit: 429", async () => {
    const key = await at.gateway.key({ requestsPerMinute: 1 });
    await call(at.gateway, key, { path: "/v1/models", headers });
    const reply = await call(at.gateway, key, { path: "/v1/models", headers });
    expect([reply.status, corsOf(reply)]).toEqual([429, allowed]);
  });

  test("a provider that fails: 502", async () => {
    at.provider.answer = refusal(500);
    const reply = await call(at.gateway, await at.gateway.key(), { body: ask(), headers });
    expect([reply.status, corsOf(reply)]).toEqual([502, allowed]);
  });

  test("a stream", async () => {
    at.provider.answer = usual;
    const body = ask({ stream: true });
    const reply = await openCall(at.gateway, await at.gateway.key(), { body, headers });
    expect([reply.headers.get("content-type"), corsOf(reply)]).toEqual([
      "text/event-stream",
      allowed,
    ]);
    await reply.seen("[DONE]");
  });

  test("every header that an answer can have is one that the page may read", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key({ requestsPerMinute: 100, tokensPerMinute: 100_000 });
    const reply = await call(at.gateway, key, { body: ask(), headers });
    const own = [...reply.headers.keys()].filter((name) => name.startsWith("x-"));
    expect(own.length).toBeGreaterThan(7);
    expect(own.filter((name) => !exposed.split(", ").includes(name))).toEqual([]);
  });
});

describe("a request of a foreign page, or of no page,", () => {
  test.each([{ origin: "https://evil.example" }, { origin: "null" }, {}])(
    "with %j is served as ever, without CORS headers",
    async (headers) => {
      at.provider.answer = usual;
      const replies = [
        await call(at.gateway, await at.gateway.key(), { path: "/v1/models", headers }),
        await call(at.gateway, await at.gateway.key(), { body: ask(), headers }),
      ];
      for (const reply of replies) expect([reply.status, corsOf(reply)]).toEqual([200, { vary }]);
    },
  );
});

test("a reload changes the origins, and turns CORS off", async () => {
  const url = `http://127.0.0.1:${at.provider.port}/v1`;
  const listen = "127.0.0.1:0";
  const ofPage = async (origin: string) => {
    at.provider.answer = usual;
    const reply = await call(at.gateway, await at.gateway.key(), {
      body: ask(),
      headers: { origin },
    });
    return corsOf(reply);
  };
  const other = "https://other.example";
  await at.gateway.reload(oneModel(url, { server: { listen, cors_origins: [other] } }));
  expect(await ofPage(page)).toEqual({ vary });
  expect(await ofPage(other)).toEqual({ ...allowed, "access-control-allow-origin": other });
  await at.gateway.reload(oneModel(url, { server: { listen } }));
  expect(await ofPage(other)).toEqual({ vary: "authorization, x-api-key" });
  at.provider.answer = usual;
  expect((await chat(at.gateway, await at.gateway.key())).status).toBe(200);
});
