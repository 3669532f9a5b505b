import { describe, expect, test } from "bun:test";
import { ask, call, expectRefusal, unknownModel } from "../support/chatCalls.ts";
import { usual } from "../support/chatAnswers.ts";
import { openOneModelBefore } from "../support/gatewayUnderTest.ts";

const sections = { server: { max_body: "300KB" } };
const open = openOneModelBefore(sections);
const strict = openOneModelBefore({ ...sections, api: { unknown_fields: "reject" } });

const message = { role: "user", content: "hello" };
const accepted = undefined;

/** The fields of the request's table below, at and above their limits: the body and the message of its 400. */
const fields: readonly (readonly [unknown, string | undefined])[] = [
  [{ messages: [message] }, "model is required"],
  [ask({ model: null }), "model must be a string"],
  [ask({ model: 5 }), "model must be a string"],
  [ask({ model: "" }), "model must not be empty"],
  [{ model: "small" }, "messages is required"],
  [ask({ messages: [] }), "messages must contain at least 1 item"],
  [ask({ messages: {} }), "messages must be an array"],
  [ask({ messages: [message, "x"] }), "messages[1] must be an object"],
  [ask({ messages: [{ content: "x" }] }), "messages[0].role is required"],
  [
    ask({ messages: [{ role: "robot", content: "x" }] }),
    "messages[0].role must be one of: system, user, assistant, developer, tool",
  ],
  [ask({ messages: [message, { role: "user" }] }), "messages[1].content is required"],
  ...["system", "user", "assistant", "developer", "tool"].map(
    (role) => [ask({ messages: [{ role, content: "" }] }), accepted] as const,
  ),
  [ask({ stream: "true" }), "stream must be a boolean"],
  [ask({ stream: null }), accepted],
  [ask({ max_tokens: 0 }), "max_tokens must be at least 1"],
  [ask({ max_tokens: -1 }), "max_tokens must be at least 1"],
  [ask({ max_tokens: 1 }), accepted],
  [ask({ max_tokens: 1.5 }), "max_tokens must be an integer"],
  [ask({ max_tokens: "5" }), "max_tokens must be an integer"],
  [ask({ max_tokens: true }), "max_tokens must be an integer"],
  [ask({ max_tokens: null }), accepted],
  ...["low", "medium", "high", "xhigh"].map(
    (effort) => [ask({ reasoning_effort: effort }), accepted] as const,
  ),
  [ask({ reasoning_effort: "none" }), "reasoning_effort must be one of: low, medium, high, xhigh"],
  [ask({ verbosity: "low" }), accepted],
  [ask({ verbosity: "xhigh" }), "verbosity must be one of: low, medium, high"],
  [ask({ reasoningSummary: "concise" }), accepted],
  [ask({ reasoningSummary: "detailed" }), "reasoningSummary must be one of: auto, detail, concise"],
  [ask({ temperature: -0.1 }), "temperature must be between 0 and 2"],
  [ask({ temperature: 0 }), accepted],
  [ask({ temperature: 2 }), accepted],
  [ask({ temperature: 2.0000001 }), "temperature must be between 0 and 2"],
  [ask({ temperature: "1" }), "temperature must be a number"],
  [ask({ top_p: -0.1 }), "top_p must be between 0 and 1"],
  [ask({ top_p: 0 }), accepted],
  [ask({ top_p: 1 }), accepted],
  [ask({ top_p: 1.1 }), "top_p must be between 0 and 1"],
  [ask({ stop: "." }), accepted],
  [ask({ stop: "" }), "stop must not be empty"],
  [ask({ stop: [] }), "stop must contain 1 to 4 items"],
  [ask({ stop: ["a"] }), accepted],
  [ask({ stop: ["a", "b", "c", "d"] }), accepted],
  [ask({ stop: ["a", "b", "c", "d", "e"] }), "stop must contain 1 to 4 items"],
  [ask({ stop: ["a", 1] }), "stop[1] must be a string"],
  [ask({ stop: 5 }), "stop must be a string or an array of strings"],
];

