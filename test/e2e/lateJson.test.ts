import { describe, expect, test } from "bun:test";
import { anthropicClient } from "../support/sdk/anthropic.ts";
import { langchainClients } from "../support/sdk/langchain.ts";
import { openaiClients } from "../support/sdk/openai.ts";
import { answerByModel } from "../support/sdk/provider.ts";
import { cost, expectedUsage, openSdkSetup, type WiredCall } from "../support/sdk/setup.ts";
import { failure } from "../support/sdk/situations.ts";
import { vercelAiClients, vercelAnthropicClient } from "../support/sdk/vercelAi.ts";
import { refusal, type ProviderAnswer } from "../support/provider/scriptedProvider.ts";
import { until } from "../support/until.ts";

/** Each SDK without retries, on each of its interfaces. */
const clients = [
  ...openaiClients,
  anthropicClient,
  ...vercelAiClients,
  vercelAnthropicClient,
  ...langchainClients,
].map((client) => [client.name, client] as const);

const setup = openSdkSetup("openai", { server: { sse_keepalive: "40ms" } });

/** Answers once the client has the 200 and waits for the JSON. */
function late(call: WiredCall, answer: ProviderAnswer): ProviderAnswer {
  return async (peer, request) => {
    await until("the client has its 200", () => call.wire.requests.length > 0);
    await answer(peer, request);
  };
}

describe("an answer in JSON that is late", () => {
  test.each(clients)("%s reads it after the white space, with its usage", async (_, client) => {
    const call = setup.call("whole");
    setup.provider.answer = late(call, answerByModel);
    const answer = { text: "Hello there", usage: expectedUsage, finish: "stop" };
    expect(await client.ask(call)).toEqual(answer);
    expect(await setup.records(call)).toMatchObject([{ status: "done", cost_rub: cost }]);
  });

  test.each(clients)(
    "%s raises an error if it fails, and nothing is charged",
    async (_, client) => {
      const call = setup.call("whole");
      setup.provider.answer = late(call, refusal(424));
      const error = await failure(client.ask(call));
      expect(error).toBeInstanceOf(Error);
      expect(call.wire.requests.map(({ status }) => status)).toEqual([200]);
      expect(await setup.records(call)).toMatchObject([{ status: "failed", cost_rub: "0" }]);
    },
  );
});
