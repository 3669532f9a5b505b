import { expect, test } from "bun:test";
import {
  endEvent,
  messageEvent,
  pingEvent,
  startEvent,
  stopEvent,
  textEvent,
} from "../../support/provider/anthropicAnswers.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { piece, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import { beginChat } from "../../support/gateway/steppedChat.ts";

const opened = openBefore(["claude"], ({ claude }) => ({
  providers: { claude: { base_url: claude, kind: "anthropic" } },
  models: [{ id: "small", routes: [{ provider: "claude", responses: false }] }],
  sections: { billing: { disconnect_grace: "120ms" } },
}));
const at = {
  get gateway() {
    return opened.gateway;
  },
  provider: opened.providers.claude,
};
/** The first event of a stream has the prompt's usage. */
const prompt = { prompt: 20, cached: 5, cacheWrite: 3 };

test("a client that disconnects pays the prompt exactly, and an estimate of the completion", async () => {
  const { key, disconnect, client, provide, givenUp } = await beginChat(at, { stream: true });
  await provide(streamHead, piece(startEvent), piece(textEvent("Hello there, you")));
  await client.seen("Hello");
  await disconnect();
  await provide(piece(pingEvent));
  await givenUp;
  expect(await at.gateway.records(key, 1)).toMatchObject([
    // 16 bytes are an estimate of 4 tokens.
    { status: "cancelled", estimated: true, charge: costOf({ ...prompt, completion: 4 }) },
  ]);
});

test("a count during the answer is not taken for the final one", async () => {
  const count = messageEvent("message_delta", {
    delta: { stop_reason: null },
    usage: { output_tokens: 1 },
  });
  const { key, disconnect, client, provide, givenUp } = await beginChat(at, { stream: true });
  await provide(streamHead, ...[startEvent, textEvent("Hello "), count].map(piece));
  await provide(piece(textEvent("there, you")));
  await client.seen("you");
  await disconnect();
  await givenUp;
  expect(await at.gateway.records(key, 1)).toMatchObject([
    // The counted token, and two for the text after it.
    { status: "cancelled", estimated: true, charge: costOf({ ...prompt, completion: 3 }) },
  ]);
});

test("a client that disconnects pays exactly when the provider ends within the grace", async () => {
  const { key, disconnect, client, provide } = await beginChat(at, { stream: true });
  await provide(streamHead, piece(startEvent), piece(textEvent("Hello")));
  await client.seen("Hello");
  await disconnect();
  await provide(piece(endEvent()), piece(stopEvent), streamEnd);
  expect(await at.gateway.records(key, 1)).toMatchObject([
    { status: "cancelled", estimated: false, charge: costOf({ ...prompt, completion: 7 }) },
  ]);
});