/** What only `forward` knows. */
const openFields: readonly (readonly [unknown, string | undefined])[] = [
  [ask({ n: 0 }), "n must be between 1 and 8"],
  [ask({ n: 8 }), accepted],
  [ask({ n: 9 }), "n must be between 1 and 8"],
  [ask({ max_completion_tokens: 0 }), "max_completion_tokens must be at least 1"],
  [ask({ max_output_tokens: "1" }), "max_output_tokens must be an integer"],
  [
    ask({ max_tokens: 1, max_completion_tokens: 2 }),
    "max_tokens and max_completion_tokens must not differ",
  ],
  [ask({ max_tokens: 2, max_completion_tokens: 2 }), accepted],
  [ask({ background: true }), "background is not supported"],
  [ask({ service_tier: "priority" }), "service_tier is not supported"],
  [ask({ service_tier: "default" }), accepted],
  ...["models", "route", "provider", "plugins", "web_search_options", "speed"].map(
    (field) => [ask({ [field]: "x" }), `${field} is not supported`] as const,
  ),
  [ask({ tools: [{ type: "function", function: { name: "f" } }], seed: 1 }), accepted],
  [ask({ messages: [{ role: "user", content: [{ type: "text", text: "x" }] }] }), accepted],
  [
    ask({ messages: [{ role: "user", content: [{ type: "text" }] }] }),
    "messages[0].content[0].text is required",
  ],
  [
    ask({ messages: [{ role: "user", content: null }] }),
    "messages[0].content must be a string or an array of parts",
  ],
  [ask({ messages: [{ role: "assistant", content: null, tool_calls: [{ id: "1" }] }] }), accepted],
  [ask({ messages: [{ role: "assistant", tool_calls: [{ id: "1" }] }] }), accepted],
];

const strictFields: readonly (readonly [unknown, string | undefined])[] = [
  [ask({ seed: 1 }), "seed is not supported"],
  [ask({ n: 1 }), "n is not supported"],
  [ask({ max_completion_tokens: 1 }), "max_completion_tokens is not supported"],
  [ask({ stream_options: {} }), "stream_options is not supported"],
  [ask({ messages: [{ ...message, name: "x" }] }), "messages[0].name is not supported"],
  [
    ask({ messages: [{ role: "user", content: [{ type: "text", text: "x" }] }] }),
    "messages[0].content must be a string",
  ],
  [
    ask({ messages: [{ role: "assistant", content: null }] }),
    "messages[0].content must be a string",
  ],
];

/** Bodies that are no checked request at all, as they are sent. */
const texts: readonly (readonly [string, string | Uint8Array, string])[] = [
  ["nothing", "", "body is not valid JSON"],
  ["blanks", "  \n", "body is not valid JSON"],
  ["a trailing comma", '{"model":"small",}', "body is not valid JSON"],
  ["a byte order mark", `\ufeff${JSON.stringify(ask())}`, "body is not valid JSON"],
  ["NaN", '{"model":NaN}', "body is not valid JSON"],
  ["null", "null", "body must be a JSON object"],
  ["a list", "[]", "body must be a JSON object"],
  ["a string", '"x"', "body must be a JSON object"],
  ["a key twice", '{"model":"small","model":"large"}', "model stands twice"],
  ["a key twice, once escaped", '{"model":"small","mod\\u0065l":"large"}', "model stands twice"],
  ["a key twice, deep inside", '{"model":"small","x":[{"y":{"z":1,"z":2}}]}', "z stands twice"],
  ["half a surrogate pair", '{"model":"\\ud800"}', "invalid unicode"],
  ["bytes that are not UTF-8", Uint8Array.of(0x7b, 0xff, 0x7d), "request body is not valid UTF-8"],
  ["a NUL", '{"model":"sm\0all"}', "body is not valid JSON"],
  [
    "2^53 + 1 tokens",
    JSON.stringify(ask()).replace("{", '{"max_tokens":9007199254740993,'),
    "max_tokens must be at most 9007199254740991",
  ],
  [
    "1e400 tokens",
    JSON.stringify(ask()).replace("{", '{"max_tokens":1e400,'),
    "max_tokens must be at most 9007199254740991",
  ],
  [
    "-0 tokens",
    JSON.stringify(ask()).replace("{", '{"max_tokens":-0,'),
    "max_tokens must be at least 1",
  ],
  [
    "a control character in the model",
    '{"model":"a\\nb","messages":[]}',
    "model must not contain control characters",
  ],
  [
    "a model of 10 KB",
    JSON.stringify(ask({ model: "m".repeat(10_240) })),
    "model must be at most 256 characters long",
  ],
];

