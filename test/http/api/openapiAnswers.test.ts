import { describe, expect, spyOn, test } from "bun:test";
import { parseRoubles } from "../../../src/lib/money.ts";
import { lazy } from "../../../src/lib/lazy.ts";
import { describedBy, differences } from "../../support/gateway/apiDescription.ts";
import { call, chat, chunksOf, type Reply } from "../../support/gateway/chatCalls.ts";
import { completion, choice, helloEvent, usual } from "../../support/provider/chatAnswers.ts";
import { embed } from "../../support/gateway/embeddingsCalls.ts";
import { openBefore, openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { askMessage, sendMessage } from "../../support/gateway/messagesCalls.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { embeds } from "../../support/provider/embeddingsAnswers.ts";
import { responds } from "../../support/provider/responsesAnswers.ts";
import {
  json,
  refusal,
  stream,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import type { KeyOptions, TestKey } from "../../support/gateway/testApp.ts";
import { redeem, unknownCode } from "../../support/gateway/voucherCalls.ts";
import { issueVoucher } from "../../support/store/vouchers.ts";

const limits = { requests_per_minute: 1000, tokens_per_minute: 1_000_000 };
const opened = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [
    { id: "small", routes: [{ provider: "local" }] },
    { id: "vectors", routes: [{ provider: "local" }], settings: { kind: "embedding" } },
  ],
  sections: { limits, billing: { hold_wait: "0s" } },
}));
const at = {
  get gateway() {
    return opened.gateway;
  },
  provider: opened.providers.local,
};
const strict = openOneModelBefore({ limits, api: { unknown_fields: "reject" } });

const completions = {
  "POST /v1/chat/completions": {
    answer: usual,
    served: [{}, { stream: true }],
    refused: { max_tokens: 0 },
    ask: (key: TestKey, changes: object) => chat(at.gateway, key, changes),
  },
  "POST /v1/responses": {
    answer: responds(),
    served: [{}, { stream: true }],
    refused: { max_tokens: 0 },
    ask: (key: TestKey, changes: object) => respond(at.gateway, key, changes),
  },
  "POST /v1/messages": {
    answer: usual,
    served: [{}, { stream: true }],
    refused: { max_tokens: -1 },
    ask: (key: TestKey, changes: object) => sendMessage(at.gateway, key, changes),
  },
  "POST /v1/embeddings": {
    answer: embeds(),
    served: [{}, { input: [1, 2], encoding_format: "base64" }],
    refused: { dimensions: 0 },
    ask: (key: TestKey, changes: object) => embed(at.gateway, key, changes),
  },
};

const redemption = "POST /v1/vouchers/redeem";
const expiresAt = Date.parse("2100-01-01");
const described = lazy(() => describedBy(at.gateway));

/** How to get each answer that the description lists. */
type Case = readonly [operation: string, status: number, work: () => Promise<Reply>];

