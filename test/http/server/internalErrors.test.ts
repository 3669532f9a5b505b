import { describe, expect, test } from "bun:test";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import {
  chat,
  expectRefusal,
  type ExpectedError,
  type Reply,
} from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore, expectNoRequestOpen } from "../../support/gateway/gatewayUnderTest.ts";
import { created, delta, responds, terminal } from "../../support/provider/responsesAnswers.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import { piece, raw, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import { beginChat, type SteppedChat } from "../../support/gateway/steppedChat.ts";
import type { TestApp, TestKey } from "../../support/gateway/testApp.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore();
const started = 100_000_000_000n;
const exact = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
const ownFault: ExpectedError = [502, "provider_error", "service temporarily unavailable"];
const theEnd = [...[stopEvent, usageEvent, doneEvent].map(piece), streamEnd];

/** Makes one call of a method throw, and then restores the method. */
function failOnce<Name extends string>(
  target: Record<Name, (...given: never[]) => unknown>,
  name: Name,
  isMeant: (given: unknown) => boolean = () => true,
): void {
  const working = target[name];
  target[name] = (...given: never[]) => {
    if (!isMeant(given[0])) return working.apply(target, given);
    target[name] = working;
    throw new Error("a fault of our own");
  };
}

/** Makes the next operation of this kind, which an answer waits for, throw. */
function failWrite(expected: string): void {
  const isMeant = (operation: unknown) => (operation as { kind: string }).kind === expected;
  failOnce(at.gateway.app.gateway.writer, "writeWithin", isMeant);
}

/** Makes the next computation of a cost throw. The request is admitted already. */
function failCost(): void {
  const [model] = at.gateway.app.gateway.current.config.models;
  const price = model?.schedule[0].prices.standard[0].price;
  if (price === undefined) throw new Error("the config has no model");
  const { input } = price;
  Object.defineProperty(price, "input", {
    configurable: true,
    get() {
      Object.defineProperty(price, "input", { value: input });
      throw new Error("a fault of our own");
    },
  });
}

/** A stream in the middle of its content, on a key with one slot. */
async function beginStream(): Promise<SteppedChat> {
  const begun = await beginChat(at, { stream: true }, { concurrentRequests: 1 });
  await begun.provide(streamHead, piece(helloEvent));
  await begun.client.seen("Hello");
  return begun;
}

describe("an internal error during a stream", () => {
  const faults: readonly (readonly [string, string, () => void])[] = [
    [
      "before the charge",
      "internal error",
      () => {
        for (const exchange of at.gateway.app.gateway.inFlight.exchanges)
          failOnce(exchange, "finished");
      },
    ],
    ["while the charge is computed", "ok", failCost],
    ["while the charge is written", "ok", () => failWrite("recordRequest")],
  ];

  test.each(faults)(
    "%s: the stream does not end as complete, nothing is charged or held",
    async (_, outcome, fail) => {
      const { key, client, provide } = await beginStream();
      fail();
      await provide(...theEnd);
      await Promise.race([client.closed, client.seen("[DONE]")]);
      expect(client.text).not.toContain('"finish_reason":"stop"');
      const isBroken = !client.text.includes("\r\n0\r\n\r\n");
      const hasErrorEnd = client.text.includes('"finish_reason":"error"');
      expect(isBroken || hasErrorEnd).toBe(true);
      const [record] = await at.gateway.records(key, 1);
      expect(record).toMatchObject({ status: "failed", charge: 0n });
      expect(await at.gateway.store.requests.attempts(record?.id ?? "")).toMatchObject([
        { outcome, status: 200 },
      ]);
      expect(await at.gateway.balance(key)).toBe(started);
      await expectNoRequestOpen(at, key);
    },
  );
});

test("an internal error while the last ids of a response are recorded: no charge, and no complete end", async () => {
  at.provider.answer = async (peer, request) => {
    await raw(streamHead, piece(created()), piece(delta))(peer, request);
    await ending.promise;
    await raw(piece(terminal()), streamEnd)(peer, request);
  };
  const ending = Promise.withResolvers<void>();
  const key = await at.gateway.key({ concurrentRequests: 1 });
  const reply = await openResponse(at.gateway, key);
  await reply.seen("Hello there");
  failWrite("recordOwners");
  ending.resolve();
  await until("the stream is over", () => reply.isOver);
  expect(reply.text).not.toContain("response.completed");
  expect(reply.text).toContain("event: error");
  expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  expect(await at.gateway.balance(key)).toBe(started);
  await expectNoRequestOpen(at, key);
});

test("an internal error after the charge of a stream: charged once, and nothing is held", async () => {
  const { rateLimiter } = at.gateway.app;
  const admit = rateLimiter.admit.bind(rateLimiter);
  rateLimiter.admit = async (keyId, limits) => {
    rateLimiter.admit = admit;
    const admission = await admit(keyId, limits);
    if (admission.ok) failOnce(admission.permit, "correctTokens");
    return admission;
  };
  const { key, client, provide } = await beginStream();
  await provide(...theEnd);
  await client.closed;
  expect(client.text).not.toContain("[DONE]");
  expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: exact }]);
  expect(await at.gateway.balance(key)).toBe(started - exact);
  await expectNoRequestOpen(at, key);
});

describe("an internal error during a JSON answer", () => {
  type Post = (gateway: TestApp, key: TestKey) => Promise<Reply>;
  const faults: readonly (readonly [string, Post, () => void])[] = [
    ["while its ids are recorded", respond, () => failWrite("recordOwners")],
    ["while its charge is computed", chat, failCost],
    ["while its charge is written", respond, () => failWrite("recordRequest")],
  ];

  test.each(faults)("%s: 502, nothing is charged or held", async (_, post, fail) => {
    at.provider.answer = (peer, request) => {
      fail();
      return (post === chat ? answered() : responds("resp_own"))(peer, request);
    };
    const key = await at.gateway.key({ concurrentRequests: 1 });
    expectRefusal(await post(at.gateway, key), ownFault);
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({ status: "failed", charge: 0n });
    expect(await at.gateway.store.requests.attempts(record?.id ?? "")).toMatchObject([
      { provider: "local", outcome: "ok" },
    ]);
    expect(await at.gateway.balance(key)).toBe(started);
    await expectNoRequestOpen(at, key);
  });
});
