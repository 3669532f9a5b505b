import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from "openai";
import { startDemoProvider } from "../../src/commands/demo/provider.ts";
import { chat, failure, hello, wholeText } from "../support/demoClient.ts";
import { costOf } from "../support/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/gatewayProcess.ts";
import { startRawServer } from "../support/rawServer.ts";
import { openaiClients } from "../support/sdk/openai.ts";
import { prove } from "../support/sdk/situations.ts";
import { formatRoubles } from "../../src/lib/money.ts";
import {
  chatEvent,
  eventStreamHead,
  responseEvent,
  responseObject,
} from "../support/upstreamText.ts";

const provider = startDemoProvider({ wordDelayMs: 0 });
const slowProvider = startDemoProvider({ wordDelayMs: 100 });
/** Begins to answer in whatever form it is asked for, and breaks off. */
const brokenProvider = startRawServer(async (peer) => {
  const request = await peer.request();
  const beginning = request.startsWith("POST /v1/responses")
    ? [
        responseEvent("response.created", { response: responseObject("resp_1") }),
        responseEvent("response.output_text.delta", { delta: "Hel", sequence_number: 1 }),
      ]
    : [chatEvent({ role: "assistant", content: "Hel" })];
  await peer.send(eventStreamHead + beginning.join(""));
  peer.fin();
});

let gateway: GatewayProcess;
let key: string;

beforeAll(async () => {
  gateway = await startGatewayProcess({
    providers: {
      demo: provider.url,
      slow: slowProvider.url,
      broken: `http://127.0.0.1:${brokenProvider.port}/v1`,
      gone: "http://127.0.0.1:9/v1",
    },
    models: ["demo", "slow", "broken", "gone"].map((id) => ({ id, routes: [{ provider: id }] })),
  });
  key = await gateway.key("alice", "100");
}, startTimeoutMs);

afterAll(async () => {
  brokenProvider.stop();
  await Promise.all([provider.stop(), slowProvider.stop()]);
  await gateway.close();
});

/** The official client with nothing changed but the base URL and the key. */
function client(apiKey = key): OpenAI {
  return new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 });
}

describe("the official client", () => {
  test("gets a chat completion under the public model id, and is charged its price exactly", async () => {
    const { data, response } = await client()
      .chat.completions.create(chat({ model: "demo" }))
      .withResponse();
    expect(data).toMatchObject({ object: "chat.completion", model: "demo" });
    expect(data.choices[0]?.message.content).toBe(
      await wholeText(new OpenAI({ baseURL: provider.url, apiKey: "any" })),
    );
    const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = data.usage ?? {};
    const charge = formatRoubles(costOf({ prompt, completion }));
    expect(prompt * completion).toBeGreaterThan(0);
    expect(response.headers.get("x-tollgate-cost-rub")).toBe(charge);
    const id = response.headers.get("x-request-id") ?? "";
    expect(await gateway.request(id)).toMatchObject({ status: "done", cost_rub: charge });
  });

  test.each([
    ["does not ask for usage", undefined],
    ["asks for usage", { include_usage: true }],
  ] as const)(
    "follows a chat stream to its end, with usage only if it asks for it: it %s",
    async (_, streamOptions) => {
      const { data, response } = await client()
        .chat.completions.create({
          ...chat({ model: "demo" }),
          stream: true,
          ...(streamOptions ? { stream_options: streamOptions } : {}),
        })
        .withResponse();
      const chunks = await Array.fromAsync(data);
      const whole = await client().chat.completions.create(chat({ model: "demo" }));
      const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
      expect(text).toBe(whole.choices[0]?.message.content ?? "");
      expect(chunks.filter(({ choices }) => choices.length === 0)).toEqual([]);
      const last = chunks.at(-1);
      expect(last?.choices[0]?.finish_reason).toBe("stop");
      expect(last?.usage ?? undefined).toEqual(streamOptions && whole.usage);
      const id = response.headers.get("x-request-id") ?? "";
      const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = whole.usage ?? {};
      expect(await gateway.request(id)).toMatchObject({
        status: "done",
        cost_rub: formatRoubles(costOf({ prompt, completion })),
      });
    },
  );

  test("gets a response, and goes on from it", async () => {
    const first = await client().responses.create({ model: "demo", input: hello[0].content });
    expect(first).toMatchObject({ object: "response", status: "completed" });
    expect(first.output_text).toContain("demo provider");
    const next = await client().responses.create({
      model: "demo",
      input: "and then?",
      previous_response_id: first.id,
    });
    expect(next.previous_response_id).toBe(first.id);
  });

  test("follows a responses stream to its end", async () => {
    const stream = client().responses.stream({ model: "demo", input: hello[0].content });
    const types = (await Array.fromAsync(stream)).map(({ type }) => type);
    expect(types[0]).toBe("response.created");
    expect(types.at(-1)).toBe("response.completed");
    const response = await stream.finalResponse();
    expect(response.output_text).toContain("demo provider");
    expect(response.usage?.output_tokens).toBeGreaterThan(0);
  });

  test("lists the models with their prices, and retrieves one", async () => {
    const listed = await Array.fromAsync(client().models.list());
    expect(listed.map(({ id }) => id)).toEqual(["demo", "slow", "broken", "gone"]);
    const model: unknown = await client().models.retrieve("demo");
    expect(model).toMatchObject({
      id: "demo",
      object: "model",
      rub_input_per_1m: 25_000,
      rub_output_per_1m: 200_000,
    });
  });
});

