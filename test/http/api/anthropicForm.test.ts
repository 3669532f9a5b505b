import { describe, expect, test } from "bun:test";
import { call, type Reply } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";

const at = openOneModelBefore();

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

describe("an error has Anthropic's form", () => {
  test.each(["/v1/models", "/v1/models/small"])(
    "at %s with Anthropic's header: 401",
    async (path) => {
      const reply = await get(path, version);
      expectAnthropicError(reply, 401, "authentication_error", "invalid api key");
    },
  );

  test.each(["/v1/models/unknown", "/v1/models/"])("at %s: 404", async (path) => {
    const { key } = at.gateway.key();
    const reply = await get(path, { ...version, "x-api-key": key });
    expectAnthropicError(reply, 404, "not_found_error", "model not found");
  });

  test("at a method that does not exist", async () => {
    const reply = await get("/v1/models", version, "DELETE");
    expectAnthropicError(reply, 404, "not_found_error", "not found");
  });

  test("beyond the key's rate, with retry-after", async () => {
    const { key } = at.gateway.key({ requestsPerMinute: 1 });
    const headers = { ...version, "x-api-key": key };
    expect((await get("/v1/models", headers)).status).toBe(200);
    const reply = await get("/v1/models", headers);
    expectAnthropicError(reply, 429, "rate_limit_error", "rate limit exceeded");
    expect(reply.headers.get("retry-after")).toBe("60");
  });

  test("while the gateway shuts down", async () => {
    at.gateway.app.isDraining = true;
    const reply = await get("/v1/models", version).finally(() => {
      at.gateway.app.isDraining = false;
    });
    expectAnthropicError(reply, 502, "api_error", "service temporarily unavailable");
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
