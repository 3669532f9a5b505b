import { describe, expect, spyOn, test } from "bun:test";
import { formatRoubles } from "../../../src/lib/money.ts";
import { ask, call, chat, expectRefusal } from "../../support/gateway/chatCalls.ts";
import { answered, usual } from "../../support/provider/chatAnswers.ts";
import { costOf, prices } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";

const at = openOneModelBefore();

/** The hold of a request: its prompt at the highest input price, and its completion at the output price. */
function holdOf(body: string, messages: number, outputTokens: number): bigint {
  const promptTokens = Buffer.byteLength(body) + 16 * messages + 256;
  return BigInt(promptTokens * prices.cacheWrite + outputTokens * prices.output);
}

describe("the error table", () => {
  test("402: with the required and the available amount", async () => {
    const key = await at.gateway.key({ balance: 10_000_000n });
    const bounded = { max_tokens: 1000 };
    const required_rub = formatRoubles(holdOf(JSON.stringify(ask(bounded)), 1, 1000));
    const extra = { code: "insufficient_balance", required_rub, available_rub: "0.01" };
    expectRefusal(
      await chat(at.gateway, key, bounded),
      [402, "billing_error", "insufficient balance"],
      extra,
    );
    expect(await at.gateway.records(key, 0)).toEqual([]);
  });

  test("502: an internal error has its own message, and its cause is only in the log", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const find = spyOn(at.gateway.store.keys, "findByHash").mockImplementation(() => {
      throw new RangeError("the secret detail");
    });
    const reply = await chat(at.gateway, key);
    find.mockRestore();
    expectRefusal(reply, [502, "provider_error", "service temporarily unavailable"]);
    expect(at.gateway.log.at(-1)).toMatchObject({
      level: "error",
      error: "RangeError",
      status: 502,
    });
    expect(at.gateway.logText()).not.toContain("the secret detail");
  });
});

describe("the balance decides to the nano-rouble", () => {
  const bounded = ask({ max_tokens: 10 });
  const hold = holdOf(JSON.stringify(bounded), 1, 10);

  test.each([
    ["exactly the hold", hold, undefined, 200],
    ["one nano-rouble less", hold - 1n, undefined, 402],
    ["nothing", 0n, undefined, 402],
    ["zero, with an overdraft of the hold", 0n, hold, 200],
    ["zero, with an overdraft of one less", 0n, hold - 1n, 402],
  ] as const)("%s", async (_, balance, overdraft, status) => {
    at.provider.answer = usual;
    const key = await at.gateway.key({
      balance,
      ...(overdraft === undefined ? {} : { overdraft }),
    });
    const reply = await call(at.gateway, key, { body: bounded });
    expect(reply.status).toBe(status);
    expect(at.provider.requests).toHaveLength(status === 200 ? 1 : 0);
    const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
    expect(await at.gateway.balance(key)).toBe(balance - (status === 200 ? cost : 0n));
  });

  test.each([
    ["of the hold", hold, 200],
    ["of one less", hold - 1n, 402],
  ] as const)("a key's budget %s", async (_, budget, status) => {
    at.provider.answer = usual;
    const reply = await call(at.gateway, await at.gateway.key({ budget }), { body: bounded });
    expect(reply.status).toBe(status);
    expect(at.provider.requests).toHaveLength(status === 200 ? 1 : 0);
  });

  test("a spent budget does not come back", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key({ budget: hold });
    expect((await call(at.gateway, key, { body: bounded })).status).toBe(200);
    const spent = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
    expectRefusal(
      await call(at.gateway, key, { body: bounded }),
      [402, "billing_error", "insufficient balance"],
      {
        code: "insufficient_balance",
        required_rub: formatRoubles(hold),
        available_rub: formatRoubles(hold - spent),
      },
    );
  });

  test("two choices hold twice the completion, and non-text parts hold the whole context", async () => {
    at.provider.answer = usual;
    const two = ask({ max_tokens: 10, n: 2 });
    const image = ask({
      max_tokens: 10,
      messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }],
    });
    const holds = [
      [two, holdOf(JSON.stringify(two), 1, 20)],
      [image, BigInt(200_000 * prices.cacheWrite + 10 * prices.output)],
    ] as const;
    for (const [body, held] of holds) {
      const short = await at.gateway.key({ balance: held - 1n });
      expect((await call(at.gateway, short, { body })).status).toBe(402);
      const enough = await at.gateway.key({ balance: held });
      expect((await call(at.gateway, enough, { body })).status).toBe(200);
    }
  });

  test("usage above the hold is charged as far as there is money", async () => {
    const reported = { prompt_tokens: 20, completion_tokens: 100_000, total_tokens: 100_020 };
    at.provider.answer = answered({ usage: reported });
    const cost = costOf({ prompt: 20, completion: 100_000 });
    const key = await at.gateway.key({ balance: cost });
    expect((await call(at.gateway, key, { body: bounded })).status).toBe(200);
    expect(await at.gateway.balance(key)).toBe(0n);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ charge: cost, writeOff: 0n }]);
  });

  test("usage above hold and balance is written off", async () => {
    const reported = { prompt_tokens: 20, completion_tokens: 100_000, total_tokens: 100_020 };
    at.provider.answer = answered({ usage: reported });
    const key = await at.gateway.key({ balance: hold });
    expect((await call(at.gateway, key, { body: bounded })).status).toBe(200);
    const cost = costOf({ prompt: 20, completion: 100_000 });
    expect(await at.gateway.balance(key)).toBe(0n);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", charge: hold, writeOff: cost - hold },
    ]);
  });
});
