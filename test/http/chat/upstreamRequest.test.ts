import { describe, expect, test } from "bun:test";
import { doneEvent, helloEvent, stopEvent, usual } from "../../support/provider/chatAnswers.ts";
import { ask, call } from "../../support/gateway/chatCalls.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import { stream, type ReceivedRequest } from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

const at = openBefore(["local"], ({ local }) => ({
  providers: {
    local: { base_url: local, api_key: upstreamKey },
    renaming: { base_url: `${local}/deep/`, max_tokens_field: "max_completion_tokens" },
    unasked: { base_url: local, stream_usage: false },
    plain: { base_url: local, drop_message_fields: ["reasoning_content", "images"] },
  },
  models: [
    { id: "small", routes: [{ provider: "local", model: 'upstream/"small"' }] },
    { id: "renamed", routes: [{ provider: "renaming" }] },
    { id: "unasked", routes: [{ provider: "unasked" }] },
    { id: "plain", routes: [{ provider: "plain" }] },
  ],
}));

/** The body that the provider receives for a client's body. */
async function sent(
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<ReceivedRequest> {
  at.providers.local.answer = usual;
  const key = await at.gateway.key();
  const reply = await call(at.gateway, key, {
    body,
    headers: { "x-api-key": key.key, ...headers },
  });
  expect([reply.status, reply.text]).toEqual([200, expect.any(String)]);
  expect(at.providers.local.requests).toHaveLength(1);
  return at.providers.local.request(0);
}

const renamed = '"upstream/\\"small\\""';

describe("the body that a provider receives", () => {
  test("is the client's text except for the model: order, digits, escapes and spaces stay", async () => {
    const body = `{ "seed":12345678901234567890, "zeta": {"b":1.0,"a":-0,"c":1e2},\n\t"model" : "small",
      "messages":[ {"content":"\\u0416\\/\\n\\ud83e\\udd86 Ж","role":"user","x":[1,2 ,3]} ],"n":1 , "user":"\\"model\\":\\"small\\""}`;
    expect((await sent(body)).body).toBe(body.replace('"small"', renamed));
  });

  test.each([
    ["one byte a character", "and so on, "],
    ["many scripts", "и так далее 等等 😀 "],
  ])("is exact in 400 KB too, with %s", async (_, words) => {
    const content = `"${words.repeat(20_000)}\\u0416"`;
    const messages = `"messages":[{"role":"user","content":${content}}]`;
    const body = `{"seed":1.0,${messages} , "max_completion_tokens":5,"model":"small"}`;
    const expected = `{"seed":1.0,${messages},"model":${renamed},"max_tokens":5}`;
    const { body: received } = await sent(body);
    // Compared so, because the difference of two such texts would fill the screen.
    expect(received === expected).toBe(true);
  });

  test("replaces the model when its key is escaped", async () => {
    const body = '{"mod\\u0065l":"small","messages":[{"role":"user","content":"x"}]}';
    expect((await sent(body)).body).toBe(body.replace('"small"', renamed));
  });

  test.each<[string, string, string]>([
    ["max_tokens", '"max_tokens":5', '"max_tokens":5'],
    ["max_tokens of 5.0", '"max_tokens":5.0', '"max_tokens":5'],
    ["max_completion_tokens", '"max_completion_tokens":5', '"max_tokens":5'],
    ["max_output_tokens", '"max_output_tokens":5', '"max_tokens":5'],
    ["two that agree", '"max_tokens":5,"max_completion_tokens":5', '"max_tokens":5'],
    ["one and a null", '"max_tokens":null,"max_completion_tokens":5', '"max_tokens":5'],
  ])("has the bound %s under the provider's name for it", async (_, given, expected) => {
    const { json } = await sent(JSON.stringify(ask()).replace("{", `{${given},`));
    expect(json).toEqual({
      ...(JSON.parse(`{${expected}}`) as object),
      ...ask({ model: 'upstream/"small"' }),
    });
  });

  test.each([
    { max_tokens: 5 },
    { max_completion_tokens: 5 },
    { max_tokens: 5, max_completion_tokens: 5 },
  ])(
    "has the bound %j as max_completion_tokens when the provider uses that name",
    async (bound) => {
      const { json, requestLine } = await sent(ask({ model: "renamed", ...bound }));
      expect(json).toEqual(ask({ model: "renamed", max_completion_tokens: 5 }));
      expect(requestLine).toBe("POST /v1/deep/chat/completions HTTP/1.1");
    },
  );

  test("has no bound when the client gave none", async () => {
    expect((await sent(ask())).json).toEqual(ask({ model: 'upstream/"small"' }));
  });

  test.each<[string, object, object]>([
    ["added", {}, { include_usage: true }],
    ["corrected", { stream_options: { include_usage: false } }, { include_usage: true }],
    ["in place of null", { stream_options: null }, { include_usage: true }],
    [
      "merged with other options",
      { stream_options: { include_obfuscation: false } },
      { include_obfuscation: false, include_usage: true },
    ],
    ["left", { stream_options: { include_usage: true } }, { include_usage: true }],
  ])("of a stream always requests usage: %s", async (_, given, expected) => {
    const { json } = await sent(ask({ stream: true, ...given }));
    expect(json["stream_options"]).toEqual(expected);
  });

  test.each([
    {},
    { stream_options: { include_usage: true, include_obfuscation: false } },
    { stream_options: null },
  ])("has no stream options when the provider refuses them: %j", async (given) => {
    for (const stream of [true, false]) {
      const { json } = await sent(ask({ model: "unasked", stream, ...given }));
      expect(json).toEqual(ask({ model: "unasked", stream }));
      at.providers.local.forget();
    }
  });

  const told = '{"role":"user", "content":"\\"images\\":[1] \\u0416"}';
  const calls = String.raw`"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"images\":[{}]}"},"images":1.0}]`;

  test.each([
    ["has none of them", `[ ${told} ]`, `[ ${told} ]`],
    [
      "has some in some messages",
      `[${told} ,{"reasoning_content":"hm }]","role":"assistant","content":[ {"type":"text","text":"a","images":{}} ]},\n{"role":"assistant", "content":"b" ,"images":[[{"a":1}]], "x":1e2}, ${told}]`,
      `[${told} ,{"role":"assistant","content":[ {"type":"text","text":"a","images":{}} ]},\n{"role":"assistant", "content":"b", "x":1e2}, ${told}]`,
    ],
    [
      "has them as null, and with escapes in their names",
      `[{"role":"assistant","content":null,${calls},"reasoning\\u005fcontent":null}]`,
      `[{"role":"assistant","content":null,${calls}}]`,
    ],
  ])("has no message field that the provider refuses: one that %s", async (_, given, left) => {
    const body = (messages: string, model: string) =>
      `{"seed":12345678901234567890, "images":[1.0] ,"messages":${messages} ,"model" : "${model}"}`;
    expect((await sent(body(given, "plain"))).body).toBe(body(left, "plain"));
    at.providers.local.forget();
    // Another provider of the same model gets them unchanged.
    expect((await sent(body(given, "unasked"))).body).toBe(body(given, "unasked"));
  });

  test("counts no tokens for fields that no route receives", async () => {
    at.providers.local.answer = stream(helloEvent, stopEvent, doneEvent);
    const thought = { role: "assistant", content: "a", reasoning_content: "hm".repeat(20_000) };
    const messages = [{ role: "user", content: "q" }, thought];
    for (const [model, isCounted] of [
      ["plain", false],
      ["unasked", true],
    ] as const) {
      const key = await at.gateway.key();
      await call(at.gateway, key, { body: ask({ model, stream: true, messages }) });
      const [record] = await at.gateway.records(key, 1);
      expect([record?.estimated, (record?.promptTokens ?? 0) > 1000]).toEqual([true, isCounted]);
    }
  });

  test("is exact without such fields in 400 KB too", async () => {
    const content = `"${"и так далее 等等 😀 ".repeat(20_000)}"`;
    const body = (more: string) =>
      `{"model":"plain","messages":[{"role":"user","content":${content}},{"content":"a"${more},"role":"assistant"}]}`;
    const { body: received } = await sent(body(',"images":["data:image/png;base64,AA"]'));
    expect(received === body("")).toBe(true);
  });

  test("of a JSON request has no stream options", async () => {
    expect((await sent(ask())).json).not.toHaveProperty("stream_options");
  });

  test("has no reasoningSummary, and other fields unchanged", async () => {
    const given = {
      reasoning_effort: "xhigh",
      verbosity: "low",
      temperature: 2,
      top_p: 0,
      stop: ["a", "b"],
      tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }],
      response_format: { type: "json_object" },
      api_base: "http://169.254.169.254",
      extra_headers: { authorization: "x" },
    };
    const { json } = await sent(ask({ reasoningSummary: "detail", ...given }));
    expect(json).toEqual(ask({ model: 'upstream/"small"', ...given }));
  });

  test("has the right content-length, also beyond ASCII and in a large body", async () => {
    const content = "жук 🦆 ".repeat(20_000);
    const { json, headers } = await sent(ask({ messages: [{ role: "user", content }] }));
    expect(json["messages"]).toEqual([{ role: "user", content }]);
    expect(Object.fromEntries(headers)).not.toHaveProperty("transfer-encoding");
  });
});

