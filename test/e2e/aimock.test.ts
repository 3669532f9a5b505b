import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { LLMock } from "@copilotkit/aimock";
import { formatRoubles } from "../../src/lib/money.ts";
import { costOf } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";

/** An independent provider. Its answers are in its fixtures, and it demands a key. */
const providerKey = "aimock-key";
const fixtures = [
  {
    match: { userMessage: "bill" },
    response: {
      content: "so be it",
      usage: {
        prompt_tokens: 11,
        completion_tokens: 7,
        input_tokens: 11,
        output_tokens: 7,
        total_tokens: 18,
      },
    },
  },
  {
    match: { userMessage: "limit" },
    response: { error: { message: "slow down", type: "rate_limit_error" }, status: 429 },
  },
];
const charged = formatRoubles(costOf({ prompt: 11, completion: 7 }));

let healthy: LLMock;
let chaotic: LLMock;
let gateway: GatewayProcess;
let key: string;

beforeAll(async () => {
  // Each gets its own options, because an instance changes them.
  const create = () =>
    LLMock.create({ port: 0, host: "127.0.0.1", auth: { apiKeys: [providerKey] } });
  [healthy, chaotic] = await Promise.all([create(), create()]);
  for (const mock of [healthy, chaotic]) mock.addFixturesFromJSON(fixtures);
  gateway = await startGatewayProcess({
    providers: {
      healthy: { base_url: `${healthy.url}/v1`, api_key: providerKey },
      chaotic: { base_url: `${chaotic.url}/v1`, api_key: providerKey },
      wrongKey: { base_url: `${healthy.url}/v1`, api_key: "not-the-key" },
    },
    models: [
      { id: "plain", routes: [{ provider: "healthy" }] },
      { id: "limited", routes: [{ provider: "healthy" }] },
      { id: "chaotic", routes: [{ provider: "chaotic" }] },
      // Two, because five failures in a row of one route open its breaker.
      { id: "saved", routes: [{ provider: "chaotic" }, { provider: "healthy" }] },
      { id: "rescued", routes: [{ provider: "chaotic" }, { provider: "healthy" }] },
      { id: "wrongKey", routes: [{ provider: "wrongKey" }] },
    ],
  });
  key = await gateway.key("alice", "100");
}, startTimeoutMs);

afterAll(async () => {
  await gateway.close();
  await Promise.all([healthy.stop(), chaotic.stop()]);
});

function post(endpoint: string, body: object, apiKey = key): Promise<Response> {
  return fetch(`${gateway.url}/v1/${endpoint}`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}` },
    body: JSON.stringify(body),
  });
}

/** The same request at both endpoints, in both forms. */
const calls = [
  ["a chat in JSON", "chat/completions", false],
  ["a chat stream", "chat/completions", true],
  ["a response in JSON", "responses", false],
  ["a responses stream", "responses", true],
] as const;

function bodyOf(endpoint: string, model: string, stream: boolean, text = "bill me"): object {
  return endpoint === "responses"
    ? { model, stream, input: text }
    : { model, stream, messages: [{ role: "user", content: text }] };
}

async function recordOf(response: Response) {
  return gateway.request(response.headers.get("x-request-id") ?? "");
}

describe("in front of aimock", () => {
  test.each(calls)("%s arrives completely and is charged exactly", async (_, endpoint, stream) => {
    const response = await post(endpoint, bodyOf(endpoint, "plain", stream));
    const text = await response.text();
    expect(response.status).toBe(200);
    expect(text).toContain("so be it");
    expect(text.includes("[DONE]") || text.includes("response.completed")).toBe(stream);
    if (!stream) expect(response.headers.get("x-tollgate-cost-rub")).toBe(charged);
    expect(await recordOf(response)).toMatchObject({
      status: "done",
      provider: "healthy",
      prompt_tokens: 11,
      completion_tokens: 7,
      estimated: false,
      cost_rub: charged,
    });
  });

  test.each(calls)(
    "%s fails over from a provider that answers nonsense",
    async (_, endpoint, stream) => {
      chaotic.setChaos({ malformedRate: 1 });
      const response = await post(endpoint, bodyOf(endpoint, "saved", stream));
      expect(response.status).toBe(200);
      expect(await response.text()).toContain("so be it");
      expect(await recordOf(response)).toMatchObject({
        provider: "healthy",
        cost_rub: charged,
        attempts: [{ provider: "chaotic" }, { provider: "healthy", outcome: "ok" }],
      });
    },
  );

  test.each(calls)("%s fails over from a provider that hangs up", async (_, endpoint, stream) => {
    chaotic.setChaos({ disconnectRate: 1 });
    const response = await post(endpoint, bodyOf(endpoint, "rescued", stream));
    expect(response.status).toBe(200);
    expect(await response.text()).toContain("so be it");
    expect(await recordOf(response)).toMatchObject({
      provider: "healthy",
      cost_rub: charged,
      attempts: [{ provider: "chaotic" }, { provider: "healthy", outcome: "ok" }],
    });
  });

  const failures = [
    ["that answers nonsense", "chaotic", () => chaotic.setChaos({ malformedRate: 1 })],
    ["that hangs up", "chaotic", () => chaotic.setChaos({ disconnectRate: 1 })],
    ["that refuses the operator's key", "wrongKey", () => undefined],
  ] as const;

  test.each(failures)(
    "nothing is charged for a provider %s, and its message stays hidden",
    async (_, model, prepare) => {
      prepare();
      for (const [, endpoint, stream] of calls) {
        const response = await post(endpoint, bodyOf(endpoint, model, stream));
        expect(response.status).toBe(502);
        expect(await response.json()).toEqual({
          error: { message: "all providers unavailable", type: "provider_error" },
        });
        expect(await recordOf(response)).toMatchObject({ status: "failed", cost_rub: "0" });
      }
    },
  );

  test("a rate limit of the provider is a 502 with retry-after", async () => {
    for (const [, endpoint, stream] of calls) {
      const response = await post(endpoint, bodyOf(endpoint, "limited", stream, "limit me"));
      expect(response.status).toBe(502);
      expect(response.headers.get("retry-after")).toBe("1");
      expect(await response.text()).not.toContain("slow down");
      expect(await recordOf(response)).toMatchObject({ status: "failed", cost_rub: "0" });
    }
  });

  test("a client's own key never reaches the provider", async () => {
    await post("chat/completions", bodyOf("chat/completions", "plain", false));
    const seen = JSON.stringify(healthy.getRequests());
    expect(seen).toContain("bill me");
    expect(seen).not.toContain(key);
  });
});
