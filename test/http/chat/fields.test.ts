import { describe, expect, test } from "bun:test";
import { ask, call, expectRefusal, unknownModel } from "../../support/gateway/chatCalls.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { fields, openFields, type FieldRow } from "./fieldRows.ts";

const sections = { server: { max_body: "300KB" } };
const open = openOneModelBefore(sections);
const strict = openOneModelBefore({ ...sections, api: { unknown_fields: "reject" } });

const message = { role: "user", content: "hello" };
const accepted = undefined;

const strictFields: readonly FieldRow[] = [
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

/** Invalid bodies, as they are sent. */
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
  ["a lone surrogate", '{"model":"\\ud800"}', "invalid unicode"],
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
  ["content-encoding", "gzip", "content-encoding not supported"],
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
      const key = await at.gateway.key();
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
      headers: { authorization: `Bearer ${(await at.gateway.key()).key}` },
      body,
    });
    const error = { message, type: "invalid_request_error" };
    expect([response.status, await response.json()]).toEqual([400, { error }]);
    expect(at.provider.requests).toHaveLength(0);
  });

  test.each(headers)("%s: %s", async (name, value, message) => {
    at.provider.answer = usual;
    const given = { body: ask(), headers: { [name]: value } };
    const reply = await call(at.gateway, await at.gateway.key(), given);
    if (message === undefined) expect(reply.status).toBe(200);
    else expectRefusal(reply, [400, "invalid_request_error", message]);
  });
});

describe("bodies", () => {
  test.each([
    ["with a content-length", (text: string) => text],
    ["in chunks", (text: string) => new Blob([text]).stream()],
  ])("%s may have max_body bytes, and no more", async (_, bodyOf) => {
    const { gateway, provider } = open;
    provider.answer = usual;
    const key = await gateway.key();
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

  test("nested 10,000 levels and more are served", async () => {
    const { gateway, provider } = open;
    provider.answer = usual;
    const deep = `${"[".repeat(50_000)}${"]".repeat(50_000)}`;
    const body = JSON.stringify(ask()).replace("{", `{"metadata":${deep},`);
    expect((await call(gateway, await gateway.key(), { body })).status).toBe(200);
    expect(provider.requests[0]?.body).toContain(deep);
  });

  test("with __proto__ do not change this request or the next", async () => {
    const { gateway, provider } = open;
    provider.answer = usual;
    const body = JSON.stringify(ask()).replace("{", '{"__proto__":{"stream":true,"model":"x"},');
    const reply = await call(gateway, await gateway.key(), { body });
    expect([reply.status, reply.headers.get("content-type")]).toEqual([200, "application/json"]);
    expect(provider.requests[0]?.body).toBe(body);
    expect("stream" in {}).toBe(false);
  });

  test("with a model id that looks like a path are a 404", async () => {
    const { gateway } = open;
    for (const model of ["../small", "small/", "SMALL", " small"]) {
      expectRefusal(
        await call(gateway, await gateway.key(), { body: ask({ model }) }),
        unknownModel,
      );
    }
  });
});
