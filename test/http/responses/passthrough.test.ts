import { describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  created,
  delta,
  ended,
  responds,
  terminal,
} from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import {
  piece,
  raw,
  stream,
  streamEnd,
  streamHead,
  text,
} from "../../support/provider/scriptedProvider.ts";

const at = openBefore(["local"], ({ local }) => ({
  providers: { local: { base_url: local, api_key: "sk-of-the-operator" } },
  models: [
    { id: "small", routes: [{ provider: "local" }] },
    { id: "renamed", routes: [{ provider: "local", model: "vendor/small-2" }] },
  ],
}));

/** Texts that change when they are parsed and written again, or that a careless check changes. */
const oddities = [
  ['"input" : "a \\u0041 \\/ \\ud83d\\ude00 и"', "escapes and blanks"],
  ['"input":"hi","big":12345678901234567890,"zero":-0,"one":1.0,"hundred":1E2', "numbers"],
  ['"input":[{"role":"user","content":"hi","model":"small"}]', "a nested model"],
  ['"z":1,"a":2,"input":"hi","10":3,"9":4', "the order of keys"],
  ['"input":"hi","__proto__":{"stream":true},"constructor":{"x":1}', "names that objects inherit"],
  ['"input":"hi","max_output_tokens":null,"previous_response_id":null,"stream":false', "nulls"],
  [
    '"input":"hi","temperature":1.70,"metadata":{"a":""},"tools":[{"type":"function","name":"f"}]',
    "unknown fields",
  ],
] as const;

describe("the body that the provider receives", () => {
  test.each(oddities)("is the client's, byte for byte: %s", async (members) => {
    at.providers.local.answer = responds();
    const body = `{${members},\n  "model":"small"\t}`;
    expect((await respond(at.gateway, await at.gateway.key(), body)).status).toBe(200);
    expect(at.providers.local.requests.map((request) => request.body)).toEqual([body]);
  });

  test.each(oddities)(
    "differs in the model's name only, when the route has another: %s",
    async (members) => {
      at.providers.local.answer = responds();
      const body = `{${members},\n  "model" : "renamed"\t}`;
      expect((await respond(at.gateway, await at.gateway.key(), body)).status).toBe(200);
      const sent = body.replace('"model" : "renamed"', '"model" : "vendor/small-2"');
      expect(at.providers.local.requests.map((request) => request.body)).toEqual([sent]);
    },
  );

  test.each([
    [false, "application/json"],
    [true, "text/event-stream"],
  ])(
    "comes with the operator's key and no header of the client (stream: %p)",
    async (stream, accept) => {
      at.providers.local.answer = responds();
      const key = await at.gateway.key();
      const { id } = await respond(at.gateway, key, { stream });
      const [request] = at.providers.local.requests;
      expect(request?.requestLine).toBe("POST /v1/responses HTTP/1.1");
      expect(Object.fromEntries(request?.headers ?? [])).toMatchObject({
        authorization: "Bearer sk-of-the-operator",
        accept,
        "accept-encoding": "identity",
        "x-request-id": id,
      });
      expect(request?.text).not.toContain(key.key);
    },
  );
});

describe("the JSON answer that the client receives", () => {
  test("is the provider's, byte for byte, with none of its headers", async () => {
    const answer = `{ "id":"resp_1", "object" : "response","status":"completed",
      "output":[],"big":12345678901234567890,"text":"\\u0041 и \\/","zero":-0,
      "usage":{"input_tokens":2,"output_tokens":1,"x":1.0} }\n`;
    const headers = {
      "openai-organization": "org-x",
      "x-request-id": "theirs",
      "set-cookie": "a=b",
    };
    at.providers.local.answer = text(answer, { headers });
    const reply = await respond(at.gateway, await at.gateway.key());
    expect(reply.text).toBe(answer);
    const { date: _, "content-length": __, ...others } = Object.fromEntries(reply.headers);
    expect(others).toEqual({
      "content-type": "application/json",
      "cache-control": "no-store",
      vary: "authorization, x-api-key",
      "x-request-id": reply.id,
      "x-tollgate-cost-rub": "0.00025",
    });
  });
});

/** Streams that a rewriting relay changes. */
const streams = [
  ["plain", [created(), delta, terminal()]],
  ["with comments", [": open\n\n", created(), ": keep-alive\n\n:\n", delta, terminal()]],
  [
    "with CRLF line ends",
    [created(), delta, terminal()].map((event) => event.replaceAll("\n", "\r\n")),
  ],
  [
    "with CR line ends",
    [created(), delta, terminal()].map((event) => event.replaceAll("\n", "\r")),
  ],
  [
    "with unknown events and fields",
    [
      created(),
      'event: response.new_thing\nid: 7\nretry: 10\nother: x\ndata: {"type":"response.new_thing","obfuscation":"aXz"}\n\n',
      delta,
      "data: no json\n\n",
      terminal(),
    ],
  ],
  [
    "without event lines",
    [created(), delta, terminal()].map((event) => event.replace(/^event: .*\n/, "")),
  ],
  [
    "with data of several lines",
    [created(), delta, terminal().replace('"response":', '\ndata: "response":')],
  ],
  ["with characters of many bytes", [created(), delta.replace("Hello", "Привет 😀"), terminal()]],
  ["with blank lines between", [created(), "\n\n", delta, "\n", terminal()]],
] as const;

describe("the stream that the client receives", () => {
  test.each(streams)("is the provider's, byte for byte: %s", async (_, events) => {
    at.providers.local.answer = stream(...events);
    const reply = await respond(at.gateway, await at.gateway.key(), { stream: true });
    expect(reply.headers.get("content-type")).toBe("text/event-stream");
    expect(reply.text).toBe(events.join(""));
  });

  test.each([
    ["its blank line", terminal().slice(0, -1)],
    ["any line end", terminal().trimEnd()],
    ["the second half of its blank line, of CRs", terminal().replaceAll("\n", "\r").slice(0, -1)],
  ])("ends with a terminal event that clients accept, when it came without %s", async (_, end) => {
    at.providers.local.answer = stream(created(), delta, end);
    const key = await at.gateway.key();
    const { text } = await respond(at.gateway, key, { stream: true });
    expect(text).toStartWith(created() + delta + end);
    // By the standard, a block without a blank line after it is no event.
    expect(text.slice(created().length + delta.length)).toMatch(/(?:\r\n?|\n)(?:\r\n?|\n)$/);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done" }]);
  });

  test("ends with the terminal event, and drops later data", async () => {
    const events = [created(), delta, terminal()];
    at.providers.local.answer = stream(...events, "data: [DONE]\n\n", delta);
    const reply = await respond(at.gateway, await at.gateway.key(), { stream: true });
    expect(reply.text).toBe(events.join(""));
  });
});

test.each([false, true])(
  "a compressed answer, which was not requested, is refused (stream: %p)",
  async (isStream) => {
    const body = isStream ? [created(), delta, terminal()].join("") : JSON.stringify(ended());
    const compressed = gzipSync(body);
    const head = streamHead.replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n");
    at.providers.local.answer = isStream
      ? raw(head, piece(compressed), streamEnd)
      : text(compressed, { headers: { "content-encoding": "gzip" } });
    const key = await at.gateway.key();
    expect(await respond(at.gateway, key, { stream: isStream })).toMatchObject({
      status: 502,
      body: { error: { message: "all providers unavailable", type: "provider_error" } },
    });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  },
);