describe("the head that a provider receives", () => {
  test.each([
    ["JSON", {}, "application/json"],
    ["a stream", { stream: true }, "text/event-stream"],
  ])("for %s has only the gateway's own headers", async (_, changes, accept) => {
    const request = await sent(ask(changes), {
      "anthropic-version": "2023-06-01",
      "x-forwarded-for": "10.1.2.3",
      "x-request-id": "of-the-client",
      "user-agent": "client/1",
      "accept-encoding": "gzip",
      cookie: "a=b",
      "openai-organization": "org-client",
      "x-stainless-lang": "js",
      connection: "authorization",
    });
    const [record] = (await at.gateway.store.requests.list({}, { limit: 1 })).rows;
    expect(request.requestLine).toBe("POST /v1/chat/completions HTTP/1.1");
    expect(Object.fromEntries(request.headers)).toEqual({
      host: `127.0.0.1:${at.providers.local.port}`,
      authorization: `Bearer ${upstreamKey}`,
      "content-type": "application/json",
      accept,
      "accept-encoding": "identity",
      "user-agent": expect.stringMatching(/^tollgate\/\S+$/),
      "x-request-id": record?.id ?? "no record",
      "content-length": String(Buffer.byteLength(request.body)),
    });
    expect(request.headers).toHaveLength(8);
  });

  test("never has the client's key", async () => {
    const { text } = await sent(ask());
    expect(text).not.toContain("sk-tg-");
  });

  test("has no authorization header when the provider has no key", async () => {
    const { headers } = await sent(ask({ model: "renamed" }));
    expect(Object.fromEntries(headers)).not.toHaveProperty("authorization");
  });
});

describe("the connections to a provider", () => {
  test("are reused", async () => {
    const { local } = at.providers;
    local.answer = usual;
    expect((await call(at.gateway, await at.gateway.key(), { body: ask() })).status).toBe(200);
    await until("older connections are gone", () => local.openCount === 1);
    for (let round = 0; round < 5; round += 1) {
      expect((await call(at.gateway, await at.gateway.key(), { body: ask() })).status).toBe(200);
    }
    expect(local.openCount).toBe(1);
  });
});
