import { createOpenAI } from "@ai-sdk/openai";
import { streamText } from "ai";
import { describe, expect, test } from "bun:test";
import { beginning } from "../support/sdk/provider.ts";
import { prove } from "../support/sdk/situations.ts";
import { connectionOf, vercelAiClients } from "../support/sdk/vercelAi.ts";
import { openSdkSetup } from "../support/sdk/setup.ts";

prove(vercelAiClients);

describe("the AI SDK, read by its texts alone", () => {
  const world = openSdkSetup();

  test.each(["chat", "responses"] as const)(
    "tells that a stream of %s broke off by onError, and by the finish reason",
    async (face) => {
      const call = world.call("cut");
      const errors: unknown[] = [];
      const result = streamText({
        model: createOpenAI(connectionOf(call))[face](call.model),
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