const headers: readonly (readonly [string, string, string | undefined])[] = [
  ["content-type", "text/plain", "content-type must be application/json"],
  ["content-type", "multipart/form-data; boundary=x", "content-type must be application/json"],
  ["content-type", "application/x-www-form-urlencoded", "content-type must be application/json"],
  [
    "content-type",
    "application/json; charset=utf-16",
    "content-type must be application/json in utf-8",
  ],
  ["content-type", "Application/JSON; charset=UTF-8", accepted],
  ["content-encoding", "gzip", "content-encoding is not supported"],
  ["content-encoding", "identity", accepted],
];

describe.each([
  ["forward", open, [...fields, ...openFields]],
  ["reject", strict, [...fields, ...strictFields]],
] as const)("unknown_fields = %j", (_, at, rows) => {
  test.each(rows.map(([body, message]) => [message ?? "accepted", body] as const))(
    "%s: %j",
    async (message, body) => {
      at.provider.answer = usual;
      const key = at.gateway.key();
      const reply = await call(at.gateway, key, { body });
      if (message === "accepted") {
        expect([reply.status, reply.text]).toEqual([200, expect.any(String)]);
        expect(at.provider.requests).toHaveLength(1);
      } else {
        expectRefusal(reply, [400, "invalid_request_error", message]);
        expect(at.provider.requests).toHaveLength(0);
        expect(await at.gateway.records(key, 0)).toEqual([]);
      }
    },
  );

  test.each(texts)("a body with %s is refused", async (_, body, message) => {
    const response = await fetch(`${at.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${at.gateway.key().key}` },
      body,
    });
    const error = { message, type: "invalid_request_error" };
    expect([response.status, await response.json()]).toEqual([400, { error }]);
    expect(at.provider.requests).toHaveLength(0);
  });

  test.each(headers)("%s: %s", async (name, value, message) => {
    at.provider.answer = usual;
    const given = { body: ask(), headers: { [name]: value } };
    const reply = await call(at.gateway, at.gateway.key(), given);
    if (message === undefined) expect(reply.status).toBe(200);
    else expectRefusal(reply, [400, "invalid_request_error", message]);
  });
});

describe("bodies", () => {
  test.each([
    ["with a content-length", (text: string) => text],
    ["in chunks", (text: string) => new Blob([text]).stream()],
  ])("%s may be as large as max_body, and no larger", async (_, bodyOf) => {
    const { gateway, provider } = open;
    provider.answer = usual;
    const key = gateway.key();
    const empty = JSON.stringify(ask({ messages: [{ role: "user", content: "" }] }));
    const send = async (bytes: number) => {
      const text = empty.replace('""', `"${"a".repeat(bytes - empty.length)}"`);
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key.key}` },
        body: bodyOf(text),
      });
      return [response.status, (await response.json()) as { error?: object }] as const;
    };
    const [served] = await send(300 * 1024);
    expect(served).toBe(200);
    expect(await send(300 * 1024 + 1)).toEqual([
      400,
      { error: { message: "request body is too large", type: "invalid_request_error" } },
    ]);
  });

  test("nested by tens of thousands are served as any other", async () => {
    const { gateway, provider } = open;
    provider.answer = usual;
    const deep = `${"[".repeat(50_000)}${"]".repeat(50_000)}`;
    const body = JSON.stringify(ask()).replace("{", `{"metadata":${deep},`);
    expect((await call(gateway, gateway.key(), { body })).status).toBe(200);
    expect(provider.requests[0]?.body).toContain(deep);
  });

  test("with __proto__ change nothing about this request or the next", async () => {
    const { gateway, provider } = open;
    provider.answer = usual;
    const body = JSON.stringify(ask()).replace("{", '{"__proto__":{"stream":true,"model":"x"},');
    const reply = await call(gateway, gateway.key(), { body });
    expect([reply.status, reply.headers.get("content-type")]).toEqual([200, "application/json"]);
    expect(provider.requests[0]?.body).toBe(body);
    expect("stream" in {}).toBe(false);
  });

  test("with a model id of another form are a 404, not a path", async () => {
    const { gateway } = open;
    for (const model of ["../small", "small/", "SMALL", " small"]) {
      expectRefusal(await call(gateway, gateway.key(), { body: ask({ model }) }), unknownModel);
    }
  });
});
