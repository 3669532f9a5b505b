import { describe, expect, test } from "bun:test";
import { call, type Reply } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";

const modelIds = ["small", "org/large", "ж", "d", "e"];
const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [...modelIds, "vectors"].map((id) => ({
    id,
    routes: [{ provider: "local" }],
    settings: { context_tokens: 32_000, kind: id === "vectors" ? "embedding" : "chat" },
  })),
}));

/** The header that all of Anthropic's clients send. */
const version = { "anthropic-version": "2023-06-01" };

function get(path: string, headers: Readonly<Record<string, string>>, method = "GET") {
  return call(at.gateway, undefined, { path, headers, method });
}

/** Expects exactly this error in Anthropic's form. */
function expectAnthropicError(reply: Reply, status: number, type: string, message: string): void {
  const body = { type: "error", error: { type, message }, request_id: reply.id };
  expect([reply.status, reply.body]).toEqual([status, body]);
  expect(reply.id).toMatch(/^req_[0-9a-z]{20}$/);
  expect(reply.headers.get("request-id")).toBe(reply.id);
}

function shown(id: string): object {
  return {
    type: "model",
    id,
    display_name: id,
    created_at: "1970-01-01T00:00:00Z",
    max_input_tokens: 32_000,
    max_tokens: 1000,
    capabilities: null,
  };
}

describe("GET /v1/models with Anthropic's header", () => {
  test.each<[query: string, ids: readonly string[], hasMore: boolean]>([
    ["", modelIds, false],
    ["?limit=1000", modelIds, false],
    ["?limit=5", modelIds, false],
    ["?limit=4", ["small", "org/large", "ж", "d"], true],
    ["?limit=1", ["small"], true],
    ["?limit=2&after_id=small", ["org/large", "ж"], true],
    ["?limit=2&after_id=org%2Flarge", ["ж", "d"], true],
    ["?limit=2&after_id=%D0%B6", ["d", "e"], false],
    ["?after_id=d&limit=20", ["e"], false],
    ["?after_id=e", [], false],
    ["?limit=2&before_id=e", ["ж", "d"], true],
    ["?limit=2&before_id=%D0%B6", ["small", "org/large"], false],
    ["?before_id=small", [], false],
    ["?beta=true&x=1", modelIds, false],
  ])("%s lists %j", async (query, ids, has_more) => {
    const { key } = await at.gateway.key();
    const reply = await get(`/v1/models${query}`, { ...version, "x-api-key": key });
    const [first_id, last_id] = [ids[0] ?? null, ids.at(-1) ?? null];
    expect([reply.status, reply.body]).toEqual([
      200,
      { data: ids.map(shown), has_more, first_id, last_id },
    ]);
    expect(reply.headers.get("request-id")).toBe(reply.id);
  });

  test("lists only the models that the key may use, and a page ends with the last of them", async () => {
    const { key } = await at.gateway.key({ models: ["org/*", "d"] });
    const reply = await get("/v1/models?limit=2", { ...version, "x-api-key": key });
    const data = ["org/large", "d"].map(shown);
    expect(reply.body).toEqual({ data, has_more: false, first_id: "org/large", last_id: "d" });
  });

  test.each([
    ["limit=0", "limit must be a whole number from 1 to 1000"],
    ["limit=1001", "limit must be a whole number from 1 to 1000"],
    ["limit=-1", "limit must be a whole number from 1 to 1000"],
    ["limit=1.5", "limit must be a whole number from 1 to 1000"],
    ["limit=", "limit must be a whole number from 1 to 1000"],
    ["limit=99999999999", "limit must be a whole number from 1 to 1000"],
    ["after_id=unknown", "after_id must be the id of a listed model"],
    ["before_id=", "before_id must be the id of a listed model"],
    ["after_id=small&before_id=e", "after_id and before_id cannot be used together"],
  ])("%s is a 400: %s", async (query, message) => {
    const { key } = await at.gateway.key();
    const reply = await get(`/v1/models?${query}`, { ...version, "x-api-key": key });
    expectAnthropicError(reply, 400, "invalid_request_error", message);
  });

  test.each(["small", "org/large", "org%2Flarge", "%D0%B6"])("shows the model %s", async (path) => {
    const { key } = await at.gateway.key();
    for (const headers of [{ "x-api-key": key }, { authorization: `Bearer ${key}` }]) {
      const reply = await get(`/v1/models/${path}`, { ...version, ...headers });
      expect([reply.status, reply.body]).toEqual([200, shown(decodeURIComponent(path))]);
    }
  });
});

describe("an error has Anthropic's form", () => {
  test.each(["/v1/models", "/v1/models/small"])(
    "at %s with Anthropic's header: 401",
    async (path) => {
      const reply = await get(path, version);
      expectAnthropicError(reply, 401, "authentication_error", "invalid api key");
    },
  );

  test.each(["/v1/models/unknown", "/v1/models/", "/v1/models/vectors"])(
    "at %s: 404",
    async (path) => {
      const { key } = await at.gateway.key();
      const reply = await get(path, { ...version, "x-api-key": key });
      expectAnthropicError(reply, 404, "not_found_error", "model not found");
    },
  );

  test("at a method that does not exist", async () => {
    const reply = await get("/v1/models", version, "DELETE");
    expectAnthropicError(reply, 404, "not_found_error", "not found");
  });

  test("beyond the key's rate, with retry-after", async () => {
    const { key } = await at.gateway.key({ requestsPerMinute: 1 });
    const headers = { ...version, "x-api-key": key };
    expect((await get("/v1/models", headers)).status).toBe(200);
    const reply = await get("/v1/models", headers);
    expectAnthropicError(reply, 429, "rate_limit_error", "rate limit exceeded");
    expect(reply.headers.get("retry-after")).toBe("60");
  });

  test("while the gateway shuts down", async () => {
    at.gateway.app.phase = "refusing";
    const reply = await get("/v1/models", version).finally(() => {
      at.gateway.app.phase = "serving";
    });
    expectAnthropicError(reply, 502, "overloaded_error", "service temporarily unavailable");
  });

  test("below /v1/messages, with and without the header", async () => {
    for (const headers of [{}, version]) {
      const reply = await get("/v1/messages/batches", headers);
      expectAnthropicError(reply, 404, "not_found_error", "not found");
    }
  });
});

describe("an error has OpenAI's form", () => {
  test.each([
    ["/v1/models", {}, 401],
    ["/v1/account", version, 401],
    ["/v1/modelsx", version, 404],
    ["/v1/messagesx", version, 404],
    ["/messages", version, 404],
  ])("at %s with %j", async (path, headers, status) => {
    const reply = await get(path, headers);
    expect(reply.status).toBe(status);
    expect(Object.keys(reply.body as object)).toEqual(["error"]);
    expect(reply.headers.has("request-id")).toBe(false);
  });
});
