import { describe, expect, test } from "bun:test";
import { createServer } from "../../../src/http/server.ts";
import { call, chat, expectRefusal, type ExpectedError } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { usual } from "../../support/provider/chatAnswers.ts";

const at = openOneModelBefore({ limits: { requests_per_minute: 1000 } });
const notFound: ExpectedError = [404, "invalid_request_error", "not found"];

/** A key, and a path for each route of the server. */
async function keyAndReceipt(): Promise<{ key: TestKey; receipt: string }> {
  at.provider.answer = usual;
  const key = await at.gateway.key();
  return { key, receipt: `/v1/requests/${(await chat(at.gateway, key)).id}` };
}

const getRoutes = [
  "/",
  "/v1/models",
  "/v1/models/small",
  "/v1/account",
  "/v1/usage",
  "/v1/requests",
  "/v1/requests/ID",
  "/openapi.json",
  "/healthz",
];

/** The paths of the server's routes, each with its methods. */
function methodsByPath(): ReadonlyMap<string, readonly string[]> {
  const paths = new Map<string, string[]>();
  for (const { method, path } of createServer(at.gateway.app).routes) {
    const shown = path.replace("/models/*", "/models/small").replace("/*", "/ID");
    paths.set(shown, [...(paths.get(shown) ?? []), method]);
  }
  return paths;
}

const anthropic = { "anthropic-version": "2023-06-01" };

describe("HEAD", () => {
  test.each([
    ...getRoutes.map((route) => [route, {}] as const),
    ["/v1/models", anthropic] as const,
    ["/v1/models/small", anthropic] as const,
  ])("of %s with %j has the headers of GET, and no body", async (route, headers) => {
    const { key, receipt } = await keyAndReceipt();
    const path = route.replace("/v1/requests/ID", receipt);
    const whole = await call(at.gateway, key, { path, headers });
    const head = await call(at.gateway, key, { path, headers, method: "HEAD" });
    expect([whole.status, head.status, head.text]).toEqual([200, 200, ""]);
    expect(head.headers.get("content-length")).toBe(String(Buffer.byteLength(whole.text)));
    // Each request has its own id, and fewer requests remain. Bun writes no date for HEAD.
    const own = { date: "", "x-request-id": "", "request-id": "" };
    const fixed = ({ headers: sent }: typeof whole) => ({
      ...Object.fromEntries(sent),
      ...own,
      "x-ratelimit-remaining-requests": "",
      "x-ratelimit-reset-requests": "",
    });
    expect(fixed(head)).toEqual(fixed(whole));
    expect(head.id).toMatch(/^req_[0-9a-z]{20}$/);
  });

  test.each(getRoutes.filter((route) => route.startsWith("/v1/")))(
    "of %s needs a key, and counts for the key's rate",
    async (path) => {
      const strange = await call(at.gateway, undefined, { path, method: "HEAD" });
      expect([strange.status, strange.text]).toEqual([401, ""]);
      const key = await at.gateway.key({ requestsPerMinute: 1 });
      expect((await call(at.gateway, key, { path, method: "HEAD" })).status).not.toBe(429);
      const second = await call(at.gateway, key, { path, method: "HEAD" });
      expect([second.status, second.text]).toEqual([429, ""]);
      expect(second.headers.get("retry-after")).toBe("60");
    },
  );

  test("is tested on every route with GET", () => {
    const served = [...methodsByPath()].filter(([, methods]) => methods.includes("GET"));
    // The names of the page's files change with their content.
    const tested = [...getRoutes, "/assets/ID"];
    expect(served.map(([path]) => path).toSorted()).toEqual(tested.toSorted());
  });
});

describe("OPTIONS", () => {
  test("of the path of every route names its methods", async () => {
    const origin = { origin: "https://chat.example.com" };
    const preflight = {
      ...origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization",
    };
    for (const [path, methods] of methodsByPath()) {
      const isAnthropic = path.startsWith("/v1/messages");
      for (const headers of [{}, origin, preflight]) {
        const reply = await call(at.gateway, undefined, { path, headers, method: "OPTIONS" });
        expect([path, reply.status, reply.text]).toEqual([path, 204, ""]);
        const { date: _, ...sent } = Object.fromEntries(reply.headers);
        expect([path, sent]).toEqual([
          path,
          {
            allow: methods.includes("GET") ? "GET, HEAD, OPTIONS" : "POST, OPTIONS",
            "cache-control": "no-store",
            vary: "authorization, x-api-key",
            "x-request-id": reply.id,
            ...(isAnthropic ? { "request-id": reply.id } : {}),
          },
        ]);
        expect(at.gateway.logText()).toContain(reply.id);
      }
    }
  });

  test("is the same for a model or a request that does not exist, and with any key", async () => {
    const answers = new Set<string>();
    for (const path of ["/v1/models/small", "/v1/models/none", "/v1/requests/x", "/v1/models/"]) {
      for (const key of [undefined, await at.gateway.key(), { key: "sk-tg-wrong" }]) {
        const reply = await call(at.gateway, key, { path, method: "OPTIONS" });
        answers.add(`${reply.status} ${reply.headers.get("allow")} ${reply.text}`);
      }
    }
    expect([...answers]).toEqual(["204 GET, HEAD, OPTIONS "]);
  });

  test.each(["/v1", "/v1/nothing", "/v1/models2", "/v1/account/", "/metrics"])(
    "of the unknown path %s is a 404",
    async (path) => {
      expectRefusal(await call(at.gateway, undefined, { path, method: "OPTIONS" }), notFound);
    },
  );

  test("is no attempt with a wrong key, and reads no body", async () => {
    for (let round = 0; round < 3; round += 1) {
      const reply = await call(at.gateway, undefined, {
        path: "/v1/chat/completions",
        method: "OPTIONS",
        body: "{",
      });
      expect(reply.status).toBe(204);
    }
    expect(at.provider.requests).toEqual([]);
  });
});

describe("any other method", () => {
  test("is a 404 on the path of every route", async () => {
    for (const [path, methods] of methodsByPath()) {
      for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH"]) {
        if (methods.includes(method)) continue;
        const reply = await call(at.gateway, await at.gateway.key(), { path, method });
        expect([method, path, reply.status, reply.body]).toEqual([
          method,
          path,
          404,
          expect.objectContaining({ error: expect.objectContaining({ message: "not found" }) }),
        ]);
      }
    }
  });

  test("HEAD is one on the path of a route without GET, and on an unknown path", async () => {
    const others = [...methodsByPath()].filter(([, methods]) => !methods.includes("GET"));
    expect(others.length).toBeGreaterThan(1);
    for (const path of ["/v1/nothing", ...others.map(([path]) => path)]) {
      const reply = await call(at.gateway, await at.gateway.key(), { path, method: "HEAD" });
      expect([path, reply.status, reply.text]).toEqual([path, 404, ""]);
    }
  });
});
