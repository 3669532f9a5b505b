import { describe, expect, test } from "bun:test";
import { expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { embed } from "../../support/gateway/embeddingsCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  embeddingsUsage,
  embeds,
  geminiVectors,
  vectors,
} from "../../support/provider/embeddingsAnswers.ts";
import { json, refusal, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";

const at = openBefore(["one", "two", "google"], ({ one, two, google }) => {
  const settings = { kind: "embedding" };
  const gemini = { provider: "google", model: "gemini-embedding-001" };
  return {
    providers: { one, two, google: { base_url: google, kind: "gemini", api_key: "AIza-key" } },
    models: [
      { id: "vectors", routes: [{ provider: "one" }, { provider: "two" }], settings },
      { id: "gemini", routes: [gemini], settings },
      { id: "tuned", routes: [{ ...gemini, model: "tunedModels/a b" }], settings },
      { id: "mixed", routes: [gemini, { provider: "two" }], settings },
    ],
  };
});

const tokensOf = (prompt: number) => costOf({ prompt, completion: 0 });

describe("another route answers after", () => {
  test.each([
    ["500", refusal(500), "status 500"],
    ["429", refusal(429), "status 429"],
    ["401", refusal(401), "status 401"],
    ["404", refusal(404), "status 404"],
    ["an answer without vectors", json({ object: "list" }), "invalid answer"],
    ["a closed connection", (peer) => peer.fin(), "closed"],
  ] satisfies readonly (readonly [string, ProviderAnswer, string])[])(
    "%s",
    async (_, answer, outcome) => {
      const key = await at.gateway.key();
      at.providers.one.answer = answer;
      at.providers.two.answer = embeds();
      const reply = await embed(at.gateway, key);
      expect([reply.status, reply.text]).toEqual([200, JSON.stringify(vectors())]);
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { provider: "two", charge: tokensOf(embeddingsUsage.prompt_tokens) },
      ]);
      expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
        { provider: "one", outcome },
        { provider: "two", outcome: "ok" },
      ]);
    },
  );
});

const floats = [
  [0.25, -0.5, 1e-7],
  [1, 0, -3.25],
];

describe("over a provider of kind gemini", () => {
  test("the request becomes a batch", async () => {
    at.providers.google.answer = json(geminiVectors(floats, 9));
    const changes = {
      input: ["hello", "ж"],
      dimensions: 3,
      user: "u",
      taskType: "RETRIEVAL_QUERY",
    };
    await embed(at.gateway, await at.gateway.key(), { model: "gemini", ...changes });
    const [sent] = at.providers.google.requests;
    expect(sent?.requestLine).toBe(
      "POST /v1/models/gemini-embedding-001:batchEmbedContents HTTP/1.1",
    );
    expect(sent?.headers).toContainEqual(["x-goog-api-key", "AIza-key"]);
    const request = (text: string) => ({
      model: "models/gemini-embedding-001",
      content: { parts: [{ text }] },
      outputDimensionality: 3,
      taskType: "RETRIEVAL_QUERY",
    });
    expect(sent?.json).toEqual({ requests: [request("hello"), request("ж")] });
  });

  test("a tuned model keeps its collection, and its name stays one segment", async () => {
    at.providers.google.answer = json(geminiVectors([[1]], 9));
    await embed(at.gateway, await at.gateway.key(), { model: "tuned" });
    const [sent] = at.providers.google.requests;
    expect(sent?.requestLine).toBe("POST /v1/tunedModels/a%20b:batchEmbedContents HTTP/1.1");
    expect(sent?.json).toMatchObject({ requests: [{ model: "tunedModels/a b" }] });
  });

  test.each([
    ["numbers", {}, floats],
    [
      "base64",
      { encoding_format: "base64" },
      floats.map((vector) => {
        const bytes = Buffer.alloc(4 * vector.length);
        for (const [at, number] of vector.entries()) bytes.writeFloatLE(number, 4 * at);
        return bytes.toString("base64");
      }),
    ],
  ])("the answer has OpenAI's form, with %s", async (_, changes, embeddings) => {
    const key = await at.gateway.key();
    at.providers.google.answer = json(geminiVectors(floats, 9));
    const reply = await embed(at.gateway, key, { model: "gemini", input: ["a", "b"], ...changes });
    expect([reply.status, reply.body]).toEqual([
      200,
      {
        object: "list",
        data: embeddings.map((embedding, index) => ({ object: "embedding", index, embedding })),
        model: "gemini",
        usage: { prompt_tokens: 9, total_tokens: 9 },
      },
    ]);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { charge: tokensOf(9), estimated: false, provider: "google" },
    ]);
  });

  test("an answer without usage is estimated, and shows the estimate", async () => {
    const key = await at.gateway.key();
    at.providers.google.answer = json(geminiVectors([[1], [2]]));
    const reply = await embed(at.gateway, key, { model: "gemini", input: ["12345", "1"] });
    expect(reply.body).toMatchObject({ usage: { prompt_tokens: 3, total_tokens: 3 } });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { charge: tokensOf(3), estimated: true },
    ]);
  });

  const other = "the answer of a failed provider";
  test.each([
    ["fewer vectors", geminiVectors([[1]], 1), "invalid answer"],
    ["more vectors", geminiVectors([[1], [2], [3]], 1), "invalid answer"],
    ["no vectors", {}, "invalid answer"],
    ["an empty vector", geminiVectors([[1], []], 1), "invalid answer"],
    ["a vector of texts", { embeddings: [{ values: ["1"] }, { values: [1] }] }, "invalid answer"],
    ["an error", { error: { code: 500, message: other } }, "reported failure"],
    ["an error in a list", [{ error: { code: 500, message: other } }], "reported failure"],
  ])("an answer with %s is a failure", async (_, answer, outcome) => {
    const key = await at.gateway.key();
    at.providers.google.answer = json(answer);
    const reply = await embed(at.gateway, key, { model: "gemini", input: ["a", "b"] });
    expectRefusal(reply, noProvider);
    expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([{ outcome }]);
  });

  test.each([
    ["tokens", { input: [1, 2] }, "input must be text for this model"],
    ["arrays of tokens", { input: [[1], [2]] }, "input must be text for this model"],
    ["another field", { truncate: "END" }, "truncate is not supported"],
    ["a task type that is no text", { taskType: 5 }, "taskType must be a string"],
  ])("%s are refused before anything is held", async (_, changes, message) => {
    const key = await at.gateway.key({ balance: 10_000_000n });
    const reply = await embed(at.gateway, key, { model: "gemini", ...changes });
    expectRefusal(reply, [400, "invalid_request_error", message]);
    expect(at.providers.google.requests).toEqual([]);
  });

  test("a request that it does not support goes to the next route", async () => {
    at.providers.two.answer = embeds();
    const reply = await embed(at.gateway, await at.gateway.key(), {
      model: "mixed",
      input: [1, 2],
    });
    expect(reply.status).toBe(200);
    expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([{ provider: "two" }]);
  });
});
