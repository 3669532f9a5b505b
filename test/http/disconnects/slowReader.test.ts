import { describe, expect, test } from "bun:test";
import { helloEvent } from "../../support/provider/chatAnswers.ts";
import { ask } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw, type RawClient } from "../../support/gateway/rawClient.ts";
import { piece, raw, streamHead } from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { until } from "../../support/until.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

const patient = openOneModelBefore({ billing: { disconnect_grace: "50ms" } });
const shortTimeouts = openOneModelBefore(
  {},
  { total_timeout: "700ms", first_byte_timeout: "500ms", idle_timeout: "300ms" },
  { max_output_tokens: 2 },
);

/** Many bytes but little text. Otherwise the gateway cuts the stream as endless. */
const longEvent = piece(chatEvent({ content: "word" }, null, { padding: "x".repeat(65_536) }));
const FLOOD_BYTES = 100 * 1024 * 1024;
/** More than the buffers of two connections, and much less than the flood. */
const BUFFERED_BYTES_MAX = 40 * 1024 * 1024;

/** A stream whose provider sends as fast as possible and whose client stops reading after the first content. */
async function stalled(
  at: typeof patient,
): Promise<{ key: TestKey; client: RawClient; providerClosed: Promise<void> }> {
  let sentBytes = 0;
  const providerClosed = Promise.withResolvers<void>();
  const paused = Promise.withResolvers<void>();
  at.provider.answer = async (peer, request) => {
    void peer.closed.then(providerClosed.resolve);
    await raw(streamHead, piece(helloEvent))(peer, request);
    await paused.promise;
    while (sentBytes < FLOOD_BYTES) {
      await peer.send(longEvent);
      sentBytes += longEvent.byteLength;
    }
  };
  const key = await at.gateway.key();
  const client = await connectRaw(at.gateway.port);
  client.send(chatBytes(key.key, JSON.stringify(ask({ stream: true }))));
  await client.seen("Hello");
  client.pause();
  paused.resolve();
  let seenBytes = -1;
  let sameSinceMs = performance.now();
  await until("the provider has to wait", () => {
    if (sentBytes !== seenBytes) sameSinceMs = performance.now();
    seenBytes = sentBytes;
    return sentBytes > 0 && performance.now() - sameSinceMs > 150;
  });
  expect(sentBytes).toBeLessThan(BUFFERED_BYTES_MAX);
  return { key, client, providerClosed: providerClosed.promise };
}

describe("a client that does not read", () => {
  test("makes its provider wait, and pays an estimate when it disconnects", async () => {
    const { key, client, providerClosed } = await stalled(patient);
    client.reset();
    await providerClosed;
    expect(await patient.gateway.records(key, 1)).toMatchObject([
      { status: "cancelled", estimated: true, promptTokens: 2 },
    ]);
  });

  test("pays an estimate when its provider's time runs out", async () => {
    const { key, client, providerClosed } = await stalled(shortTimeouts);
    await providerClosed;
    shortTimeouts.gateway.clock.advance(1000);
    client.resume();
    await client.seen("[DONE]");
    expect(client.text).toContain('"finish_reason":"error"');
    expect(await shortTimeouts.gateway.records(key, 1)).toMatchObject([
      { status: "cancelled", estimated: true, promptTokens: 2 },
    ]);
    client.fin();
  });
});
