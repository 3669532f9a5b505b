import { expect, spyOn, test } from "bun:test";
import { answerOnlyPrices, PRICE, wholeAnswer } from "../../support/gateway/answerOnlyPrices.ts";
import { call, chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { rowsAt } from "../../support/store/gatewayDatabase.ts";
import { openTestApp, type TestKey } from "../../support/gateway/testApp.ts";
import { startProvider } from "../../support/provider/scriptedProvider.ts";
import { formatRoubles } from "../../../src/lib/money.ts";
import { until, untilAsync } from "../../support/until.ts";

const at = openBefore(["local"], ({ local }) => answerOnlyPrices(local));

const reservedOf = async ({ account }: TestKey) =>
  (await at.gateway.store.accounts.findOrThrow(account)).reserved;

/** Requests of this key that wait for their answer. */
async function openRequests(key: TestKey, count: number) {
  const released = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer, request) => {
    await released.promise;
    await wholeAnswer(peer, request);
  };
  const begun = at.providers.local.requests.length;
  const replies = Array.from({ length: count }, () => chat(at.gateway, key));
  await until(
    "they are at the provider",
    () => at.providers.local.requests.length === begun + count,
  );
  return {
    async end(): Promise<void> {
      released.resolve();
      for (const { status } of await Promise.all(replies)) expect(status).toBe(200);
    },
  };
}

test("the reserve covers the open requests, is at most four times that, and the account shows it", async () => {
  const key = await at.gateway.key({ balance: 1000n * PRICE });
  for (const count of [1, 10, 40]) {
    const held = BigInt(count) * PRICE;
    const open = await openRequests(key, count);
    await untilAsync("their money is reserved", async () => (await reservedOf(key)) >= held);
    expect(await reservedOf(key)).toBeLessThanOrEqual(4n * held);
    const { body } = await call(at.gateway, key, { path: "/v1/account" });
    expect(body).toMatchObject({ held_rub: formatRoubles(await reservedOf(key)) });
    await open.end();
  }
});

test("the reserve is never more than the account can pay", async () => {
  const key = await at.gateway.key({ balance: 0n, overdraft: 3n * PRICE + 1n });
  const open = await openRequests(key, 3);
  await untilAsync("their money is reserved", async () => (await reservedOf(key)) >= 3n * PRICE);
  expect(await reservedOf(key)).toBeLessThanOrEqual(3n * PRICE + 1n);
  await open.end();
});

test("a second after the last request has ended, nothing is reserved", async () => {
  at.providers.local.answer = wholeAnswer;
  const key = await at.gateway.key({ balance: 1000n * PRICE });
  expect((await chat(at.gateway, key)).status).toBe(200);
  expect(await reservedOf(key)).toBeGreaterThan(0n);
  await untilAsync("nothing is reserved", async () => (await reservedOf(key)) === 0n);
});

test("after about a second without a new request, no more is reserved than open requests hold", async () => {
  const key = await at.gateway.key({ balance: 1000n * PRICE });
  const short = await openRequests(key, 9);
  const long = await openRequests(key, 1);
  await untilAsync("their money is reserved", async () => (await reservedOf(key)) >= 10n * PRICE);
  await short.end();
  const idleFromMs = performance.now();
  await untilAsync(
    "only the open request's money is reserved",
    async () => (await reservedOf(key)) === PRICE,
  );
  expect(performance.now() - idleFromMs).toBeLessThan(2000);
  await long.end();
  await untilAsync("nothing is reserved", async () => (await reservedOf(key)) === 0n);
});

test("a stopped gateway leaves nothing reserved", async () => {
  const provider = startProvider(wholeAnswer);
  const gateway = await openTestApp(answerOnlyPrices(`http://127.0.0.1:${provider.port}/v1`));
  const key = await gateway.key({ balance: 100n * PRICE });
  const { app, place, store } = gateway;
  const close = app.close.bind(app);
  let left: unknown[] = [];
  spyOn(app, "close").mockImplementation(async () => {
    await close();
    left = await rowsAt(place, "SELECT name FROM accounts WHERE reserved <> 0");
  });
  try {
    expect((await chat(gateway, key)).status).toBe(200);
    expect((await store.accounts.findOrThrow(key.account)).reserved).toBeGreaterThan(0n);
  } finally {
    await gateway.close();
    provider.stop();
  }
  expect(left).toEqual([]);
});
