import { expect, spyOn, test } from "bun:test";
import { answerOnlyPrices, PRICE, wholeAnswer } from "../../support/gateway/answerOnlyPrices.ts";
import { call, chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { openTestApp, type TestKey } from "../../support/gateway/testApp.ts";
import { startProvider } from "../../support/provider/scriptedProvider.ts";
import { formatRoubles } from "../../../src/lib/money.ts";
import { until } from "../../support/until.ts";

const at = openBefore(["local"], ({ local }) => answerOnlyPrices(local));

const reservedOf = ({ account }: TestKey) =>
  at.gateway.store.accounts.findOrThrow(account).reserved;

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
  const key = at.gateway.key({ balance: 1000n * PRICE });
  for (const count of [1, 10, 40]) {
    const held = BigInt(count) * PRICE;
    const open = await openRequests(key, count);
    await until("their money is reserved", () => reservedOf(key) >= held);
    expect(reservedOf(key)).toBeLessThanOrEqual(4n * held);
    const { body } = await call(at.gateway, key, { path: "/v1/account" });
    expect(body).toMatchObject({ held_rub: formatRoubles(reservedOf(key)) });
    await open.end();
  }
});

test("the reserve is never more than the account can pay", async () => {
  const key = at.gateway.key({ balance: 0n, overdraft: 3n * PRICE + 1n });
  const open = await openRequests(key, 3);
  await until("their money is reserved", () => reservedOf(key) >= 3n * PRICE);
  expect(reservedOf(key)).toBeLessThanOrEqual(3n * PRICE + 1n);
  await open.end();
});

test("a second after the last request has ended, nothing is reserved", async () => {
  at.providers.local.answer = wholeAnswer;
  const key = at.gateway.key({ balance: 1000n * PRICE });
  expect((await chat(at.gateway, key)).status).toBe(200);
  expect(reservedOf(key)).toBeGreaterThan(0n);
  await until("nothing is reserved", () => reservedOf(key) === 0n);
});

test("after about a second without a new request, no more is reserved than open requests hold", async () => {
  const key = at.gateway.key({ balance: 1000n * PRICE });
  const short = await openRequests(key, 9);
  const long = await openRequests(key, 1);
  await until("their money is reserved", () => reservedOf(key) >= 10n * PRICE);
  await short.end();
  const idleFromMs = performance.now();
  await until("only the open request's money is reserved", () => reservedOf(key) === PRICE);
  expect(performance.now() - idleFromMs).toBeLessThan(2000);
  await long.end();
  await until("nothing is reserved", () => reservedOf(key) === 0n);
});

test("a stopped gateway leaves nothing reserved", async () => {
  const provider = startProvider(wholeAnswer);
  const gateway = await openTestApp(answerOnlyPrices(`http://127.0.0.1:${provider.port}/v1`));
  const key = gateway.key({ balance: 100n * PRICE });
  const { store } = gateway;
  const close = store.close.bind(store);
  let left: bigint | undefined;
  spyOn(store, "close").mockImplementation(() => {
    left = store.accounts.findOrThrow(key.account).reserved;
    return close();
  });
  try {
    expect((await chat(gateway, key)).status).toBe(200);
    expect(store.accounts.findOrThrow(key.account).reserved).toBeGreaterThan(0n);
  } finally {
    await gateway.close();
    provider.stop();
  }
  expect(left).toBe(0n);
});
