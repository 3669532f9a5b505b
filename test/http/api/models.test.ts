import { describe, expect, spyOn, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import {
  badKey,
  call,
  chat,
  expectRefusal,
  unknownModel,
  type ExpectedError,
} from "../../support/gateway/chatCalls.ts";
import { prices } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";

const modelIds = ["small", "org/large", "org/deep/er", "odd+id%2F", "ж"];
const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [
    ...modelIds.map((id) => ({ id, routes: [{ provider: "local" }] })),
    {
      id: "gift",
      routes: [{ provider: "local" }],
      settings: {
        free: true,
        context_tokens: 8192,
        owned_by: "the people",
        rub_input_per_1m: 0,
        rub_output_per_1m: 0,
        rub_cached_input_per_1m: 0,
        rub_cache_write_per_1m: 0,
      },
    },
    {
      id: "vectors",
      routes: [{ provider: "local" }],
      settings: { kind: "embedding", context_tokens: 8192 },
    },
  ],
}));

const notFound: ExpectedError = [404, "invalid_request_error", "not found"];

/** What the config says of each model, and the default of `context_tokens`. */
const known = {
  context_window: 200_000,
  max_output_tokens: 1000,
  endpoints: ["chat", "responses", "messages"],
};

function shown(id: string): object {
  return {
    id,
    object: "model",
    created: expect.any(Number) as number,
    owned_by: "local",
    rub_input_per_1m: prices.input,
    rub_output_per_1m: prices.output,
    ...known,
  };
}

const gift = {
  id: "gift",
  object: "model",
  created: expect.any(Number) as number,
  owned_by: "the people",
  rub_input_per_1m: 0,
  rub_output_per_1m: 0,
  ...known,
  context_window: 8192,
};

const vectors = {
  id: "vectors",
  object: "model",
  created: expect.any(Number) as number,
  owned_by: "local",
  rub_input_per_1m: prices.input,
  rub_output_per_1m: 0,
  context_window: 8192,
  endpoints: ["embeddings"],
};

function get(path: string, key: Pick<TestKey, "key"> | undefined, method = "GET") {
  return call(at.gateway, key, { path, method });
}

async function idsFor(key: TestKey): Promise<readonly string[]> {
  const { body } = await get("/v1/models", key);
  return (body as { data: { id: string }[] }).data.map(({ id }) => id);
}

describe("GET /v1/models", () => {
  test("lists every model with its prices, in the order of the config", async () => {
    const reply = await get("/v1/models", await at.gateway.key());
    expect([reply.status, reply.headers.get("content-type")]).toEqual([200, "application/json"]);
    expect(reply.body).toEqual({ object: "list", data: [...modelIds.map(shown), gift, vectors] });
  });

  test.each(["limit=1", "limit=no", "after_id=unknown", "x=1", "limit=1&limit=2"])(
    "has no pages, and ignores the query %s",
    async (query) => {
      const { body } = await get(`/v1/models?${query}`, await at.gateway.key());
      expect(body).toEqual({ object: "list", data: [...modelIds.map(shown), gift, vectors] });
    },
  );

  test("shows the time since which this config is in force, in whole seconds", async () => {
    const createdNow = async () => {
      const list = (await get("/v1/models", await at.gateway.key())).body as { data: object[] };
      const one = (await get("/v1/models/org/large", await at.gateway.key())).body as object;
      return new Set([...list.data, one].map((model) => "created" in model && model.created));
    };
    const before = await createdNow();
    const startedAt = Math.floor(at.gateway.clock.epochMs() / 1000);
    expect([...before].every((created) => Number.isInteger(created))).toBe(true);
    expect(before.size).toBe(1);
    at.gateway.clock.advance(90_000);
    expect(await createdNow()).toEqual(before);
    const { app } = at.gateway;
    app.reload(app.gateway.current.config);
    expect([...(await createdNow())][0]).toBeGreaterThanOrEqual(startedAt + 90);
  });

  test("shows an account without money the same, and charges nothing", async () => {
    const key = await at.gateway.key({ balance: 0n });
    expect(await idsFor(key)).toEqual([...modelIds, "gift", "vectors"]);
    expect(await at.gateway.records(key, 0)).toEqual([]);
  });

  test("refuses a client without a valid key, for the list and for any one model", async () => {
    for (const path of ["/v1/models", "/v1/models/small", "/v1/models/unknown"]) {
      expectRefusal(await get(path, undefined), badKey);
      expectRefusal(await get(path, { key: "sk-tg-wrong" }), badKey);
    }
  });

  test.each([
    [["small"], ["small"]],
    [["org/*"], ["org/large", "org/deep/er"]],
    [["*"], [...modelIds, "gift", "vectors"]],
    [
      ["org/*er", "gift"],
      ["org/deep/er", "gift"],
    ],
    [["s*l", "nothing"], ["small"]],
    [["small*small", "mall"], []],
  ])("lists for a key limited to %j only %j", async (models, ids) => {
    expect(await idsFor(await at.gateway.key({ models }))).toEqual(ids);
  });
});

