import { describe, expect, test } from "bun:test";
import { expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { embed, embeddingsAsk } from "../../support/gateway/embeddingsCalls.ts";
import { costOf, prices } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { connectRaw, postBytes } from "../../support/gateway/rawClient.ts";
import {
  dataText,
  embeds,
  embedsText,
  oddText,
  vectors,
} from "../../support/provider/embeddingsAnswers.ts";
import {
  cut,
  json,
  piece,
  raw,
  refusal,
  streamEnd,
  text,
} from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";
import { formatRoubles } from "../../../src/lib/money.ts";

const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [
    {
      id: "vectors",
      routes: [{ provider: "local", model: "text-embedding-3-small", rub_cost_input_per_1m: 7 }],
      settings: { kind: "embedding", context_tokens: 100 },
    },
  ],
}));

const tokensOf = (prompt: number) => costOf({ prompt, completion: 0 });

test("the client's own text is sent with only the model replaced", async () => {
  at.providers.local.answer = embeds();
  const body =
    '{ "input":["\\u0061", "ж"] , "dimensions":2e0,"x":{"big":12345678901234567890}, "model":"vectors"}';
  expect((await embed(at.gateway, await at.gateway.key(), body)).status).toBe(200);
  const [sent] = at.providers.local.requests;
  expect(sent?.requestLine).toBe("POST /v1/embeddings HTTP/1.1");
  expect(sent?.body).toBe(body.replace('"vectors"', '"text-embedding-3-small"'));
});

const base64 = '"data":[{"object":"embedding","index":0,"embedding":"AACAPgAAAL+V/9Yz"}]';
const count = 7;
const usage = `"usage":{"prompt_tokens":${count},"total_tokens":${count}}`;
const small = dataText(1, 3);
/** About 3 MB, so that the ends do not meet. */
const large = dataText(100);

/** The members of an answer whose usage must be found, and the tokens to charge. */
const found: readonly (readonly [name: string, members: readonly string[]])[] = [
  ["vectors as numbers", ['"object":"list"', small, '"model":"m"', usage]],
  ["vectors in base64", ['"object":"list"', base64, '"model":"m"', usage]],
  ["the usage first", [usage, small]],
  ["the usage in the middle", ['"object":"list"', usage, small]],
  ["a large answer", ['"object":"list"', large, '"model":"m"', usage]],
  ["a large answer with the usage first", [usage, large]],
  ["a large answer with the usage before the vectors", ['"id":"x"', usage, large, '"model":"m"']],
  ["a model named usage behind it", [small, usage, '"model":"usage"']],
  ["a large answer with a model named usage", [usage, large, '"model":"usage"']],
  ["the word in a text", [small, usage, '"note":"it says \\"usage\\":{} and \\"usage"']],
  [
    "a nested usage behind it",
    [small, usage, '"meta":{"usage":{"prompt_tokens":1,"total_tokens":1}}'],
  ],
  [
    "a nested usage before it",
    ['"meta":{"usage":{"prompt_tokens":1,"total_tokens":1}}', large, usage],
  ],
  [
    "a usage with more members",
    [
      small,
      `"usage":{"prompt_tokens":${count},"total_tokens":9,"x":{"usage":{"prompt_tokens":1}}}`,
    ],
  ],
  ["the total alone", [small, `"usage":{"total_tokens":${count}}`]],
  ["completion tokens", [small, `"usage":{"prompt_tokens":${count},"completion_tokens":5}`]],
  ["an error that is null", ['"error": null', small, usage]],
  ["an escaped name of the vectors", [small.replace('"data"', '"d\\u0061ta"'), usage]],
];

describe("an answer with", () => {
  test.each(found)("%s passes byte for byte and is charged exactly", async (_, members) => {
    const key = await at.gateway.key();
    at.providers.local.answer = embedsText(...members);
    const reply = await embed(at.gateway, key);
    expect(reply.status).toBe(200);
    expect(reply.text === oddText(...members)).toBe(true);
    expect(Object.fromEntries(reply.headers)).toMatchObject({
      "content-type": "application/json",
      "x-tollgate-cost-rub": formatRoubles(tokensOf(count)),
    });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      {
        endpoint: "embeddings",
        model: "vectors",
        provider: "local",
        status: "done",
        stream: false,
        promptTokens: count,
        cachedTokens: 0,
        cacheWriteTokens: 0,
        completionTokens: 0,
        charge: tokensOf(count),
        estimated: false,
        operatorCost: BigInt(7 * count),
      },
    ]);
  });
});

