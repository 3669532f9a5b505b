import { expect, test } from "bun:test";
import {
  ANSWER_TOKENS,
  answerOnlyPrices,
  PRICE,
  statuses,
} from "../../support/gateway/answerOnlyPrices.ts";
import { answered } from "../../support/provider/chatAnswers.ts";
import { chat, expectRefusal } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { says } from "../../support/histories/concurrentRequests.ts";
import { until } from "../../support/until.ts";

const at = openBefore(["local"], ({ local }) => ({
  ...answerOnlyPrices(local),
  sections: { billing: { hold_wait: "10s" }, limits: { concurrent_requests: 0 } },
}));

/** It costs nothing, so that its hold is available to the next. */
const freeAnswer = answered({ usage: { prompt_tokens: 5, completion_tokens: 0 } });
const SERVED_AT_ONCE = 10;
const CROWD = 150;

/** Counts the batches that are only for reserves. */
function countReserves(): () => number {
  const { writer } = at.gateway.app.gateway;
  const write = writer.write.bind(writer);
  let count = 0;
  writer.write = (operation) => {
    if (operation.kind === "reserve") count += 1;
    return write(operation);
  };
  return () => count;
}

const WAIT_MS = 1000;
/** A request that waits asks again each 100 ms, those of one account together. At worst each 50 ms. */
const ASKS_MAX = WAIT_MS / 50;

test("many requests that wait for one account's money ask together, and all are served", async () => {
  const go = Promise.withResolvers<void>();
  let [open, most] = [0, 0];
  at.providers.local.answer = async (peer, request) => {
    open += 1;
    most = Math.max(most, open);
    await go.promise;
    await Bun.sleep(10);
    open -= 1;
    await freeAnswer(peer, request);
  };
  const reserves = countReserves();
  const first = await at.gateway.key({ balance: BigInt(SERVED_AT_ONCE) * PRICE });
  const keys = [first];
  while (keys.length < 5) keys.push(await at.gateway.key({ account: first.account, balance: 0n }));
  const replies = Array.from({ length: CROWD }, (_, index) =>
    chat(at.gateway, keys[index % keys.length]),
  );
  await until("all are there", () => at.gateway.app.requests.open === CROWD);
  await until("some are served", () => at.providers.local.requests.length === SERVED_AT_ONCE);
  const arrived = reserves();
  await Bun.sleep(WAIT_MS);
  const whileWaiting = reserves() - arrived;
  go.resolve();
  expect(statuses(await Promise.all(replies))).toEqual(Array<number>(CROWD).fill(200));
  expect(most).toBe(SERVED_AT_ONCE);
  expect(await at.gateway.balance(first)).toBe(BigInt(SERVED_AT_ONCE) * PRICE);
  expect(whileWaiting).toBeLessThanOrEqual(ASKS_MAX);
});

test.each([
  ["JSON", {}],
  ["JSON with a bound", { max_tokens: ANSWER_TOKENS }],
  ["a stream", { stream: true }],
  ["a stream with a bound", { stream: true, max_tokens: ANSWER_TOKENS }],
])(
  "of 200 requests at once for %s on money for ten, ten are served and the others get 402 once the money is spent",
  async (_, changes) => {
    const go = Promise.withResolvers<void>();
    at.providers.local.forget();
    at.providers.local.answer = async (peer, request) => {
      await go.promise;
      await says({ prompt_tokens: 5, completion_tokens: ANSWER_TOKENS })(peer, request);
    };
    const key = await at.gateway.key({ balance: BigInt(SERVED_AT_ONCE) * PRICE });
    const asked = Array.from({ length: 200 }, () => chat(at.gateway, key, changes));
    await until("all are there", () => at.gateway.app.requests.open === asked.length);
    await until("ten are sent", () => at.providers.local.requests.length === SERVED_AT_ONCE);
    go.resolve();
    const replies = await Promise.all(asked);
    const refused = replies.filter(({ status }) => status !== 200);
    expect(refused).toHaveLength(asked.length - SERVED_AT_ONCE);
    for (const reply of refused)
      expectRefusal(reply, [402, "billing_error", "insufficient balance"], {
        code: "insufficient_balance",
        required_rub: expect.any(String),
        available_rub: "0",
      });
    expect(at.providers.local.requests).toHaveLength(SERVED_AT_ONCE);
    expect(await at.gateway.balance(key)).toBe(0n);
  },
);
