import { describe, expect, test } from "bun:test";
import { answered, doneEvent, helloEvent, roleEvent } from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { piece, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import { beginChat, type SteppedChat } from "../../support/gateway/steppedChat.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

/** The provider's timeouts are well within the grace. */
const at = openOneModelBefore(
  { billing: { disconnect_grace: "60s" } },
  { idle_timeout: "500ms", first_byte_timeout: "500ms" },
);
const shortTimeouts = openOneModelBefore(
  { billing: { disconnect_grace: "60s" } },
  { total_timeout: "700ms", first_byte_timeout: "500ms", idle_timeout: "300ms" },
  { max_output_tokens: 2 },
);
const started = 100_000_000_000n;
const streaming = { stream: true };

/** What the provider does within the grace, after the client disconnected. */
type Doing = (stepped: SteppedChat) => Promise<void> | void;

/** As long as the gateway reads. */
const pings: Doing = ({ provide, peer }) => {
  // The last one may meet a connection that is just closed.
  const ping = () => provide(piece(": ping\n\n")).catch(() => clearInterval(timer));
  const timer = setInterval(() => void ping(), 100);
  void peer.closed.then(() => clearInterval(timer));
};

const failures: readonly (readonly [string, typeof at, Doing])[] = [
  ["closes the connection", at, ({ peer }) => peer.fin()],
  ["resets the connection", at, ({ peer }) => peer.reset()],
  ["breaks its framing", at, ({ provide }) => provide("nonsense\r\n")],
  ["ends without a finish reason", at, ({ provide }) => provide(streamEnd)],
  ["sends [DONE] without a finish reason", at, ({ provide }) => provide(piece(doneEvent))],
  ["reports an error", at, ({ provide }) => provide(piece('data: {"error":{"message":"x"}}\n\n'))],
  ["falls silent until its idle timeout", at, () => {}],
  ["sends signs of life until its total timeout", shortTimeouts, pings],
];

describe("a client that disconnects during the content, and a provider that then", () => {
  test.each(failures)("%s: cancelled, and charged by the estimate", async (_, on, does) => {
    const begun = await beginChat(on, streaming, { concurrentRequests: 1 });
    const { key, client, provide, disconnect } = begun;
    await provide(streamHead, piece(roleEvent), piece(helloEvent));
    await client.seen("Hello");
    const leftMs = performance.now();
    await disconnect();
    await does(begun);
    const charge = costOf({ prompt: 2, completion: 2 });
    expect(await on.gateway.records(key, 1)).toMatchObject([
      { status: "cancelled", estimated: true, promptTokens: 2, completionTokens: 2, charge },
    ]);
    // The provider ended it, not the end of the grace.
    expect(performance.now() - leftMs).toBeLessThan(30_000);
    expect(await on.gateway.balance(key)).toBe(started - charge);
    await on.gateway.expectAuditPasses();
    on.provider.answer = answered();
    expect((await chat(on.gateway, key)).status).toBe(200);
  });
});

describe("a client that disconnects from a provider that reports usage early", () => {
  const said = "word ".repeat(40);
  /** "Hello" and 40 words have 205 bytes. */
  const estimate = 52;

  test.each([
    ["as 0", 0, estimate],
    ["below the estimate", estimate - 1, estimate],
    ["above the estimate", 300, 300],
  ])(
    "pays the reported prompt, and for a completion reported %s the greater of report and estimate",
    async (_, reported, completion) => {
      const usage = {
        prompt_tokens: 30,
        completion_tokens: reported,
        prompt_tokens_details: { cached_tokens: 10 },
      };
      const { key, client, provide, disconnect, givenUp } = await beginChat(at, streaming);
      const early = chatEvent({ content: "Hello" }, null, { usage });
      await provide(streamHead, piece(early), piece(chatEvent({ content: said })));
      await client.seen("word word");
      await disconnect();
      await givenUp;
      const charge = costOf({ prompt: 30, completion, cached: 10 });
      expect(await at.gateway.records(key, 1)).toMatchObject([
        {
          status: "cancelled",
          estimated: true,
          promptTokens: 30,
          completionTokens: completion,
          charge,
        },
      ]);
      expect(await at.gateway.balance(key)).toBe(started - charge);
    },
  );

  test("pays no more than the hold, however large the report is", async () => {
    const usage = {
      prompt_tokens: 5000,
      completion_tokens: 300,
      prompt_tokens_details: { cached_tokens: 10, cache_write_tokens: 4990 },
    };
    const asked = { ...streaming, max_tokens: 20 };
    const { key, client, provide, disconnect, givenUp } = await beginChat(at, asked);
    await provide(streamHead, piece(chatEvent({ content: "Hello" }, null, { usage })));
    await client.seen("Hello");
    await disconnect();
    await givenUp;
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({ status: "cancelled", estimated: true, completionTokens: 20 });
    expect(record?.promptTokens).toBeGreaterThan(300);
    expect(record?.charge).toBeLessThanOrEqual(record?.hold ?? 0n);
    expect(record?.writeOff).toBe(0n);
  });
});
