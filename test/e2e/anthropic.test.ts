import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { LLMock } from "@copilotkit/aimock";
import { formatRoubles } from "../../src/lib/money.ts";
import { chunksOf } from "../support/gateway/chatCalls.ts";
import { costOf } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";

/** An independent provider of the Messages API. It checks that reasoning is sent back correctly. */
const providerKey = "aimock-key";
const usage = { input_tokens: 11, output_tokens: 7 };
const call = { id: "toolu_1", name: "weather", arguments: '{"city":"Paris"}' };
const fixtures = [
  { match: { userMessage: "bill" }, response: { content: "so be it", usage } },
  {
    match: { userMessage: "limit" },
    response: { error: { message: "slow down", type: "rate_limit_error" }, status: 429 },
  },
  {
    match: { userMessage: "overload" },
    response: { error: { message: "Overloaded", type: "overloaded_error" }, status: 529 },
  },
  { match: { toolCallId: call.id }, response: { content: "It is sunny.", usage } },
  {
    match: { userMessage: "weather" },
    response: {
      reasoning: "I look it up.",
      reasoningSignature: "signed-by-aimock",
      toolCalls: [call],
      usage,
    },
  },
];
const charged = formatRoubles(costOf({ prompt: 11, completion: 7 }));

let mock: LLMock;
let chaotic: LLMock;
let gateway: GatewayProcess;
let key: string;

beforeAll(async () => {
  const create = () =>
    LLMock.create({
      port: 0,
      host: "127.0.0.1",
      auth: { apiKeys: [providerKey] },
      strict: true,
      // Some tests provoke its complaints.
      logLevel: "silent",
    });
  [mock, chaotic] = await Promise.all([create(), create()]);
  for (const one of [mock, chaotic]) one.addFixturesFromJSON(fixtures);
  const provider = (url: string, api_key = providerKey) => ({
    base_url: `${url}/v1`,
    kind: "anthropic",
    api_key,
  });
  const route = (provider: string, model = "claude-sonnet-4-5") => ({
    provider,
    model,
    responses: false,
  });
  gateway = await startGatewayProcess({
    providers: {
      sound: provider(mock.url),
      chaotic: provider(chaotic.url),
      stranger: provider(mock.url, "not-the-key"),
    },
    models: [
      { id: "plain", routes: [route("sound")], settings: { max_output_tokens: 32_000 } },
      { id: "saved", routes: [route("chaotic"), route("sound")] },
      { id: "stranger", routes: [route("stranger")] },
      // A limited route has a cooldown, so each test has its own route.
      ...["limit-json", "limit-stream", "overload-json", "overload-stream"].map((id) => ({
        id,
        routes: [route("sound", id)],
      })),
    ],
  });
  key = await gateway.key("alice", "100");
}, startTimeoutMs);

afterAll(async () => {
  await gateway.close();
  await Promise.all([mock.stop(), chaotic.stop()]);
});

async function post(changes: object): Promise<{ response: Response; text: string }> {
  const body = { model: "plain", messages: [{ role: "user", content: "bill me" }], ...changes };
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  return { response, text: await response.text() };
}

const recordOf = ({ response }: { response: Response }) =>
  gateway.request(response.headers.get("x-request-id") ?? "");

const forms = [
  ["JSON", false],
  ["a stream", true],
] as const;

describe.each(forms)("in front of aimock's Messages API, in %s", (_, stream) => {
  test("a chat arrives completely, and is charged exactly", async () => {
    const answer = await post({ stream, stream_options: { include_usage: true } });
    expect(answer.response.status).toBe(200);
    const said = stream
      ? chunksOf(answer).map(({ choices }) => (choices as [{ delta: object }])[0].delta)
      : [(JSON.parse(answer.text) as { choices: [{ message: object }] }).choices[0].message];
    const texts = (said as { content?: string }[]).map(({ content }) => content ?? "");
    expect(texts.join("")).toBe("so be it");
    expect(answer.text).toContain('"prompt_tokens":11,"completion_tokens":7');
    expect(await recordOf(answer)).toMatchObject({
      status: "done",
      provider: "sound",
      stream,
      prompt_tokens: 11,
      completion_tokens: 7,
      estimated: false,
      cost_rub: charged,
    });
    await gateway.expectAuditPasses();
  });

  test.each([
    ["answers nonsense", { malformedRate: 1 }],
    ["hangs up", { disconnectRate: 1 }],
  ])("it fails over from a provider that %s", async (_, chaos) => {
    chaotic.setChaos(chaos);
    const answer = await post({ model: "saved", stream });
    expect(answer.response.status).toBe(200);
    expect(await recordOf(answer)).toMatchObject({
      provider: "sound",
      cost_rub: charged,
      attempts: [{ provider: "chaotic" }, { provider: "sound", outcome: "ok" }],
    });
  });

  test.each(["limit", "overload"])(
    "%s: 502, nothing charged, no word of the provider's",
    async (word) => {
      const answer = await post({
        model: `${word}-${stream ? "stream" : "json"}`,
        stream,
        messages: [{ role: "user", content: `${word} me` }],
      });
      expect(answer.response.status).toBe(502);
      expect(answer.text).toContain("all providers unavailable");
      expect(await recordOf(answer)).toMatchObject({ status: "failed", cost_rub: "0" });
    },
  );
});

test("the operator's key that is refused is no 401 of the client's", async () => {
  const answer = await post({ model: "stranger" });
  expect([answer.response.status, answer.text]).toEqual([
    502,
    '{"error":{"message":"all providers unavailable","type":"provider_error"}}',
  ]);
});

describe("a loop of tool calls with reasoning", () => {
  interface Calling {
    readonly reasoning_content?: string;
    readonly thinking_blocks?: unknown;
    readonly tool_calls: readonly { id: string; function: { name: string; arguments: string } }[];
  }
  const tools = [{ type: "function", function: { name: "weather" } }];
  const question = { role: "user", content: "weather?" };
  const thinking = { reasoning_effort: "low", tools };

  async function ask(): Promise<Calling> {
    const { text } = await post({ messages: [question], ...thinking });
    return (JSON.parse(text) as { choices: [{ message: Calling }] }).choices[0].message;
  }

  test.each([
    [
      "continues with reasoning when the client sends it back",
      (message: Calling): object => message,
    ],
    [
      "continues without reasoning when the client does not",
      ({ tool_calls }: Calling): object => ({ role: "assistant", content: null, tool_calls }),
    ],
  ])("%s", async (_, kept) => {
    const message = await ask();
    expect(message.reasoning_content).toBe("I look it up.");
    expect(message.tool_calls).toMatchObject([{ id: call.id, function: { name: "weather" } }]);
    const result = { role: "tool", tool_call_id: call.id, content: "sunny" };
    const answer = await post({ messages: [question, kept(message), result], ...thinking });
    expect([answer.response.status, answer.text]).toEqual([
      200,
      expect.stringContaining("It is sunny."),
    ]);
    await gateway.expectAuditPasses();
  });
});
