import { describe, expect, test } from "bun:test";
import {
  answerOnlyPrices,
  PRICE,
  race,
  statuses,
  wholeAnswer,
} from "../../support/gateway/answerOnlyPrices.ts";
import { answered, helloEvent, stopEvent, usual } from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, openChat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  piece,
  raw,
  refusal,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { seededRandom } from "../../support/seededRandom.ts";
import { untilAsync } from "../../support/until.ts";

const at = openBefore(["local"], ({ local }) => ({
  ...answerOnlyPrices(local),
  sections: { billing: { hold_wait: "200ms" } },
}));

const actor = { name: "tester", command: "test", at: 0 };

describe("requests at once", () => {
  test("on a balance for three: three are served, the others wait or are refused, and nothing is left", async () => {
    const key = await at.gateway.key({ balance: 3n * PRICE });
    const replies = await race(at, [key], { count: 20, served: 3 });
    expect(statuses(replies)).toEqual([200, 200, 200, ...Array<number>(17).fill(429)]);
    expect(at.providers.local.requests).toHaveLength(3);
    expect(await at.gateway.balance(key)).toBe(0n);
    expect((await chat(at.gateway, key)).status).toBe(402);
  });

  test("on an overdraft for three: three are served, and no more", async () => {
    const key = await at.gateway.key({ balance: 0n, overdraft: 3n * PRICE });
    expect(
      statuses(await race(at, [key], { count: 20, served: 3 })).filter((status) => status === 200),
    ).toHaveLength(3);
    expect(await at.gateway.balance(key)).toBe(-3n * PRICE);
    expect((await chat(at.gateway, key)).status).toBe(402);
  });

  test("on a key's budget for three: three are served though the account has more", async () => {
    const key = await at.gateway.key({ budget: 3n * PRICE });
    expect(statuses(await race(at, [key], { count: 20, served: 3 }))).toEqual([
      200,
      200,
      200,
      ...Array<number>(17).fill(402),
    ]);
    expect((await at.gateway.store.keys.find(key.id))?.spent).toBe(3n * PRICE);
  });

  test("with two keys of one account share its balance", async () => {
    const first = await at.gateway.key({ balance: 3n * PRICE });
    const second = await at.gateway.key({ account: first.account, balance: 0n });
    const replies = await race(at, [first, second], { count: 10, served: 3 });
    expect(statuses(replies).filter((status) => status === 200)).toHaveLength(3);
    expect(await at.gateway.balance(first)).toBe(0n);
  });

  test("that fail release all their money", async () => {
    at.providers.local.answer = refusal(500);
    const key = await at.gateway.key({ balance: 20n * PRICE });
    const failed = await Promise.all(Array.from({ length: 20 }, () => chat(at.gateway, key)));
    expect(statuses(failed)).toEqual(Array<number>(20).fill(502));
    expect(await at.gateway.balance(key)).toBe(20n * PRICE);
    await at.gateway.expectAuditPasses();
    at.gateway.forgetFailures();
    at.providers.local.answer = wholeAnswer;
    const served = await Promise.all(Array.from({ length: 20 }, () => chat(at.gateway, key)));
    expect(statuses(served)).toEqual(Array<number>(20).fill(200));
    expect(await at.gateway.balance(key)).toBe(0n);
  });

  test.each([1, 2, 3])(
    "of random lengths never cost more than the balance (seed %d)",
    async (seed) => {
      const random = seededRandom(seed);
      at.providers.local.answer = (peer, request) => {
        const usage = { prompt_tokens: 5, completion_tokens: random.below(25) };
        const answer = random.chance(0.2)
          ? refusal(503)
          : answered(random.chance(0.2) ? { usage: null } : { usage });
        return answer(peer, request);
      };
      const balance = 12n * PRICE + BigInt(random.below(9999));
      const key = await at.gateway.key({ balance });
      const replies = await Promise.all(
        Array.from({ length: 60 }, () => chat(at.gateway, key, { stream: false })),
      );
      await at.gateway.expectAuditPasses();
      const records = (
        await at.gateway.store.requests.list({ account: key.account }, { limit: 100 })
      ).rows;
      const charged = records.reduce((sum, { charge }) => sum + charge, 0n);
      expect(await at.gateway.balance(key)).toBe(balance - charged);
      expect(await at.gateway.balance(key)).toBeGreaterThanOrEqual(0n);
      const served = replies.filter(({ status }) => status === 200);
      expect(records.filter(({ status }) => status === "done")).toHaveLength(served.length);
      const done = new Set(records.flatMap(({ id, status }) => (status === "done" ? [id] : [])));
      expect(new Set(served.map(({ id }) => id))).toEqual(done);
    },
  );
});

describe("an operator's change applies at the next request", () => {
  test("a credit", async () => {
    at.providers.local.answer = wholeAnswer;
    const key = await at.gateway.key({ balance: PRICE - 1n });
    expect((await chat(at.gateway, key)).status).toBe(402);
    const booking = {
      account: key.account,
      kind: "credit",
      amount: 1n,
      ref: null,
      note: null,
    } as const;
    await at.gateway.store.admin.changeBalance(actor, booking);
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect(await at.gateway.balance(key)).toBe(0n);
  });

  test("a debit, which cannot take held money", async () => {
    const go = Promise.withResolvers<void>();
    at.providers.local.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), streamEnd)(peer, request);
    };
    const key = await at.gateway.key({ balance: 2n * PRICE });
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen("Hello");
    const debit = (amount: bigint) =>
      at.gateway.store.admin.changeBalance(actor, {
        account: key.account,
        kind: "debit",
        amount,
        ref: null,
        note: null,
      });
    expect(() => debit(PRICE + 1n)).toThrow("available");
    await untilAsync("nothing but the hold is reserved", async () => {
      const { reserved } = await at.gateway.store.accounts.findOrThrow(key.account);
      return reserved === PRICE;
    });
    expect(() => debit(PRICE + 1n)).toThrow("available");
    await debit(PRICE);
    expect((await chat(at.gateway, key)).status).toBe(429);
    go.resolve();
    await client.seen("[DONE]");
    expect((await chat(at.gateway, key)).status).toBe(402);
  });

  test("a revoked key, whose open stream continues to its end and is charged", async () => {
    const go = Promise.withResolvers<void>();
    at.providers.local.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), streamEnd)(peer, request);
    };
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen("Hello");
    await at.gateway.store.admin.revokeKey(actor, key.id);
    await at.gateway.toldOfChanges();
    at.providers.local.answer = usual;
    expect((await chat(at.gateway, key)).status).toBe(401);
    go.resolve();
    await client.seen("[DONE]");
    expect(chunksOf(client)).toHaveLength(2);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: 2000n }]);
  });
});
