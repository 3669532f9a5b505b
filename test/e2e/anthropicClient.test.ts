import { describe, expect, test } from "bun:test";
import Anthropic, { NotFoundError } from "@anthropic-ai/sdk";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import {
  messageEvent,
  startEvent,
  endEvent,
  stopEvent,
} from "../support/provider/anthropicAnswers.ts";
import { json, startProvider, stream } from "../support/provider/scriptedProvider.ts";
import { anthropicClient } from "../support/sdk/anthropic.ts";
import { scriptOf } from "../support/sdk/provider.ts";
import { cost } from "../support/sdk/setup.ts";
import { prove } from "../support/sdk/situations.ts";
import { vercelAnthropicClient } from "../support/sdk/vercelAi.ts";

const kinds = ["anthropic", "openai"] as const;

for (const kind of kinds) prove([anthropicClient, vercelAnthropicClient], kind);

describe("the anthropic client", () => {
  const thinking = { type: "thinking", thinking: "Think.", signature: "signed" } as const;
  const provider = startProvider((peer, request) => {
    const answer = request.requestLine.includes("/count_tokens")
      ? json({ input_tokens: 42 })
      : json(scriptOf(request).whole({ text: "Hello there" }));
    return answer(peer, request);
  });
  const base_url = `http://127.0.0.1:${provider.port}/v1`;
  const setup = openBinaryBefore(
    {
      providers: Object.fromEntries(kinds.map((kind) => [kind, { kind, base_url }])),
      models: kinds.map((id) => ({ id, routes: [{ provider: id, responses: false }] })),
    },
    provider,
  );
  const connect = (credentials: { apiKey?: string | null; authToken?: string | null }) =>
    new Anthropic({
      baseURL: setup.gateway.url,
      apiKey: null,
      authToken: null,
      maxRetries: 0,
      ...credentials,
    });
  const client = () => connect({ apiKey: setup.key });
  const hello = { role: "user" as const, content: "hello" };
  const bodyOf = (model: string) => ({ model, max_tokens: 100, messages: [hello] });

  const credentials = [
    ["an API key, in x-api-key", (key: string) => ({ apiKey: key })],
    ["a token, in authorization", (key: string) => ({ authToken: key })],
  ] as const;
  test.each(credentials)("may send the key as %s", async (_, credentialsOf) => {
    const { response } = await connect(credentialsOf(setup.key))
      .messages.create(bodyOf("anthropic"))
      .withResponse();
    expect(response.headers.get("x-tollgate-cost-rub")).toBe(cost);
    expect(provider.requests.at(-1)?.text).not.toContain(setup.key);
  });

  test.each(kinds)("sends an image to kind %s", async (kind) => {
    const data = Buffer.from("an image").toString("base64");
    const source = { type: "base64" as const, media_type: "image/png" as const, data };
    const content = [
      { type: "text" as const, text: "What is it?" },
      { type: "image" as const, source },
    ];
    const answer = await client().messages.create({
      ...bodyOf(kind),
      messages: [{ role: "user", content }],
    });
    expect(answer).toMatchObject({
      type: "message",
      content: [{ type: "text", text: "Hello there" }],
      stop_reason: "end_turn",
    });
    expect(answer._request_id).toStartWith("req_");
    expect(await setup.gateway.request(answer._request_id ?? "")).toMatchObject({
      status: "done",
      endpoint: "messages",
      provider: kind,
      cost_rub: cost,
    });
    const image =
      kind === "anthropic"
        ? { type: "image", source }
        : { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } };
    expect(provider.requests.at(-1)?.json["messages"]).toEqual([
      { role: "user", content: [content[0], image] },
    ]);
  });

  test("sends betas to a provider of kind anthropic, and gets its signed thinking back", async () => {
    const usual = provider.answer;
    provider.answer = stream(
      startEvent,
      messageEvent("content_block_start", {
        index: 0,
        content_block: { ...thinking, thinking: "", signature: "" },
      }),
      messageEvent("content_block_delta", {
        index: 0,
        delta: { type: "thinking_delta", thinking: "Think." },
      }),
      messageEvent("content_block_delta", {
        index: 0,
        delta: { type: "signature_delta", signature: "signed" },
      }),
      messageEvent("content_block_stop", { index: 0 }),
      endEvent(),
      stopEvent,
    );
    const betas = ["interleaved-thinking-2025-05-14", "future-2030-01-01"];
    const answer = await client()
      .beta.messages.stream({ ...bodyOf("anthropic"), betas })
      .finalMessage();
    provider.answer = usual;
    expect(answer.content).toEqual([thinking]);
    expect(provider.requests.at(-1)?.headers).toContainEqual(["anthropic-beta", betas.join(",")]);
  });

  test.each([
    ["anthropic", 42, null],
    ["openai", expect.any(Number), "true"],
  ])("counts tokens in front of kind %s, without a charge", async (model, tokens, estimated) => {
    // Without what is held: an earlier request may still release its hold.
    const balance = async () =>
      ((await setup.gateway.cli.json("balance", "show", "alice")) as { balance_rub: string })
        .balance_rub;
    const before = await balance();
    const { data, response } = await client()
      .messages.countTokens({ model, messages: [hello] })
      .withResponse();
    expect(data).toEqual({ input_tokens: tokens });
    expect(data.input_tokens).toBeGreaterThan(0);
    expect(response.headers.get("x-tollgate-estimated")).toBe(estimated);
    expect(await balance()).toEqual(before);
  });

  test("lists the models, and retrieves one that there is", async () => {
    const listed = await Array.fromAsync(client().models.list());
    expect(listed).toMatchObject(kinds.map((id) => ({ id, type: "model", display_name: id })));
    expect(await client().models.retrieve("openai")).toMatchObject({ id: "openai", type: "model" });
    const missing: unknown = await client()
      .models.retrieve("nobody")
      .catch((error: unknown) => error);
    expect(missing).toBeInstanceOf(NotFoundError);
  });
});