const cases: readonly Case[] = [
  ...Object.entries(completions).flatMap(([operation, completion]): Case[] => {
    const { answer, served, refused, ask } = completion;
    const asked = async (changes: object = {}, options: KeyOptions = {}, answers = answer) => {
      at.provider.answer = answers;
      return ask(await at.gateway.key(options), changes);
    };
    const answered = served.map((changes): Case => [operation, 200, () => asked(changes)]);
    return answered.concat([
      [operation, 400, () => asked(refused)],
      [operation, 400, () => asked({}, {}, refusal(400))],
      [operation, 401, () => ask({ key: "sk-tg-wrong", id: "", account: "" }, {})],
      [operation, 402, () => asked({}, { balance: 0n })],
      [operation, 404, () => asked({ model: "unknown" })],
      [operation, 429, () => tooOften((key) => ask(key, {}), answer)],
      [operation, 429, () => whileHeld((key) => ask(key, {}))],
      [operation, 502, () => asked({}, {}, refusal(500))],
      [operation, 502, () => asked({}, {}, refusal(429, "slow down", { "retry-after": "7" }))],
      [operation, 502, () => draining(() => asked())],
    ]);
  }),
  ["POST /v1/messages/count_tokens", 200, async () => countTokens(await at.gateway.key())],
  [
    "POST /v1/messages/count_tokens",
    400,
    async () => countTokens(await at.gateway.key(), { messages: [] }),
  ],
  ["POST /v1/messages/count_tokens", 401, () => countTokens(undefined)],
  [
    "POST /v1/messages/count_tokens",
    404,
    async () => countTokens(await at.gateway.key(), { model: "x" }),
  ],
  ["POST /v1/messages/count_tokens", 429, () => tooOften(countTokens)],
  [
    "POST /v1/messages/count_tokens",
    502,
    () => draining(async () => countTokens(await at.gateway.key())),
  ],
  ...["/v1/models", "/v1/models/{id}"].flatMap((path): Case[] => {
    const get = (key?: TestKey) => getOf(path.replace("{id}", "small"), key);
    const getInAnthropicForm = (key?: TestKey) =>
      call(at.gateway, key, {
        path: path.replace("{id}", "small"),
        headers: { "anthropic-version": "2023-06-01" },
      });
    const operation = `GET ${path}`;
    return [
      [operation, 200, async () => getInAnthropicForm(await at.gateway.key())],
      [operation, 401, () => getInAnthropicForm()],
      [operation, 429, () => tooOften(getInAnthropicForm)],
      [operation, 502, () => draining(async () => getInAnthropicForm(await at.gateway.key()))],
      [operation, 200, async () => get(await at.gateway.key())],
      [operation, 401, () => get()],
      [operation, 429, () => tooOften(get)],
      [operation, 502, () => draining(async () => get(await at.gateway.key()))],
    ];
  }),
  [
    "GET /v1/models",
    400,
    async () =>
      call(at.gateway, await at.gateway.key(), {
        path: "/v1/models?limit=0",
        headers: { "anthropic-version": "2023-06-01" },
      }),
  ],
  ["GET /v1/models/{id}", 404, async () => getOf("/v1/models/unknown", await at.gateway.key())],
  ...["/v1/account", "/v1/usage", "/v1/requests", "/v1/requests/{id}"].flatMap((path): Case[] => {
    const operation = `GET ${path}`;
    const get = async (key?: TestKey) => getOf(path.replace("{id}", await requestOf(key)), key);
    return [
      [operation, 200, async () => get(await at.gateway.key())],
      [operation, 401, () => get()],
      [operation, 429, () => tooOften((key) => getOf("/v1/models", key))],
      [operation, 502, () => draining(async () => getOf(path, await at.gateway.key()))],
    ];
  }),
  [
    "GET /v1/account",
    200,
    async () => getOf("/v1/account", await at.gateway.key({ budget: 5n, expiresAt })),
  ],
  ["GET /v1/usage", 200, () => usageBy("model")],
  ["GET /v1/usage", 200, () => usageBy("hour,model")],
  ["GET /v1/usage", 400, async () => getOf("/v1/usage?by=provider", await at.gateway.key())],
  ["GET /v1/requests", 200, lastPageOfRequests],
  ["GET /v1/requests", 400, async () => getOf("/v1/requests?before=x", await at.gateway.key())],
  ["GET /v1/requests/{id}", 404, async () => getOf("/v1/requests/req_0", await at.gateway.key())],
  [
    redemption,
    200,
    async () =>
      redeem(at.gateway, await at.gateway.key(), (await issueVoucher(at.gateway.store)).code),
  ],
  [redemption, 400, async () => redeem(at.gateway, await at.gateway.key(), "7Q2MV")],
  [redemption, 401, () => redeem(at.gateway, undefined, unknownCode())],
  [redemption, 404, async () => redeem(at.gateway, await at.gateway.key(), unknownCode())],
  [redemption, 429, tooManyCodes],
  [
    redemption,
    502,
    () => draining(async () => redeem(at.gateway, await at.gateway.key(), unknownCode())),
  ],
  ["GET /openapi.json", 200, () => getOf("/openapi.json")],
  ["GET /healthz", 200, health],
  ["GET /healthz", 503, () => draining(health)],
  ["GET /healthz", 503, withoutStore],
  ...[
    "/v1/models",
    "/v1/models/{id}",
    "/v1/account",
    "/v1/usage",
    "/v1/requests",
    "/v1/requests/{id}",
    "/openapi.json",
    "/healthz",
  ].map((path): Case => [`GET ${path}`, 400, () => foreignHost(path)]),
];

