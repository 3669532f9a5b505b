import { describe, expect, test } from "bun:test";
import type { KeyChanges } from "../../../src/store/store.ts";
import {
  answerOnlyPrices,
  PRICE,
  race,
  statuses,
  wholeAnswer,
} from "../../support/gateway/answerOnlyPrices.ts";
import { helloEvent, stopEvent } from "../../support/provider/chatAnswers.ts";
import {
  badKey,
  call,
  chat,
  expectRefusal,
  openChat,
  tooOften,
  unknownModel,
} from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { piece, raw, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";

const at = openBefore(["local"], ({ local }) => answerOnlyPrices(local));

const HOUR_MS = 3_600_000;

async function rotate(key: TestKey, graceMs = HOUR_MS): Promise<TestKey> {
  const successor = await at.gateway.rotate(key, graceMs);
  await at.gateway.toldOfChanges();
  return successor;
}

async function set(key: TestKey, changes: KeyChanges): Promise<void> {
  await at.gateway.store.admin.changeKey(
    { name: "tester", command: "test", at: 0 },
    key.id,
    changes,
  );
  await at.gateway.toldOfChanges();
}

const spent = (...keys: readonly TestKey[]) =>
  Promise.all(keys.map(async ({ id }) => (await at.gateway.store.keys.find(id))?.spent));

const status = async (key: TestKey) => (await chat(at.gateway, key)).status;

/** The statuses of ten requests at once, alternating between the keys. */
const racing = async (keys: readonly TestKey[], served: number) =>
  statuses(await race(at, keys, { count: 10, served }));
const outcomes = (served: number) => [
  ...Array<number>(served).fill(200),
  ...Array<number>(10 - served).fill(402),
];

describe("a budget", () => {
  test("is shared by a key and its replacement, and is not exceeded", async () => {
    const first = await at.gateway.key({ budget: 3n * PRICE });
    const second = await rotate(first);
    expect(await racing([first, second], 3)).toEqual(outcomes(3));
    expect(await spent(first, second)).toEqual([3n * PRICE, 3n * PRICE]);
    for (const key of [first, second]) {
      const { body } = await call(at.gateway, key, { path: "/v1/account" });
      expect(body).toMatchObject({ key: { budget_rub: "0.00003", spent_rub: "0.00003" } });
    }
  });

  test("carries over what was spent or held before the rotation", async () => {
    at.providers.local.answer = wholeAnswer;
    const first = await at.gateway.key({ budget: 3n * PRICE });
    expect(await status(first)).toBe(200);
    const go = Promise.withResolvers<void>();
    at.providers.local.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), streamEnd)(peer, request);
    };
    const open = await openChat(at.gateway, first, { stream: true });
    await open.seen("Hello");
    const second = await rotate(first, 0);
    expect(await racing([second], 1)).toEqual(outcomes(1));
    go.resolve();
    await open.seen("[DONE]");
  });

  test("set on either key of a rotation chain applies to both at the next request", async () => {
    const first = await at.gateway.key({ budget: 9n * PRICE });
    const second = await rotate(first);
    await set(second, { budget: 2n * PRICE });
    expect(await racing([first, second], 2)).toEqual(outcomes(2));
    await set(first, { budget: 5n * PRICE });
    expect(await racing([second, first], 3)).toEqual(outcomes(3));
    await set(second, { budget: 6n * PRICE });
    expect(await racing([first], 1)).toEqual(outcomes(1));
    expect(await spent(first, second)).toEqual([6n * PRICE, 6n * PRICE]);
  });

  test("below the amount spent refuses all keys of the chain; its removal allows them", async () => {
    at.providers.local.answer = wholeAnswer;
    const first = await at.gateway.key();
    const second = await rotate(first);
    expect([await status(first), await status(second)]).toEqual([200, 200]);
    await set(first, { budget: PRICE });
    expect([await status(first), await status(second)]).toEqual([402, 402]);
    await set(second, { budget: null });
    expect([await status(first), await status(second)]).toEqual([200, 200]);
  });
});

test("a budget that was lowered while a request was open is in force when that has ended", async () => {
  const go = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer, request) => {
    await go.promise;
    await wholeAnswer(peer, request);
  };
  const key = await at.gateway.key({ budget: 100n * PRICE });
  const first = chat(at.gateway, key);
  await at.providers.local.request(0);
  await set(key, { budget: PRICE });
  go.resolve();
  expect((await first).status).toBe(200);
  expect(await status(key)).toBe(402);
});

describe("a key that was rotated", () => {
  test("works until the grace period ends; the new key works at once", async () => {
    at.providers.local.answer = wholeAnswer;
    const first = await at.gateway.key();
    const second = await rotate(first, HOUR_MS);
    expect([await status(first), await status(second)]).toEqual([200, 200]);
    at.gateway.clock.advance(HOUR_MS);
    expectRefusal(await chat(at.gateway, first), badKey);
    expect(await status(second)).toBe(200);
  });

  test("without grace is refused at the next request; its open stream is served and charged", async () => {
    const go = Promise.withResolvers<void>();
    at.providers.local.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), streamEnd)(peer, request);
    };
    const first = await at.gateway.key();
    const client = await openChat(at.gateway, first, { stream: true });
    await client.seen("Hello");
    const second = await rotate(first, 0);
    at.providers.local.answer = wholeAnswer;
    expectRefusal(await chat(at.gateway, first), badKey);
    expect(await status(second)).toBe(200);
    go.resolve();
    await client.seen("[DONE]");
    const records = await at.gateway.records(first, 2);
    expect(records.map(({ status, key }) => [status, key])).toEqual([
      ["done", first.id],
      ["done", second.id],
    ]);
    const charged = records.reduce((sum, { charge }) => sum + charge, 0n);
    expect(await spent(first, second)).toEqual([charged, charged]);
  });

  test("passes its rate limits to the new key, whose buckets are full", async () => {
    at.providers.local.answer = wholeAnswer;
    const first = await at.gateway.key({ requestsPerMinute: 1 });
    expect(await status(first)).toBe(200);
    const second = await rotate(first);
    expect(await status(second)).toBe(200);
    for (const key of [first, second]) expectRefusal(await chat(at.gateway, key), tooOften);
  });
});

describe("a setting applies at the next request", () => {
  test("for the models, the rate and the expiry of a key", async () => {
    at.providers.local.answer = wholeAnswer;
    const key = await at.gateway.key();
    await set(key, { models: ["other-*"] });
    expectRefusal(await chat(at.gateway, key), unknownModel);
    await set(key, { models: null, requestsPerMinute: 1 });
    expect(await status(key)).toBe(200);
    expectRefusal(await chat(at.gateway, key), tooOften);
    await set(key, { requestsPerMinute: 0, expiresAt: at.gateway.clock.epochMs() });
    expectRefusal(await chat(at.gateway, key), badKey);
    await set(key, { expiresAt: null });
    expect(await status(key)).toBe(200);
  });
});