describe("GET /v1/models/{id}", () => {
  test.each([
    ["small", "small"],
    ["org/large", "org/large"],
    ["org%2Flarge", "org/large"],
    ["org%2flarge", "org/large"],
    ["org/deep/er", "org/deep/er"],
    ["org%2Fdeep/er", "org/deep/er"],
    ["%73mall", "small"],
    ["odd+id%252F", "odd+id%2F"],
    ["%D0%B6", "ж"],
    ["small?x=1", "small"],
    ["small?limit=no", "small"],
  ])("%s is the model %s", async (path, id) => {
    const reply = await get(`/v1/models/${path}`, await at.gateway.key());
    expect([reply.status, reply.body]).toEqual([200, shown(id)]);
  });

  test.each(["unknown", "Small", "org", "org/", "org%2F", "small/", "%", "%zz", "", "gift%00"])(
    "%s is no model",
    async (path) => {
      expectRefusal(await get(`/v1/models/${path}`, await at.gateway.key()), unknownModel);
    },
  );

  test("answers 404 for a model that the key may not use, and so does a chat", async () => {
    const key = await at.gateway.key({ models: ["org/*"] });
    expectRefusal(await get("/v1/models/small", key), unknownModel);
    expectRefusal(await chat(at.gateway, key), unknownModel);
    expect(at.providers.local.requests).toHaveLength(0);
    at.providers.local.answer = usual;
    expect((await get("/v1/models/org/large", key)).status).toBe(200);
    expect((await chat(at.gateway, key, { model: "org/large" })).status).toBe(200);
  });
});

describe("a free model", () => {
  test("is served to an account without money, and writes a ledger row of 0", async () => {
    at.providers.local.answer = usual;
    const key = await at.gateway.key({ balance: 0n });
    const reply = await chat(at.gateway, key, { model: "gift" });
    expect([reply.status, reply.headers.get("x-tollgate-cost-rub")]).toEqual([200, "0"]);
    const { id = 0 } = (await at.gateway.store.accounts.find(key.account)) ?? {};
    expect(await at.gateway.store.ledger.history(id, 10)).toMatchObject([
      { kind: "charge", amount: 0n, ref: `req:${reply.id}` },
    ]);
  });
});

describe("an unknown path", () => {
  const paths = [
    "/v1",
    "/v1/",
    "/v1/chat",
    "/v1/chat/completions/",
    "/v1/Chat/Completions",
    "/v1/chat/completions;x",
    "/v1/models/../admin",
    "/v2/models",
    "/V1/models",
    "/healthz/",
    "/healthz/x",
    "/metrics",
    "/admin",
    "/%2e%2e/etc/passwd",
    "/v1%2Fmodels",
  ];
  test.each(paths)("GET %s", async (path) => {
    expectRefusal(await get(path, await at.gateway.key()), notFound);
    expectRefusal(await get(path, undefined), notFound);
  });
});

describe("GET /healthz", () => {
  test("needs no key and shows the version", async () => {
    const reply = await get("/healthz", undefined);
    expect([reply.status, reply.body]).toEqual([
      200,
      { status: "ok", version: expect.any(String) },
    ]);
  });

  test("is unavailable when the store cannot be read", async () => {
    const probe = spyOn(at.gateway.app, "requireReadable").mockImplementation(() => {
      throw new Error("no such table");
    });
    const reply = await get("/healthz", undefined);
    probe.mockRestore();
    expect([reply.status, reply.body]).toEqual([503, { status: "unavailable" }]);
    expect((await get("/healthz", undefined)).status).toBe(200);
  });
});

describe("a gateway that drains", () => {
  test("is unavailable on /healthz, answers 502 under /v1, and closes the connection", async () => {
    const { app } = at.gateway;
    const key = await at.gateway.key();
    app.phase = "refusing";
    try {
      const health = await get("/healthz", undefined);
      expect([health.status, health.body]).toEqual([503, { status: "draining" }]);
      const refusal: ExpectedError = [502, "provider_error", "service temporarily unavailable"];
      const replies = [
        await chat(at.gateway, key),
        await get("/v1/models", key),
        await get("/v1/models", undefined),
      ];
      for (const reply of replies) {
        expectRefusal(reply, refusal);
        expect(reply.headers.get("connection")).toBe("close");
      }
    } finally {
      app.phase = "serving";
    }
    expect((await get("/v1/models", key)).status).toBe(200);
  });
});