describe("the official client throws", () => {
  const refusals = [
    [
      "400",
      BadRequestError,
      () => client().chat.completions.create(chat({ model: "demo", temperature: 3 })),
      "temperature must be between 0 and 2",
    ],
    [
      "400 of responses",
      BadRequestError,
      () => client().responses.create({ model: "demo", background: true }),
      "background is not supported",
    ],
    ["401", AuthenticationError, () => client("sk-tg-wrong").models.list(), "invalid api key"],
    [
      "402",
      APIError,
      async () =>
        client(await gateway.key("poor", "0")).chat.completions.create(chat({ model: "demo" })),
      "insufficient balance",
    ],
    [
      "402 of responses",
      APIError,
      async () =>
        client(await gateway.key("poor", "0")).responses.create({ model: "demo", input: "hello" }),
      "insufficient balance",
    ],
    [
      "404",
      NotFoundError,
      () => client().chat.completions.create(chat({ model: "nobody" })),
      "model not found",
    ],
    ["404 of models", NotFoundError, () => client().models.retrieve("nobody"), "model not found"],
    [
      "429",
      RateLimitError,
      async () => {
        const hasty = client(await gateway.key("hasty", "1", "--rpm", "1"));
        await hasty.models.list();
        return hasty.models.list();
      },
      "rate limit exceeded",
    ],
    [
      "502",
      InternalServerError,
      () => client().chat.completions.create(chat({ model: "gone" })),
      "all providers unavailable",
    ],
    [
      "502 of responses",
      InternalServerError,
      () => client().responses.create({ model: "gone", input: "hello" }),
      "all providers unavailable",
    ],
  ] as const;
  const types: Readonly<Record<number, string>> = {
    400: "invalid_request_error",
    401: "auth_error",
    402: "billing_error",
    404: "invalid_request_error",
    429: "rate_limit_error",
    502: "provider_error",
  };

  test.each(refusals)(
    "for %s its own class, with the message and the type",
    async (name, kind, call, message) => {
      const error = await failure(call());
      const status = Number.parseInt(name, 10);
      expect(error).toBeInstanceOf(kind);
      expect(error.message).toBe(`${status} ${message}`);
      expect(error).toMatchObject({
        status,
        type: types[status],
        requestID: expect.stringMatching(/^req_/),
      });
    },
  );

  test("when a chat breaks off: the beginning never passes for a whole answer", async () => {
    const stream = await client().chat.completions.create({
      ...chat({ model: "broken" }),
      stream: true,
    });
    let text = "";
    const reading = (async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    })();
    expect(await failure(reading)).toMatchObject({ type: "provider_error" });
    expect(text).toBe("Hel");
  });

  test("when a response breaks off: the beginning never passes for a whole answer", async () => {
    const stream = await client().responses.create({
      model: "broken",
      input: "hello",
      stream: true,
    });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const event of stream) seen.push(event.type);
    })();
    expect(await failure(reading)).toMatchObject({ code: "provider_error" });
    expect(seen).toEqual(["response.created", "response.output_text.delta"]);
  });

  test("what broke off is recorded as failed, and costs nothing", async () => {
    const failed = await gateway.desk.json("requests", "--status", "failed");
    const broken = (failed as { model: string; cost_rub: string }[]).filter(
      ({ model }) => model === "broken",
    );
    expect(broken.map(({ cost_rub: cost }) => cost)).toEqual(["0", "0"]);
  });
});

test("the official client aborts a stream: it ends as cancelled, with an estimate of what had come", async () => {
  const { data, response } = await client()
    .chat.completions.create({ ...chat({ model: "slow" }), stream: true })
    .withResponse();
  const reading = (async () => {
    for await (const chunk of data) if (chunk.choices[0]?.delta.content) data.controller.abort();
  })();
  // The client takes its own abort for the end of the loop; a later one would be this error.
  const outcome = await reading.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(outcome === undefined || outcome instanceof APIUserAbortError).toBe(true);
  const record = await gateway.request(response.headers.get("x-request-id") ?? "");
  expect(record).toMatchObject({ status: "cancelled", estimated: true });
  expect(record.completion_tokens).toBeGreaterThan(0);
});

for (const client of openaiClients) prove(client);
