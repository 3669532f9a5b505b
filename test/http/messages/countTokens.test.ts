import { expect, test } from "bun:test";
import { call, type Reply } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { askMessage } from "../../support/gateway/messagesCalls.ts";
import {
  cut,
  json,
  refusal,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";

const at = openBefore(["claude", "local"], ({ claude, local }) => ({
  providers: { claude: { base_url: claude, kind: "anthropic", max_concurrent: 1 }, local },
  models: [
    { id: "small", routes: [{ provider: "claude", model: "claude-x", responses: false }] },
    { id: "translated", routes: [{ provider: "local" }] },
  ],
}));

async function count(changes: object = {}, headers = {}): Promise<Promise<Reply>> {
  const { max_tokens: _, ...body } = askMessage(changes);
  const path = "/v1/messages/count_tokens";
  return call(at.gateway, await at.gateway.key({ balance: 10_000_000n }), { path, body, headers });
}

test("a provider of kind anthropic counts, for nothing", async () => {
  at.providers.claude.answer = json({ input_tokens: 42, new_field: 1 });
  const reply = await count(
    { system: "Be brief." },
    { "anthropic-beta": "token-counting-2024-11-01" },
  );
  expect([reply.status, reply.body]).toEqual([200, { input_tokens: 42, new_field: 1 }]);
  expect(reply.headers.get("x-tollgate-estimated")).toBeNull();
  const [request] = at.providers.claude.requests;
  expect(request?.requestLine).toBe("POST /v1/messages/count_tokens HTTP/1.1");
  expect(request?.json).toMatchObject({ model: "claude-x", system: "Be brief." });
  expect(Object.fromEntries(request?.headers ?? [])).toMatchObject({
    "anthropic-beta": "token-counting-2024-11-01",
  });
});

/** The bytes of `hello` and of the tool, four to a token. */
const estimate = { input_tokens: Math.ceil("hello".length / 4) };

test.each<readonly [string, ProviderAnswer]>([
  ["does not have the call", refusal(404)],
  ["fails", refusal(500)],
  ["refuses the key", refusal(401)],
  ["is cut", cut("reset")],
  ["answers something else", json({ tokens: 5 })],
])("the gateway estimates if the provider %s, and the route stays in use", async (_, answer) => {
  for (let times = 0; times < 6; times += 1) {
    at.providers.claude.answer = answer;
    const reply = await count();
    expect([reply.status, reply.body]).toEqual([200, estimate]);
    expect(reply.headers.get("x-tollgate-estimated")).toBe("true");
  }
  at.providers.claude.answer = json({ input_tokens: 42 });
  expect((await count()).body).toEqual({ input_tokens: 42 });
});

test("the gateway estimates while the provider has `max_concurrent` requests", async () => {
  const go = Promise.withResolvers<void>();
  at.providers.claude.answer = async (peer, request) => {
    await go.promise;
    await json({ input_tokens: 42 })(peer, request);
  };
  const first = count();
  await at.providers.claude.request(0);
  expect((await count()).body).toEqual(estimate);
  go.resolve();
  expect((await first).body).toEqual({ input_tokens: 42 });
  expect(at.providers.claude.requests).toHaveLength(1);
});

test("a wrong request is a 400 with the provider's words", async () => {
  const error = { type: "invalid_request_error", message: "messages: wrong" };
  at.providers.claude.answer = json({ type: "error", error }, { status: 400 });
  const reply = await count();
  expect([reply.status, reply.body]).toMatchObject([400, { type: "error", error }]);
});

test("the gateway estimates for other kinds", async () => {
  const reply = await count({ model: "translated" });
  expect(reply.body).toEqual(estimate);
  expect(at.providers.local.requests).toEqual([]);
});
