import { describe, expect, test } from "bun:test";
import { answered } from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  call,
  choicesOf,
  modelsOver,
  output,
  shownUsage,
  wholeStream,
} from "../../support/provider/overResponses.ts";
import { ended } from "../../support/provider/responsesAnswers.ts";
import { json, refusal, stream } from "../../support/provider/scriptedProvider.ts";

const at = openBefore(["over", "plain"], ({ over, plain }) => ({
  providers: { over: { base_url: over, api_key: "sk-of-the-provider" }, plain },
  models: modelsOver,
  sections: { api: { refused_tools: ["image_generation"], allowed_tools: ["file_search"] } },
}));
const { over, plain } = at.providers;
const strict = openBefore(["over", "plain"], ({ over, plain }) => ({
  providers: { over, plain },
  models: modelsOver,
  sections: { api: { unknown_fields: "reject" } },
}));

const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
const started = 100_000_000_000n;

describe("a chat over the responses interface", () => {
  test("is sent in the form of the interface, with store off", async () => {
    over.answer = json(ended());
    await chat(at.gateway, await at.gateway.key(), {
      messages: [
        { role: "system", content: "Be." },
        { role: "user", content: "hello" },
      ],
      max_tokens: 77,
      stop: ["END"],
      reasoningSummary: "detail",
      own: 1,
    });
    const [request] = over.requests;
    expect(request?.requestLine).toBe("POST /v1/responses HTTP/1.1");
    expect(Object.fromEntries(request?.headers ?? [])).toMatchObject({
      authorization: "Bearer sk-of-the-provider",
      accept: "application/json",
    });
    expect(request?.json).toEqual({
      model: "m",
      input: [
        { role: "system", content: "Be." },
        { role: "user", content: "hello" },
      ],
      max_output_tokens: 77,
      reasoning: { summary: "detailed" },
      store: false,
      own: 1,
    });
  });

  test("with a tool of a refused type is a 400, and nothing is sent", async () => {
    over.answer = json(ended());
    const reply = await chat(at.gateway, await at.gateway.key(), {
      tools: [{ type: "image_generation" }],
    });
    expectRefusal(reply, [
      400,
      "invalid_request_error",
      "tools of the type image_generation are not supported",
    ]);
    expect(over.requests).toHaveLength(0);
  });

  test("is answered in JSON, and charged exactly", async () => {
    over.answer = json(ended("resp_1", { output: [...output, call] }));
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key);
    expect(reply.status).toBe(200);
    expect(reply.body).toEqual({
      id: reply.id.replace("req_", "chatcmpl-"),
      object: "chat.completion",
      created: 1,
      model: "small",
      choices: [
        {
          index: 0,
          finish_reason: "tool_calls",
          message: {
            role: "assistant",
            content: "Hello there",
            reasoning_content: "Hm.",
            tool_calls: [
              { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } },
            ],
          },
        },
      ],
      usage: { ...shownUsage, completion_tokens_details: { reasoning_tokens: 2 } },
    });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { endpoint: "chat", status: "done", estimated: false, charge: cost },
    ]);
    expect(await at.gateway.balance(key)).toBe(started - cost);
  });

  test("is answered as a stream, and charged exactly", async () => {
    over.answer = stream(...wholeStream);
    const key = await at.gateway.key();
    const asking = { stream: true, stream_options: { include_usage: true } };
    const reply = await chat(at.gateway, key, asking);
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      id: reply.id.replace("req_", "chatcmpl-"),
      object: "chat.completion.chunk",
      created: 1,
      model: "small",
      choices: [{ index: 0, delta, finish_reason }],
    });
    expect(chunksOf(reply)).toEqual([
      chunk({ role: "assistant", reasoning_content: "Hm." }),
      chunk({ content: "Hello" }),
      chunk({ content: " there" }),
      {
        ...chunk({}, "stop"),
        usage: { ...shownUsage, completion_tokens_details: { reasoning_tokens: 2 } },
      },
    ]);
    expect(over.requests[0]?.json).toMatchObject({ stream: true });
    expect(over.requests[0]?.json).not.toHaveProperty("stream_options");
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: false, charge: cost },
    ]);
    expect(await at.gateway.balance(key)).toBe(started - cost);
  });

  test("has only the listed fields with unknown_fields = reject", async () => {
    strict.providers.over.answer = json(ended("resp_1", { output: [...output, call] }));
    const key = await strict.gateway.key();
    const whole = await chat(strict.gateway, key);
    expect(whole.body).toMatchObject({
      choices: [{ index: 0, finish_reason: "tool_calls", message: expect.anything() }],
      usage: shownUsage,
    });
    expect(whole.text).not.toMatch(/reasoning|tool_calls":\[/);
    strict.providers.over.answer = stream(...wholeStream);
    const reply = await chat(strict.gateway, key, { stream: true });
    expect(choicesOf(reply).map(({ delta }) => delta)).toEqual([
      { role: "assistant" },
      { content: "Hello" },
      { content: " there" },
      {},
    ]);
    expect(await strict.gateway.balance(key)).toBe(started - 2n * cost);
  });
});

describe("a chat that the interface cannot express", () => {
  const message = "n is not supported by this model's provider";

  test("goes to the next route", async () => {
    plain.answer = answered({ usage: { prompt_tokens: 20, completion_tokens: 7 } });
    const reply = await chat(at.gateway, await at.gateway.key(), { model: "paired", n: 2 });
    expect([reply.status, over.requests.length]).toEqual([200, 0]);
  });

  test("is a 502, not a 400, when the other route is down", async () => {
    plain.answer = refusal(500);
    const key = await at.gateway.key();
    expectRefusal(await chat(at.gateway, key, { model: "paired", n: 2 }), noProvider);
    expect([await at.gateway.balance(key), over.requests.length]).toEqual([started, 0]);
  });

  test("is a 400 when there is no other route", async () => {
    const key = await at.gateway.key();
    expectRefusal(await chat(at.gateway, key, { n: 2 }), [400, "invalid_request_error", message]);
    expect([await at.gateway.balance(key), over.requests.length]).toEqual([started, 0]);
  });

  test.each([
    ["previous_response_id", { previous_response_id: "resp_1" }, 400],
    ["conversation", { conversation: "conv_1" }, 400],
    ["prompt", { prompt: { id: "pmpt_1" } }, 400],
    ["a store of files", { tools: [{ type: "file_search", vector_store_ids: ["vs_1"] }] }, 404],
  ])(
    "never reaches objects that another account may have stored: %s",
    async (_, fields, status) => {
      const reply = await chat(at.gateway, await at.gateway.key(), fields);
      expect([reply.status, over.requests.length]).toEqual([status, 0]);
    },
  );
});
