import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { LLMock } from "@copilotkit/aimock";
import { formatRoubles } from "../../src/lib/money.ts";
import { costOf } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";

/** An independent provider, asked over its responses interface by an independent client. */
const providerKey = "aimock-key";
const usage = { input_tokens: 11, output_tokens: 7, total_tokens: 18 };
const fixtures = [
  {
    match: { userMessage: "bill" },
    response: { content: "so be it, my friend, and more", reasoning: "think first", usage },
  },
  {
    match: { userMessage: "call" },
    response: { toolCalls: [{ name: "weather", arguments: '{"city":"Köln"}' }], usage },
  },
  {
    match: { userMessage: "limit" },
    response: { error: { message: "slow down", type: "rate_limit_error" }, status: 429 },
  },
];
const charged = formatRoubles(costOf({ prompt: 11, completion: 7 }));
const tools: OpenAI.ChatCompletionTool[] = [
  { type: "function", function: { name: "weather", parameters: { type: "object" } } },
];

let mock: LLMock;
let gateway: GatewayProcess;
let client: OpenAI;

beforeAll(async () => {
  mock = await LLMock.create({ port: 0, host: "127.0.0.1", auth: { apiKeys: [providerKey] } });
  mock.addFixturesFromJSON(fixtures);
  gateway = await startGatewayProcess({
    providers: { mock: { base_url: `${mock.url}/v1`, api_key: providerKey } },
    models: [{ id: "over", routes: [{ provider: "mock", api: "responses" }] }],
  });
  const apiKey = await gateway.key("alice", "100");
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 });
}, startTimeoutMs);

afterAll(async () => {
  await gateway.close();
  await mock.stop();
});

const asking = (text: string) =>
  ({
    model: "over",
    messages: [
      { role: "system", content: "Be kind." },
      { role: "user", content: "hello" },
      { role: "assistant", content: "Hi." },
      { role: "user", content: text },
    ],
  }) satisfies OpenAI.ChatCompletionCreateParams;

async function expectCharged(requestId: string | null | undefined): Promise<void> {
  expect(await gateway.request(requestId ?? "")).toMatchObject({
    endpoint: "chat",
    status: "done",
    prompt_tokens: 11,
    completion_tokens: 7,
    estimated: false,
    cost_rub: charged,
  });
}

/** What the client has received at the end of a stream. */
async function streamed(fields: Partial<OpenAI.ChatCompletionCreateParamsStreaming>, text: string) {
  const { data, request_id: requestId } = await client.chat.completions
    .create({ ...asking(text), ...fields, stream: true })
    .withResponse();
  let content = "";
  let reasoning = "";
  let finish: string | null = null;
  const calls: string[] = [];
  for await (const { choices } of data) {
    const [choice] = choices;
    content += choice?.delta.content ?? "";
    const delta: object = choice?.delta ?? {};
    reasoning += "reasoning_content" in delta ? String(delta.reasoning_content) : "";
    for (const call of choice?.delta.tool_calls ?? []) {
      const { name = "", arguments: given = "" } = call.function ?? {};
      calls[call.index] = (calls[call.index] ?? "") + name + given;
    }
    finish = choice?.finish_reason ?? finish;
  }
  return { said: { content, reasoning, calls, finish }, requestId };
}

describe("a chat over aimock's responses interface", () => {
  test("arrives completely in JSON, and is charged exactly", async () => {
    const { data, request_id: requestId } = await client.chat.completions
      .create(asking("bill me"))
      .withResponse();
    expect(data.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { content: "so be it, my friend, and more", reasoning_content: "think first" },
    });
    expect(data.usage).toMatchObject({ prompt_tokens: 11, completion_tokens: 7 });
    await expectCharged(requestId);
  });

  test("arrives completely as a stream, and is charged exactly", async () => {
    const { said, requestId } = await streamed({}, "bill me");
    expect(said).toEqual({
      content: "so be it, my friend, and more",
      reasoning: "think first",
      calls: [],
      finish: "stop",
    });
    await expectCharged(requestId);
  });

  test("calls tools in both forms", async () => {
    const { choices } = await client.chat.completions.create({ ...asking("call it"), tools });
    expect(choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { tool_calls: [{ function: { name: "weather", arguments: '{"city":"Köln"}' } }] },
    });
    const { said, requestId } = await streamed({ tools }, "call it");
    expect(said).toMatchObject({ calls: ['weather{"city":"Köln"}'], finish: "tool_calls" });
    await expectCharged(requestId);
  });

  test("ends at a stop sequence in both forms, and is charged for all of it", async () => {
    const stop = ["friend, and"];
    const { data, request_id: requestId } = await client.chat.completions
      .create({ ...asking("bill me"), stop })
      .withResponse();
    expect(data.choices[0]?.message.content).toBe("so be it, my ");
    await expectCharged(requestId);
    const { said, requestId: streamId } = await streamed({ stop }, "bill me");
    expect(said).toMatchObject({ content: "so be it, my ", finish: "stop" });
    await expectCharged(streamId);
  });

  test("is a 502 when the provider has a rate limit", async () => {
    const failure = await client.chat.completions
      .create(asking("limit me"))
      .catch((error) => error);
    expect(failure).toMatchObject({ status: 502, type: "provider_error" });
  });
});
