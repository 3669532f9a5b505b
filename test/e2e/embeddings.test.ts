import { createOpenAI } from "@ai-sdk/openai";
import { FakeVectorStore } from "@langchain/core/utils/testing";
import { OpenAIEmbeddings } from "@langchain/openai";
import { embedMany } from "ai";
import { describe, expect, test } from "bun:test";
import OpenAI, { BadRequestError } from "openai";
import { formatRoubles } from "../../src/lib/money.ts";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import { costOf } from "../support/gateway/gatewayConfig.ts";
import { json, startProvider, type ReceivedRequest } from "../support/provider/scriptedProvider.ts";

/** Counts the letters of each text, so similar texts get similar vectors. Ten tokens are billed for each input. */
const provider = startProvider((peer, request) => {
  const { input, encoding_format: format } = request.json;
  const inputs = Array.isArray(input) && typeof input[0] !== "number" ? input : [input];
  const data = inputs.map((one: unknown, index) => {
    const vector = vectorOf(one);
    const embedding = format === "base64" ? base64Of(vector) : vector;
    return { object: "embedding", index, embedding };
  });
  const tokens = 10 * inputs.length;
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  return json({ object: "list", data, model: "letters", usage })(peer, request);
});

function vectorOf(input: unknown): number[] {
  const text = String(input).toLowerCase();
  const letters = Array.from("abcdefghijklmnopqrstuvwxyz0123456789");
  return letters.map((letter) => text.split(letter).length - 1);
}

function base64Of(vector: readonly number[]): string {
  const bytes = Buffer.alloc(4 * vector.length);
  for (const [at, number] of vector.entries()) bytes.writeFloatLE(number, 4 * at);
  return bytes.toString("base64");
}

const baseUrl = `http://127.0.0.1:${provider.port}/v1`;
const setup = openBinaryBefore(
  {
    providers: { local: baseUrl },
    models: [
      {
        id: "vectors",
        routes: [{ provider: "local", model: "letters" }],
        settings: { kind: "embedding" },
      },
      { id: "small", routes: [{ provider: "local" }] },
    ],
  },
  provider,
);

function lastRequest(): ReceivedRequest | undefined {
  return provider.requests.at(-1);
}

describe("the official client", () => {
  const client = () =>
    new OpenAI({ baseURL: `${setup.gateway.url}/v1`, apiKey: setup.key, maxRetries: 0 });

  // Without a format this client asks for base64, and decodes it.
  test.each([
    ["no format", {}, "base64"],
    ["floats", { encoding_format: "float" }, "float"],
  ] as const)("gets vectors with %s, and is charged exactly", async (_, format, sent) => {
    const input = ["toll", "gate"];
    const { data, response } = await client()
      .embeddings.create({ model: "vectors", input, ...format })
      .withResponse();
    expect(data.data.map(({ embedding }) => embedding)).toEqual(input.map(vectorOf));
    expect(data.usage).toEqual({ prompt_tokens: 20, total_tokens: 20 });
    expect(lastRequest()?.json).toEqual({ model: "letters", input, encoding_format: sent });
    const charge = formatRoubles(costOf({ prompt: 20, completion: 0 }));
    expect(response.headers.get("x-tollgate-cost-rub")).toBe(charge);
    const id = response.headers.get("x-request-id") ?? "";
    expect(await setup.gateway.request(id)).toMatchObject({
      endpoint: "embeddings",
      status: "done",
      cost_rub: charge,
    });
  });

  test("gets base64 as the provider wrote it", async () => {
    const asked = { model: "vectors", input: "toll", encoding_format: "base64" } as const;
    const { data } = await client().embeddings.create(asked);
    expect(data[0]?.embedding as unknown).toBe(base64Of(vectorOf("toll")));
  });

  test("may send tokens", async () => {
    const one = await client().embeddings.create({ model: "vectors", input: [1, 2, 3] });
    expect(one.data).toHaveLength(1);
    const two = await client().embeddings.create({ model: "vectors", input: [[1], [2, 3]] });
    expect(two.data).toHaveLength(2);
  });

  test("is told to use another call for a chat model", async () => {
    const failure: unknown = await client()
      .embeddings.create({ model: "small", input: "x" })
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(BadRequestError);
    expect(String(failure)).toContain("use /v1/chat/completions");
  });
});

const texts = ["the toll road ends here", "zebras and quokkas", "a gate at the toll road"];

test("LangChain fills a vector store, and finds what is similar", async () => {
  const embeddings = new OpenAIEmbeddings({
    model: "vectors",
    apiKey: setup.key,
    maxRetries: 0,
    configuration: { baseURL: `${setup.gateway.url}/v1` },
  });
  const store = await FakeVectorStore.fromTexts(texts, {}, embeddings);
  const found = await store.similaritySearch("toll road gate", 2);
  expect(found.map(({ pageContent }) => pageContent)).toEqual([
    "a gate at the toll road",
    "the toll road ends here",
  ]);
  const [nearest] = await store.asRetriever(1).invoke("a quokka");
  expect(nearest?.pageContent).toBe("zebras and quokkas");
});

test("the AI SDK embeds several texts", async () => {
  const openai = createOpenAI({ baseURL: `${setup.gateway.url}/v1`, apiKey: setup.key });
  const { embeddings, usage } = await embedMany({
    model: openai.embeddingModel("vectors"),
    values: texts,
    maxRetries: 0,
  });
  expect(embeddings).toEqual(texts.map(vectorOf));
  expect(usage.tokens).toBe(30);
});
