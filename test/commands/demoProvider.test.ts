import { afterAll, describe, expect, test } from "bun:test";
import { startDemoProvider } from "../../src/commands/demo/provider.ts";
import { chat, connect, failure, hello, model, post } from "../support/binary/demoClient.ts";

const provider = startDemoProvider({ wordDelayMs: 0 });
// An hour before the first word: what arrives does not wait for words, and what ends was cut.
const silent = startDemoProvider({ wordDelayMs: 3_600_000 });
afterAll(() => Promise.all([provider.stop(), silent.stop()]));

const client = connect(provider.url);

test("the models are listed", async () => {
  const { data } = await client.models.list();
  expect(data.map((entry) => entry.id)).toEqual(["demo-large", "demo-small"]);
});

describe("a refusal", () => {
  const wrong = [
    ["chat/completions", { messages: hello }, "you must provide a model parameter", null],
    ["chat/completions", { model: 5, messages: hello }, "Invalid type for 'model'", "model"],
    ["chat/completions", { model }, "Missing required parameter: 'messages'", "messages"],
    ["chat/completions", { model, messages: [] }, "Invalid 'messages': empty array", "messages"],
    [
      "chat/completions",
      { model, messages: ["hello"] },
      "Invalid type for 'messages[0]'",
      "messages[0]",
    ],
    ["chat/completions", { model, messages: hello, n: 0 }, "Invalid 'n'", "n"],
    ["chat/completions", { model, messages: hello, n: 129 }, "Invalid 'n'", "n"],
    [
      "chat/completions",
      { model, messages: hello, max_tokens: 1.5 },
      "Invalid type for 'max_tokens'",
      "max_tokens",
    ],
    ["chat/completions", { model, messages: hello, stop: [1] }, "Invalid type for 'stop'", "stop"],
    ["chat/completions", [], "must be a JSON object", null],
    ["responses", { input: "hello" }, "you must provide a model parameter", null],
    ["responses", { model }, "Missing required parameter: 'input'", "input"],
    ["responses", { model, input: 5 }, "Invalid type for 'input'", "input"],
    [
      "responses",
      { model, input: "hello", max_output_tokens: 0 },
      "Invalid 'max_output_tokens'",
      "max_output_tokens",
    ],
  ] as const;

  test.each(wrong)(
    "of %s with %j is a 400 in OpenAI's form",
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

  test("of a body that is no JSON is a 400", async () => {
    const response = await post(`${provider.url}/responses`, undefined, { body: "{" });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("could not parse the JSON body");
  });

  test("of an unknown path is a 404, and of a wrong method a 405", async () => {
    expect(await failure(client.get("/nothing"))).toMatchObject({
      status: 404,
      type: "invalid_request_error",
    });
    expect(await failure(client.get("/chat/completions"))).toMatchObject({ status: 405 });
    expect(await failure(client.post("/models"))).toMatchObject({ status: 405 });
  });
});

describe("a stream with a slow pen", () => {
  test("sends its role at once, and its words later", async () => {
    const abort = new AbortController();
    const response = await post(`${silent.url}/chat/completions`, chat({ stream: true }), {
      signal: abort.signal,
    });
    const first = await response.body?.getReader().read();
    expect(new TextDecoder().decode(first?.value)).toContain('"role":"assistant"');
    abort.abort();
  });

  test("ends with its provider, which leaves its port free", async () => {
    const doomed = startDemoProvider({ wordDelayMs: 3_600_000 });
    const response = await post(`${doomed.url}/responses`, { model, input: "hello", stream: true });
    await doomed.stop();
    expect(
      await response.text().then(
        () => "whole",
        () => "cut",
      ),
    ).toBe("cut");
    const port = Number(new URL(doomed.url).port);
    const next = startDemoProvider({ port });
    expect(next.url).toBe(doomed.url);
    expect(() => startDemoProvider({ port })).toThrow();
    await next.stop();
  });
});
