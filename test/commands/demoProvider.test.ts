import { afterAll, describe, expect, test } from "bun:test";
import {
  eventStream,
  startDemoProvider,
  type StreamedEvent,
} from "../../src/commands/demo/provider.ts";
import {
  chat,
  connect,
  failure,
  frames,
  hello,
  model,
  post,
  wholeText,
} from "../support/binary/demoClient.ts";
import { until } from "../support/until.ts";

const provider = startDemoProvider({ wordDelayMs: 0 });
// It waits an hour before each word, so that everything that arrives is sent without a delay.
const slow = startDemoProvider({ wordDelayMs: 3_600_000 });
afterAll(() => Promise.all([provider.stop(), slow.stop()]));

const client = connect(provider.url);

test("the models are listed", async () => {
  const { data } = await client.models.list();
  expect(data.map((entry) => entry.id)).toEqual(["demo-large", "demo-small"]);
});

describe("an invalid request", () => {
  const invalid = [
    ["chat/completions", { messages: hello }, "you must provide a model parameter", "model"],
    ["chat/completions", { model }, "Invalid 'messages'", "messages"],
    ["chat/completions", { model, messages: hello, n: 129 }, "Invalid 'n'", "n"],
    ["chat/completions", [], "must be a JSON object", null],
  ] as const;

  test.each(invalid)(
    "to %s with %j gets a 400 in OpenAI's form",
    async (path, body, message, param) => {
      const response = await post(`${provider.url}/${path}`, body);
      expect(response.status).toBe(400);
      const { error } = (await response.json()) as { error: object };
      expect(Object.keys(error).sort()).toEqual(["code", "message", "param", "type"]);
      expect(error).toMatchObject({
        message: expect.stringContaining(message),
        type: "invalid_request_error",
        param,
      });
    },
  );

  test("with a body that is not JSON gets a 400", async () => {
    const response = await post(`${provider.url}/chat/completions`, undefined, { body: "{" });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("could not parse the JSON body");
  });

  test("to an unknown path or with a wrong method gets a 404", async () => {
    for (const call of [client.get("/nothing"), client.get("/chat/completions")])
      expect(await failure(call)).toMatchObject({ status: 404, type: "invalid_request_error" });
  });
});

describe("a slow stream", () => {
  test("sends the role at once, and the words later", async () => {
    const abort = new AbortController();
    const response = await post(`${slow.url}/chat/completions`, chat({ stream: true }), {
      signal: abort.signal,
    });
    const first = await response.body?.getReader().read();
    expect(new TextDecoder().decode(first?.value)).toContain('"role":"assistant"');
    abort.abort();
  });

  test("ends when the provider stops, and the port is free then", async () => {
    const stopped = startDemoProvider({ wordDelayMs: 3_600_000 });
    const response = await post(`${stopped.url}/chat/completions`, chat({ stream: true }));
    await stopped.stop();
    expect(
      await response.text().then(
        () => "whole",
        () => "cut",
      ),
    ).toBe("cut");
    const port = Number(new URL(stopped.url).port);
    const next = startDemoProvider({ port });
    expect(next.url).toBe(stopped.url);
    expect(() => startDemoProvider({ port })).toThrow();
    await next.stop();
  });
});

describe("a chat completion", () => {
  test("names the demo provider and counts the user's words", async () => {
    const completion = await client.chat.completions.create({
      model,
      messages: [{ role: "system", content: "not counted among them" }, ...hello],
    });
    expect(completion).toMatchObject({ object: "chat.completion", model });
    expect(completion.choices).toHaveLength(1);
    expect(completion.choices[0]).toMatchObject({
      index: 0,
      finish_reason: "stop",
      message: { role: "assistant" },
    });
    expect(completion.choices[0]?.message.content).toContain(
      "from the demo provider! You sent me 3 words,",
    );
  });

  test.each(["max_tokens", "max_completion_tokens"])(
    "is cut to %s, with the finish reason length",
    async (bound) => {
      const completion = await client.chat.completions.create(chat({ [bound]: 7 }));
      expect(completion.choices[0]?.finish_reason).toBe("length");
      expect(completion.usage?.completion_tokens).toBe(7);
      const content = completion.choices[0]?.message.content ?? "";
      expect(content).not.toBe("");
      expect((await wholeText(client)).startsWith(content)).toBe(true);
    },
  );

  test.each([
    ["one", " provider!"],
    ["several, at the first of them", ["nowhere", "small server", " provider!"]],
  ])("ends before a stop sequence: %s", async (_, stop) => {
    const completion = await client.chat.completions.create(chat({ stop }));
    expect(completion.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { content: "Hello from the demo" },
    });
    expect(completion.usage?.completion_tokens).toBe(5);
  });

  test("has n different choices, and the usage counts all of them", async () => {
    const one = await client.chat.completions.create(chat({ max_tokens: 9 }));
    const three = await client.chat.completions.create(chat({ n: 3, max_tokens: 9 }));
    expect(three.choices.map((choice) => choice.index)).toEqual([0, 1, 2]);
    expect(new Set(three.choices.map((choice) => choice.message.content)).size).toBe(3);
    expect(three.usage).toMatchObject({
      prompt_tokens: one.usage?.prompt_tokens,
      completion_tokens: 27,
    });
  });
});

describe("a chat stream", () => {
  test("has the role, words, the finish reason, the usage if requested, and [DONE]", async () => {
    const response = await post(
      `${provider.url}/chat/completions`,
      chat({ stream: true, stream_options: { include_usage: true } }),
    );
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const events = await frames(response);
    expect(events.at(-1)).toBe("data: [DONE]");
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event.replace(/^data: /, "")));
    const [role, ...rest] = chunks;
    const [end, usage] = rest.splice(-2);
    expect(role.choices[0]).toMatchObject({
      delta: { role: "assistant", content: "" },
      finish_reason: null,
    });
    expect(end.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }]);
    expect(rest.map((chunk) => chunk.choices[0].delta.content).join("")).toBe(
      await wholeText(client),
    );
    expect(rest.every((chunk) => /^\s*\S+$/.test(chunk.choices[0].delta.content))).toBe(true);
    expect(usage.choices).toEqual([]);
    expect(usage.usage).toEqual((await client.chat.completions.create(chat())).usage);
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
    expect(
      chunks.every((chunk) => chunk.object === "chat.completion.chunk" && chunk.model === model),
    ).toBe(true);
  });

  test("has no usage unless it is requested", async () => {
    const events = await frames(
      await post(`${provider.url}/chat/completions`, chat({ stream: true })),
    );
    expect(events.join("\n")).not.toContain("usage");
    expect(events.at(-2)).toContain('"finish_reason":"stop"');
  });
});

test.each([
  ["between two events", 0],
  ["during a delay", 3_600_000],
])("a stream closes its generator when the client disconnects %s", async (_, wordDelayMs) => {
  const closed = Promise.withResolvers<void>();
  function* events(): Generator<StreamedEvent> {
    try {
      while (true) yield { frame: "data: x\n\n", isWord: wordDelayMs > 0 };
    } finally {
      closed.resolve();
    }
  }
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => eventStream(events(), wordDelayMs),
  });
  const abort = new AbortController();
  const request = fetch(server.url, { signal: abort.signal });
  if (wordDelayMs === 0) await (await request).body?.getReader().read();
  else await until("the request has arrived", () => server.pendingRequests === 1);
  abort.abort();
  await request.catch(() => undefined);
  await closed.promise;
  await server.stop(true);
});
