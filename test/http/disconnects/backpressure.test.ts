import { describe, expect, test } from "bun:test";
import { helloEvent } from "../../support/provider/chatAnswers.ts";
import { ask, chunksOf, openChat } from "../../support/gateway/chatCalls.ts";
import { candidatesOf } from "../../../src/gateway/catalog.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import { piece, raw, streamHead } from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

const TOTAL_MS = 5000;
const at = openOneModelBefore(
  {},
  { total_timeout: `${TOTAL_MS}ms`, first_byte_timeout: "2s", idle_timeout: "700ms" },
  { max_output_tokens: 20 },
);
const patient = openOneModelBefore();
const started = 100_000_000_000n;
/** Many bytes but little text. Otherwise the gateway cuts the stream as endless. */
const longEvent = (bytes: number): Buffer =>
  piece(chatEvent({ content: "word" }, null, { padding: "x".repeat(bytes) }));

/** The events that the provider was able to send. */
let sentCount = 0;

/** Resolves when the provider could send nothing for this time: all buffers up to the client are full. */
async function heldUpFor(ms: number): Promise<void> {
  let seen = -1;
  let sinceMs = 0;
  await until("the provider is held up", () => {
    if (sentCount !== seen) [seen, sinceMs] = [sentCount, performance.now()];
    return performance.now() - sinceMs >= ms;
  });
}

describe("a time-out of the gateway after content", () => {
  test.each([
    ["events that are parsed", 100_000],
    ["events that pass unparsed", 12_000],
  ])(
    "comes although the provider still writes when the client pauses again and again: cancelled and charged, %s",
    async (_, bytes) => {
      const event = longEvent(bytes);
      at.provider.answer = async (peer, request) => {
        await raw(streamHead, piece(helloEvent))(peer, request);
        for (;;) {
          await peer.send(event);
          sentCount += 1;
        }
      };
      const key = await at.gateway.key();
      const client = await connectRaw(at.gateway.port);
      client.send(chatBytes(key.key, JSON.stringify(ask({ stream: true }))));
      await client.seen("Hello");
      const { requests } = at.gateway.store;
      const hasEnded = async (): Promise<boolean> => {
        const [record] = (await requests.list({ account: key.account }, { limit: 1 })).rows;
        return record !== undefined && record.status !== "running";
      };
      const deadlineMs = performance.now() + 2 * TOTAL_MS;
      while (!(await hasEnded()) && performance.now() < deadlineMs) {
        client.pause();
        await heldUpFor(300);
        const { length } = client.text;
        client.resume();
        while (client.text.length === length && performance.now() < deadlineMs) await Bun.sleep(0);
      }
      const [record] = await at.gateway.records(key, 1);
      expect(record).toMatchObject({
        status: "cancelled",
        estimated: true,
        completionTokens: expect.any(Number),
      });
      expect(await at.gateway.balance(key)).toBe(started - (record?.charge ?? 0n));
      expect(record?.charge).toBeGreaterThan(0n);
      client.reset();
    },
    4 * TOTAL_MS,
  );

  test.each([
    ["falls silent", 0, 20, 25],
    ["falls silent after a late first content", 1000, 1, 25],
  ])(
    "is no fault of the provider when it %s: the client gets an error, and pays for what it got",
    async (_, thinksMs, count, everyMs) => {
      at.provider.answer = async (peer, request) => {
        await raw(streamHead)(peer, request);
        await Bun.sleep(thinksMs);
        for (let sent = 0; sent < count; sent += 1) {
          await peer.send(piece(helloEvent));
          await Bun.sleep(everyMs);
        }
      };
      const key = await at.gateway.key();
      const client = await openChat(at.gateway, key, { stream: true });
      await until("the stream is over", () => client.isOver, 2 * TOTAL_MS);
      expect(chunksOf(client).at(-1)).toMatchObject({
        choices: [{ finish_reason: "error" }],
        error: { type: "provider_error" },
      });
      const [record] = await at.gateway.records(key, 1);
      // The hold pays for 20 tokens.
      const charge = costOf({ prompt: 2, completion: count === 1 ? 2 : 20 });
      expect(record).toMatchObject({ status: "cancelled", estimated: true, charge });
      expect(await at.gateway.balance(key)).toBe(started - charge);
      expect(
        at.gateway.app.gateway.health.states(candidatesOf(at.gateway.app.gateway.current.catalog)),
      ).toMatchObject([{ state: "closed" }]);
    },
    4 * TOTAL_MS,
  );
});

describe("a cut by the provider", () => {
  test.each<["with FIN" | "by a reset"]>([["with FIN"], ["by a reset"]])(
    "%s while the client pauses is the client's fault, also after buffered events: cancelled and charged",
    async (how) => {
      const cut = Promise.withResolvers<void>();
      patient.provider.answer = async (peer, request) => {
        await raw(streamHead, piece(helloEvent))(peer, request);
        void cut.promise.then(() => (how === "by a reset" ? peer.reset() : peer.fin()));
        for (;;) {
          await peer.send(longEvent(100_000));
          sentCount += 1;
        }
      };
      const key = await patient.gateway.key();
      const client = await connectRaw(patient.gateway.port);
      client.send(chatBytes(key.key, JSON.stringify(ask({ stream: true }))));
      await client.seen("Hello");
      client.pause();
      await heldUpFor(3000);
      cut.resolve();
      await Bun.sleep(1000);
      const { length } = client.text;
      client.resume();
      const [record] = await patient.gateway.records(key, 1);
      expect(record).toMatchObject({ status: "cancelled", estimated: true });
      expect(record?.charge).toBeGreaterThan(0n);
      expect(await patient.gateway.balance(key)).toBe(started - (record?.charge ?? 0n));
      await until("more has come", () => client.text.length > length);
      client.reset();
    },
    60_000,
  );
});
