import { createOpenAI as createOpenAIToday } from "@ai-sdk/openai";
import { streamText as streamTextToday } from "ai";
import { createOpenAI } from "ai-sdk-openai-2";
import { createOpenAICompatible } from "ai-sdk-openai-compatible-1";
import { streamText } from "ai-5";
import { describe, expect, test } from "bun:test";
import OpenAI from "openai-6";
import type { Call } from "../support/sdk/client.ts";
import { langchainClients } from "../support/sdk/langchain.ts";
import { openaiClients } from "../support/sdk/openai.ts";
import { beginning } from "../support/sdk/provider.ts";
import { openSdkSetup } from "../support/sdk/setup.ts";
import { prove } from "../support/sdk/situations.ts";
import { connectionOf, vercelAiClients } from "../support/sdk/vercelAi.ts";

prove([...openaiClients, ...vercelAiClients, ...langchainClients]);

/** Clients of an earlier version raise the end of a broken stream by another part of it than the current ones. */
describe("a stream that broke off looks whole to no client:", () => {
  const world = openSdkSetup();
  const words = "upstream provider failure";

  test.each([
    ["chat", (call: Call) => createOpenAI(connectionOf(call)).chat(call.model)],
    ["responses", (call: Call) => createOpenAI(connectionOf(call)).responses(call.model)],
    [
      "chat of a compatible server",
      (call: Call) =>
        createOpenAICompatible({ name: "tollgate", ...connectionOf(call) })(call.model),
    ],
  ] as const)("the AI SDK 5, %s", async (_, modelOf) => {
    const call = world.call("cut");
    const errors: unknown[] = [];
    const result = streamText({
      model: modelOf(call),
      prompt: "hello",
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    });
    expect((await Array.fromAsync(result.textStream)).join("")).toBe(beginning);
    expect(errors.length).toBeGreaterThan(0);
    for (const error of errors) expect(Bun.inspect(error)).toContain(words);
  });

  const client = ({ baseUrl, apiKey, fetch }: Call): OpenAI =>
    new OpenAI({ baseURL: baseUrl, apiKey, fetch, maxRetries: 0 });

  test.each([
    [
      "chat",
      ({ model, ...call }: Call) =>
        client({ model, ...call }).chat.completions.create({
          model,
          messages: [{ role: "user", content: "hello" }],
          stream: true,
        }),
    ],
    [
      "responses",
      ({ model, ...call }: Call) =>
        client({ model, ...call }).responses.create({ model, input: "hello", stream: true }),
    ],
  ] as const)("the openai client 6, %s", async (_, ask) => {
    const stream: AsyncIterable<unknown> = await ask(world.call("cut"));
    // oxlint-disable-next-line typescript/await-thenable -- an expectation of a rejection is a promise
    await expect(Array.fromAsync(stream)).rejects.toThrow(words);
  });

  test.each(["chat", "responses"] as const)(
    "the AI SDK, read by its texts alone, tells it of %s by onError, and by the finish reason",
    async (face) => {
      const call = world.call("cut");
      const errors: unknown[] = [];
      const result = streamTextToday({
        model: createOpenAIToday(connectionOf(call))[face](call.model),
        prompt: "hello",
        maxRetries: 0,
        onError: ({ error }) => void errors.push(error),
      });
      expect((await Array.fromAsync(result.textStream)).join("")).toBe(beginning);
      // The end of a chat tells it twice, because no one form of it is seen by all clients.
      expect(errors.length).toBe(face === "chat" ? 2 : 1);
      for (const error of errors) expect(String(error)).toContain("upstream provider failure");
      expect(await result.finishReason).toBe("error");
    },
  );
});