/** The answer to a code after the most wrong ones. */
async function tooManyCodes(): Promise<Reply> {
  const key = await at.gateway.key();
  for (let count = 0; count < 10; count += 1) await redeem(at.gateway, key, unknownCode());
  return redeem(at.gateway, key, unknownCode());
}

/** A charged request of the key. */
async function requestOf(key: TestKey | undefined): Promise<string> {
  if (key === undefined) return "req_0";
  at.provider.answer = usual;
  return (await chat(at.gateway, key)).id;
}

async function lastPageOfRequests(): Promise<Reply> {
  const key = await at.gateway.key();
  await requestOf(key);
  await requestOf(key);
  const { body } = await getOf("/v1/requests?limit=1", key);
  const { next } = body as { next: string };
  const reply = await getOf(`/v1/requests?limit=1&before=${next}`, key);
  expect(reply.body).toMatchObject({ data: [{ model: "small" }], next: null });
  return reply;
}

async function usageBy(by: string): Promise<Reply> {
  const key = await at.gateway.key();
  await requestOf(key);
  const reply = await getOf(`/v1/usage?by=${by}&since=2d`, key);
  expect(reply.body).toMatchObject({ data: [{ model: "small", requests: 1 }] });
  return reply;
}

function getOf(path: string, key?: TestKey): Promise<Reply> {
  return call(at.gateway, key, { path });
}

function countTokens(key: TestKey | undefined, changes: object = {}): Promise<Reply> {
  const body = askMessage(changes);
  return call(at.gateway, key, { path: "/v1/messages/count_tokens", body });
}

function health(): Promise<Reply> {
  return getOf("/healthz");
}

async function withoutStore(): Promise<Reply> {
  const probe = spyOn(at.gateway.app, "requireReadable").mockImplementation(() => {
    throw new Error("no such table");
  });
  try {
    return await health();
  } finally {
    probe.mockRestore();
  }
}

function foreignHost(path: string): Promise<Reply> {
  return call(at.gateway, undefined, { path, headers: { host: "a/b" } });
}

async function draining(work: () => Promise<Reply>): Promise<Reply> {
  at.gateway.app.phase = "refusing";
  try {
    return await work();
  } finally {
    at.gateway.app.phase = "serving";
  }
}

/** The second answer to a key that may send one request per minute. */
async function tooOften(
  ask: (key: TestKey) => Promise<Reply>,
  answer?: ProviderAnswer,
): Promise<Reply> {
  if (answer !== undefined) at.provider.answer = answer;
  const key = await at.gateway.key({ requestsPerMinute: 1 });
  expect((await ask(key)).status).toBe(200);
  return ask(key);
}

/** The answer to a request while another one holds the money of its account. */
async function whileHeld(ask: (key: TestKey) => Promise<Reply>): Promise<Reply> {
  // The first request of an account is decided by what it needs, although the account has nothing.
  const { body } = await ask(await at.gateway.key({ balance: 0n }));
  const { required_rub } = (body as { error: { required_rub: string } }).error;
  const key = await at.gateway.key({ balance: parseRoubles(required_rub) ?? 0n });
  const go = Promise.withResolvers<void>();
  at.provider.answer = async (peer, request) => {
    await go.promise;
    await refusal(500)(peer, request);
  };
  const sent = at.provider.requests.length;
  const first = ask(key);
  await at.provider.request(sent);
  const reply = await ask(key);
  expect(reply.body).toMatchObject({ error: { code: "balance_held", required_rub } });
  go.resolve();
  await first;
  return reply;
}