describe("a large answer that comes", () => {
  const members = ['"object":"list"', large, usage];
  const body = Buffer.from(oddText(...members));
  const pieces = Array.from({ length: 20 }, (_, at) => {
    const length = Math.ceil(body.length / 20);
    return body.subarray(at * length, (at + 1) * length);
  });
  const head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

  test.each([
    ["with its length", raw(`${head}content-length: ${body.length}\r\n\r\n`, ...pieces)],
    [
      "in chunks",
      raw(`${head}transfer-encoding: chunked\r\n\r\n`, ...pieces.map(piece), streamEnd),
    ],
    ["until the connection closes", cut("fin", `${head}\r\n`, ...pieces)],
  ])("%s passes byte for byte", async (_, answer) => {
    const key = await at.gateway.key();
    at.providers.local.answer = answer;
    const reply = await embed(at.gateway, key);
    expect(reply.text === body.toString()).toBe(true);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ charge: tokensOf(count) }]);
  });
});

test("the usage of zero tokens is believed", async () => {
  const key = await at.gateway.key();
  at.providers.local.answer = embeds({ usage: { prompt_tokens: 0, total_tokens: 0 } });
  await embed(at.gateway, key);
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "done", charge: 0n, estimated: false },
  ]);
});

/** Answers without a usage that can be charged. */
const missing: readonly (readonly [name: string, members: readonly string[]])[] = [
  ["is missing", [small]],
  ["is missing in a large answer", ['"object":"list"', large, '"model":"m"']],
  ["is null", [small, '"usage":null']],
  ["is negative", [small, '"usage":{"prompt_tokens":-1}']],
  ["is a fraction", [small, '"usage":{"prompt_tokens":1.5}']],
  ["is a string", [small, '"usage":{"prompt_tokens":"7"}']],
  ["is impossible", [small, '"usage":{"prompt_tokens":1000000000}']],
  ["belongs to a nested object", [`"meta":{${usage}}`, small]],
  ["belongs to a nested object at the end", [large, `"meta":{${usage}}`]],
  ["belongs to each vector", [small.replace('"index"', `${usage},"index"`)]],
];

describe("a usage that", () => {
  test.each(missing)("%s is estimated from the input", async (_, members) => {
    const key = await at.gateway.key();
    at.providers.local.answer = embedsText(...members);
    const reply = await embed(at.gateway, key, { input: ["12345", "1"] });
    expect(reply.text === oddText(...members)).toBe(true);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", promptTokens: 3, charge: tokensOf(3), estimated: true },
    ]);
  });

  test("is missing is the number of tokens, if the input is tokens", async () => {
    const key = await at.gateway.key();
    at.providers.local.answer = embeds({ usage: undefined });
    await embed(at.gateway, key, { input: [[1, 2, 3], [4]] });
    await embed(at.gateway, key, { input: [1, 2, 3, 4] });
    const charge = tokensOf(4);
    expect(await at.gateway.records(key, 2)).toMatchObject([{ charge }, { charge }]);
  });
});

/** The most tokens that an input can have: its bytes and 16 more, or its context of 100. */
const holds: readonly (readonly [name: string, input: unknown, tokens: number])[] = [
  ["a text", "hello", 5 + 16],
  ["a text in UTF-8", "жж", 4 + 16],
  ["texts", ["hello", "a"], 5 + 16 + 1 + 16],
  ["a text longer than the context", "a".repeat(1000), 100],
  ["texts longer than the context", ["a".repeat(1000), "b".repeat(1000), "c"], 100 + 100 + 17],
  ["tokens", [1, 2, 3], 3 + 16],
  ["arrays of tokens", [[1, 2, 3], [1]], 3 + 16 + 1 + 16],
];

