import { expect, test } from "bun:test";
import { authenticate } from "../../src/auth/knownKeys.ts";
import { ChatDecoder } from "../../src/gateway/decoding/chatDecoder.ts";
import { ChatForm } from "../../src/gateway/decoding/chatForm.ts";
import { settleLeaked } from "../../src/app.ts";
import { StreamRelay } from "../../src/gateway/streaming/streamRelay.ts";
import { Attempt } from "../../src/routing/attempts.ts";
import { UpstreamError, type UpstreamExchange } from "../../src/providers/upstream.ts";
import { doneEvent, helloEvent, stopEvent, usageEvent } from "../support/provider/chatAnswers.ts";
import { rouble, type TestKey } from "../support/gateway/testApp.ts";
import { openOneModelBefore } from "../support/gateway/gatewayUnderTest.ts";
import { admitChat, scopeOf } from "../support/gateway/scopes.ts";
import { until } from "../support/until.ts";

const minuteMs = 60_000;
const opened = openOneModelBefore({}, { total_timeout: "10m", first_byte_timeout: "1s" });

/** A request as the path of a chat admits it. */
async function admission(key: TestKey) {
  const { app } = opened.gateway;
  const caller = await authenticate(key.key, app.gateway.knownKeys, Date.now());
  return await admitChat(scopeOf(app, caller), { outputTokensBound: 10 });
}

/** All of an answer that its provider has sent already, a piece for each read. */
function arrived(pieces: readonly string[]): UpstreamExchange {
  const left = pieces.map((text) => Buffer.from(text));
  return {
    answer: Promise.resolve(new Uint8Array()),
    isSent: true,
    status: 200,
    read: () => Promise.resolve(left.shift()),
    offerTo() {},
    setReadTimeout() {},
    extend() {},
    suspendReadTimeout() {},
    resumeReadTimeout() {},
    finished() {},
    reported: () => new UpstreamError("caller", "reported failure"),
    abort() {},
  };
}

test("a leaked request is settled as failed without a charge, and logged as an error", async () => {
  const { gateway } = opened;
  const key = await gateway.key({ balance: rouble });
  await admission(key);
  expect(gateway.app.gateway.holds.total()).toBeGreaterThan(0n);

  gateway.clock.advance(30 * minuteMs);
  settleLeaked(gateway.app.gateway);
  settleLeaked(gateway.app.gateway);
  expect(gateway.app.gateway.holds.total()).toBeGreaterThan(0n);

  gateway.clock.advance(4 * minuteMs);
  settleLeaked(gateway.app.gateway);
  // The first look after a standstill leaves the requests to their own time limits.
  expect(gateway.app.gateway.holds.total()).toBeGreaterThan(0n);
  settleLeaked(gateway.app.gateway);
  await until("the hold is released", () => gateway.app.gateway.holds.total() === 0n);

  const [record] = await gateway.records(key, 1);
  expect(record).toMatchObject({ status: "failed", charge: 0n });
  expect(await gateway.balance(key)).toBe(rouble);
  expect(gateway.log).toContainEqual(
    expect.objectContaining({
      level: "error",
      msg: "internal fault: a request did not end; its hold is released and nothing is charged",
      request_id: record?.id,
    }),
  );
});

test("a settled request is not reported as leaked", async () => {
  const { gateway } = opened;
  const key = await gateway.key({ balance: rouble });
  const { admitted } = await admission(key);
  await admitted.meter.settle({ status: "done" });
  const lines = gateway.log.length;
  gateway.clock.advance(34 * minuteMs);
  settleLeaked(gateway.app.gateway);
  settleLeaked(gateway.app.gateway);
  expect(gateway.log.slice(lines)).toEqual([]);
});

test("a request whose client reads slowly is not leaked: it is charged", async () => {
  const { gateway } = opened;
  const key = await gateway.key({ balance: rouble });
  const scope = await admission(key);
  const [candidate] = scope.checked.candidates;
  if (candidate === undefined) throw new Error("the model has no route");
  const words = Array.from({ length: 30 }, () => helloEvent);
  const identity = { id: "x", model: "small", created: 0, unknownFields: "forward" } as const;
  const relay = new StreamRelay(
    scope,
    new Attempt(gateway.app.gateway, candidate, 1, { attempted() {} }),
    new ChatDecoder({
      readEvent: candidate.chat.events(),
      identity,
      choiceCount: 1,
      form: new ChatForm(identity, false),
      stop: [],
      eventsStandAlone: candidate.chat.eventsStandAlone,
    }),
    arrived([...words, stopEvent, usageEvent, doneEvent]),
  );
  await relay.begin();
  relay.start();
  let text = "";
  for (;;) {
    await relay.ready(() => false);
    const piece = relay.take();
    if (piece === undefined) break;
    text += String(piece);
    // Shorter than what makes it one that went away.
    relay.pause();
    gateway.clock.advance(1.9 * minuteMs);
    settleLeaked(gateway.app.gateway);
    settleLeaked(gateway.app.gateway);
    relay.resume();
  }
  expect(text).toContain("[DONE]");
  expect(await gateway.records(key, 1)).toMatchObject([{ status: "done", estimated: false }]);
  expect(await gateway.balance(key)).toBeLessThan(rouble);
});