describe("the answers of the gateway match the description", () => {
  test.each(cases)("%s %d", async (operation, status, work) => {
    const reply = await work();
    expect(reply.status).toBe(status);
    // A provider's own answer may hold anything.
    const strictly = status !== 200 || operation.startsWith("GET /v1/");
    const description = await described();
    expect(differences(description, operation, reply, strictly)).toEqual([]);
  });

  test("every described answer is tested", async () => {
    const { operations } = await described();
    const answers = [...operations].flatMap(([operation, { responses }]) =>
      Object.keys(responses).map((status) => `${operation} ${status}`),
    );
    const tried = new Set(cases.map(([operation, status]) => `${operation} ${status}`));
    expect(answers.toSorted()).toEqual([...tried].toSorted());
  });

  test("a JSON answer has a header with its cost", async () => {
    at.provider.answer = usual;
    const reply = await chat(at.gateway, await at.gateway.key());
    expect(reply.headers.get("x-tollgate-cost-rub")).toBe("0.0018025");
    const { answer } = await described();
    expect(answer("POST /v1/chat/completions", 200).headers).toHaveProperty("x-tollgate-cost-rub");
  });
});

describe("the events of a chat stream match ChatChunk", () => {
  test.each<[string, ProviderAnswer, object]>([
    ["with usage", usual, { stream: true, stream_options: { include_usage: true } }],
    ["without usage", usual, { stream: true }],
    ["of a stream that fails", stream(helloEvent), { stream: true }],
  ])("%s", async (_, answer, changes) => {
    at.provider.answer = answer;
    const chunks = chunksOf(await chat(at.gateway, await at.gateway.key(), changes));
    expect(chunks.length).toBeGreaterThan(1);
    const { complaints } = await described();
    for (const chunk of chunks) expect(complaints("ChatChunk", chunk, true)).toEqual([]);
  });
});

describe("a gateway that rejects unknown fields answers with described fields only", () => {
  const more = { reasoning_content: "hm", refusal: null };
  const answer = json(completion({ system_fingerprint: "fp", choices: [choice(more)] }));

  test("in JSON", async () => {
    strict.provider.answer = answer;
    const reply = await chat(strict.gateway, await strict.gateway.key());
    const { complaints } = await described();
    expect(complaints("ChatAnswer", reply.body, true)).toEqual([]);
  });

  test("matches the description when it forwards unknown fields, too", async () => {
    at.provider.answer = answer;
    const { body } = await chat(at.gateway, await at.gateway.key());
    const { complaints } = await described();
    expect(complaints("ChatAnswer", body)).toEqual([]);
    expect(complaints("ChatAnswer", body, true)).not.toEqual([]);
  });
});

describe("the description refuses", () => {
  const error = { message: "no", type: "provider_error" };
  test.each<[string, unknown]>([
    ["ErrorBody", { error: { ...error, type: "server_error" } }],
    ["ErrorBody", error],
    ["BillingError", { error: { message: "insufficient balance", type: "billing_error" } }],
    ["AuthError", { error }],
    ["ChatAnswer", completion({ choices: [] })],
    ["ChatAnswer", completion({ choices: [choice({ content: null })] })],
    ["ChatAnswer", completion({ usage: undefined })],
    ["ChatChunk", completion()],
    ["Model", { id: "small", object: "model", created: 1, owned_by: "x", rub_input_per_1m: 0.5 }],
    ["Roubles", "1.50"],
    ["Roubles", 1],
  ])("as %s %j", async (name, value) => {
    const { complaints } = await described();
    expect(complaints(name, value)).not.toEqual([]);
  });
});