describe("the hold", () => {
  test.each(holds)("covers the most that %s can cost", async (_, input, tokens) => {
    at.providers.local.answer = embeds({ usage: { prompt_tokens: 1, total_tokens: 1 } });
    const hold = tokensOf(tokens);
    const poor = await at.gateway.key({ balance: hold - 1n });
    const refused = await embed(at.gateway, poor, { input });
    expectRefusal(refused, [402, "billing_error", "insufficient balance"], {
      code: "insufficient_balance",
      required_rub: formatRoubles(hold),
      available_rub: formatRoubles(hold - 1n),
    });
    expect(at.providers.local.requests).toEqual([]);
    const able = await at.gateway.key({ balance: hold });
    expect((await embed(at.gateway, able, { input })).status).toBe(200);
    expect(await at.gateway.balance(able)).toBe(hold - BigInt(prices.input));
  });
});

test("the token rate counts the estimate, then the usage", async () => {
  at.providers.local.answer = embeds({ usage: { prompt_tokens: 40, total_tokens: 40 } });
  const key = await at.gateway.key({ tokensPerMinute: 100 });
  const remaining = async (input: unknown) =>
    (await embed(at.gateway, key, { input })).headers.get("x-ratelimit-remaining-tokens");
  expect(await remaining("a".repeat(40))).toBe("60");
  expect(await remaining([1, 2, 3])).toBe("20");
  const over = await embed(at.gateway, key, { input: Array.from({ length: 21 }, () => "a") });
  expect(over.status).toBe(429);
});

/** What is no answer of this interface, and its outcome. The next route would be tried. */
const failures = [
  ["a refusal of the request", refusal(400, "too long"), 400, "status 400"],
  ["a failure", refusal(500), 502, "status 500"],
  ["404", refusal(404), 502, "status 404"],
  ["an empty body", text(""), 502, "invalid answer"],
  ["HTML", text("<html>"), 502, "invalid answer"],
  ["a list", text("[]"), 502, "invalid answer"],
  ["an object without vectors", json({ object: "list", usage: {} }), 502, "invalid answer"],
  ["vectors that are no list", json({ data: null }), 502, "invalid answer"],
  ["an answer that is cut", text(JSON.stringify(vectors()).slice(0, -1)), 502, "invalid answer"],
  ["a large answer without vectors", text(`{"x":${large.slice(7)}}`), 502, "invalid answer"],
  [
    "a reported failure",
    json({ error: { message: "x", type: "server_error" } }),
    502,
    "reported failure",
  ],
  [
    "a reported failure beside vectors",
    embeds({ error: { message: "x", code: "server_error" } }),
    502,
    "reported failure",
  ],
  [
    "bytes that are not UTF-8, and no vectors",
    text(Uint8Array.of(0x7b, 0xff, 0x7d)),
    502,
    "invalid answer",
  ],
] as const;

describe("a provider that answers with", () => {
  test.each(failures)(
    "%s has failed, and nothing is charged",
    async (_, answer, status, outcome) => {
      const key = await at.gateway.key();
      at.providers.local.answer = answer;
      const reply = await embed(at.gateway, key);
      expectRefusal(
        reply,
        status === 400 ? [400, "invalid_request_error", "too long"] : noProvider,
        status === 400 ? { code: "some_code" } : {},
      );
      expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
      expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([{ outcome }]);
    },
  );
});

test("a client that disconnects is charged for the whole answer", async () => {
  const key = await at.gateway.key();
  const released = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer, request) => {
    await released.promise;
    await embedsText('"object":"list"', large, usage)(peer, request);
  };
  const client = await connectRaw(at.gateway.port);
  client.send(postBytes("/v1/embeddings", key.key, JSON.stringify(embeddingsAsk())));
  await at.providers.local.request(0);
  client.reset();
  await until(
    "the gateway counts the disconnect",
    () => at.gateway.app.gateway.leftAnswers.count === 1,
  );
  released.resolve();
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "cancelled", charge: tokensOf(count), estimated: false },
  ]);
});
