import { describe, expect, test } from "bun:test";
import { call, expectRefusal, unknownModel } from "../../support/gateway/chatCalls.ts";
import { embed, embeddingsAsk as ask } from "../../support/gateway/embeddingsCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { Section } from "../../support/gateway/gatewayConfig.ts";
import { embeds } from "../../support/provider/embeddingsAnswers.ts";
import type { FieldRow } from "../chat/fieldRows.ts";
import { embeddingsRows } from "./embeddingsRows.ts";

function open(api: Section) {
  return openBefore(["local"], ({ local }) => ({
    providers: { local },
    models: [
      { id: "vectors", routes: [{ provider: "local" }], settings: { kind: "embedding" } },
      { id: "small", routes: [{ provider: "local" }] },
    ],
    sections: { api },
  }));
}

const at = open({ max_embedding_inputs: 3, refused_fields: ["input_type"] });
const strict = open({ unknown_fields: "reject" });

const accepted = undefined;

describe("a body", () => {
  test.each(embeddingsRows)("%j", async (body, message) => {
    at.providers.local.answer = embeds();
    const reply = await embed(at.gateway, await at.gateway.key(), JSON.stringify(body));
    if (message === undefined)
      expect([reply.status, reply.text]).toMatchObject([200, expect.any(String)]);
    else expectRefusal(reply, [400, "invalid_request_error", message]);
    expect(at.providers.local.requests).toHaveLength(message === undefined ? 1 : 0);
  });

  test.each([
    [ask({ user: "u", dimensions: 2, encoding_format: "base64" }), accepted],
    [ask({ truncate: true }), "truncate is not supported"],
    [ask({ stream: false }), "stream is not supported"],
  ] satisfies readonly FieldRow[])("%j where unknown fields are refused", async (body, message) => {
    strict.providers.local.answer = embeds();
    const reply = await embed(strict.gateway, await strict.gateway.key(), JSON.stringify(body));
    if (message === undefined) expect(reply.status).toBe(200);
    else expectRefusal(reply, [400, "invalid_request_error", message]);
  });

  test("may have 2,048 inputs by default", async () => {
    strict.providers.local.answer = embeds();
    const key = await strict.gateway.key();
    const input = Array.from({ length: 2048 }, () => "a");
    expect((await embed(strict.gateway, key, { input })).status).toBe(200);
    expectRefusal(await embed(strict.gateway, key, { input: [...input, "a"] }), [
      400,
      "invalid_request_error",
      "input must contain at most 2048 items",
    ]);
  });

  test("with an unknown model is a 404", async () => {
    const key = await at.gateway.key({ models: ["small"] });
    expectRefusal(await embed(at.gateway, key, { model: "nobody" }), unknownModel);
    expectRefusal(await embed(at.gateway, key), unknownModel);
  });
});

const messages = [{ role: "user", content: "hello" }];

test.each([
  ["/v1/chat/completions", { messages }],
  ["/v1/responses", { input: "hello" }],
  ["/v1/messages", { messages, max_tokens: 1 }],
  ["/v1/messages/count_tokens", { messages }],
])("%s refuses an embedding model", async (path, fields) => {
  const body = { model: "vectors", ...fields };
  const reply = await call(at.gateway, await at.gateway.key(), { path, body });
  expect(reply.status).toBe(400);
  const message = "model is an embedding model: use /v1/embeddings";
  expect(reply.body).toMatchObject({ error: { type: "invalid_request_error", message } });
});
