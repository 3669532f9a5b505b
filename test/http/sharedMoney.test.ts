import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { answered, helloEvent, stopEvent, usual } from "../support/chatAnswers.ts";
import { chat, chunksOf, openChat, type Reply } from "../support/chatCalls.ts";
import { openBefore } from "../support/gatewayUnderTest.ts";
import { piece, raw, refusal, streamEnd, streamHead } from "../support/scriptedProvider.ts";
import type { TestKey } from "../support/testApp.ts";
import { seededRandom } from "../lib/seededRandom.ts";

/** Only the answer costs, so that what is held for one of the full length is what is charged. */
const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [
    {
      id: "small",
      routes: [{ provider: "local" }],
      settings: {
        free: true,
        rub_input_per_1m: 0,
        rub_cached_input_per_1m: 0,
        rub_cache_write_per_1m: 0,
        rub_output_per_1m: 1000,
        max_output_tokens: 10,
      },
    },
  ],
}));

const PRICE = 10_000n;
const actor = { name: "tester", at: 0 };
const full = { prompt_tokens: 5, completion_tokens: 10 };

/** Sends so many at once, and lets the provider answer when all the others were refused. */
async function race(key: TestKey, count: number, served: number): Promise<readonly Reply[]> {
  const refused = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer, request) => {
    await refused.promise;
    await answered({ usage: full })(peer, request);
  };
  let refusals = 0;
  const replies = Array.from({ length: count }, async () => {
    const reply = await chat(at.gateway, key);
    refusals += reply.status === 200 ? 0 : 1;
    if (refusals === count - served) refused.resolve();
    return reply;
  });
  return Promise.all(replies);
}

const statuses = (replies: readonly Reply[]) =>
  replies.map(({ status }) => status).sort((a, b) => a - b);

describe("requests at once", () => {
  test("on a balance for exactly three: three are served, the others wait or are refused, and nothing is left", async () => {
    const key = at.gateway.key({ balance: 3n * PRICE });
    const replies = await race(key, 20, 3);
    expect(statuses(replies)).toEqual([200, 200, 200, ...Array<number>(17).fill(429)]);
    expect(at.providers.local.requests).toHaveLength(3);
    expect(at.gateway.balance(key)).toBe(0n);
    expect((await chat(at.gateway, key)).status).toBe(402);
  });

  test("on a balance one nano-rouble short of three: two are served", async () => {
    const key = at.gateway.key({ balance: 3n * PRICE - 1n });
    expect(statuses(await race(key, 20, 2)).filter((status) => status === 200)).toHaveLength(2);
    expect(at.gateway.balance(key)).toBe(PRICE - 1n);
  });

  test("on an overdraft for three: three are served, and not one beyond it", async () => {
    const key = at.gateway.key({ balance: 0n, overdraft: 3n * PRICE });
    expect(statuses(await race(key, 20, 3)).filter((status) => status === 200)).toHaveLength(3);
    expect(at.gateway.balance(key)).toBe(-3n * PRICE);
    expect((await chat(at.gateway, key)).status).toBe(402);
  });

  test("on a key's budget for three: three are served though the account has more", async () => {
    const key = at.gateway.key({ budget: 3n * PRICE });
    expect(statuses(await race(key, 20, 3))).toEqual([
      200,
      200,
      200,
      ...Array<number>(17).fill(402),
    ]);
    expect(at.gateway.store.keys.find(key.id)?.spent).toBe(3n * PRICE);
  });

  test("with two keys of one account share its balance", async () => {
    const first = at.gateway.key({ balance: 3n * PRICE });
    const second = at.gateway.key({ account: first.account, balance: 0n });
    const refused = Promise.withResolvers<void>();
    at.providers.local.answer = async (peer, request) => {
      await refused.promise;
      await answered({ usage: full })(peer, request);
    };
    let refusals = 0;
    const replies = Array.from({ length: 10 }, async (_, index) => {
      const reply = await chat(at.gateway, index % 2 === 0 ? first : second);
      refusals += reply.status === 200 ? 0 : 1;
      if (refusals === 7) refused.resolve();
      return reply.status;
    });
    expect((await Promise.all(replies)).filter((status) => status === 200)).toHaveLength(3);
    expect(at.gateway.balance(first)).toBe(0n);
  });

  test("with a key and the one that a rotation put in its place share one budget", async () => {
    const first = at.gateway.key({ budget: 3n * PRICE });
    const second = at.gateway.key({ account: first.account, budget: 3n * PRICE });
    const sqlite = new Database(at.gateway.path);
    sqlite.run(
      "UPDATE keys SET first_key_id = (SELECT id FROM keys WHERE public_id = ?) WHERE public_id = ?",
      [first.id, second.id],
    );
    sqlite.close();
    const refused = Promise.withResolvers<void>();
    at.providers.local.answer = async (peer, request) => {
      await refused.promise;
      await answered({ usage: full })(peer, request);
    };
    let refusals = 0;
    const replies = Array.from({ length: 10 }, async (_, index) => {
      const reply = await chat(at.gateway, index % 2 === 0 ? first : second);
      refusals += reply.status === 200 ? 0 : 1;
      if (refusals === 7) refused.resolve();
      return reply.status;
    });
    expect((await Promise.all(replies)).sort((a, b) => a - b)).toEqual([
      200,
      200,
      200,
      ...Array<number>(7).fill(402),
    ]);
    const spent = [first, second].map(({ id }) => at.gateway.store.keys.find(id)?.spent);
    expect(spent).toEqual([3n * PRICE, 3n * PRICE]);
  });

  test("that fail give everything back", async () => {
    at.providers.local.answer = refusal(500);
    const key = at.gateway.key({ balance: 20n * PRICE });
    const failed = await Promise.all(Array.from({ length: 20 }, () => chat(at.gateway, key)));
    expect(statuses(failed)).toEqual(Array<number>(20).fill(502));
    expect(at.gateway.balance(key)).toBe(20n * PRICE);
    await at.gateway.checkBooks();
    at.gateway.forgetFailures();
    at.providers.local.answer = answered({ usage: full });
    const served = await Promise.all(Array.from({ length: 20 }, () => chat(at.gateway, key)));
    expect(statuses(served)).toEqual(Array<number>(20).fill(200));
    expect(at.gateway.balance(key)).toBe(0n);
  });

  test.each([1, 2, 3])(
    "of chance lengths never cost more than there is (seed %d)",
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
      const key = at.gateway.key({ balance });
      const replies = await Promise.all(
        Array.from({ length: 60 }, () => chat(at.gateway, key, { stream: false })),
      );
      await at.gateway.checkBooks();
      const records = at.gateway.store.requests.list({ account: key.account, limit: 100 });
      const charged = records.reduce((sum, { charge }) => sum + charge, 0n);
      expect(at.gateway.balance(key)).toBe(balance - charged);
      expect(at.gateway.balance(key)).toBeGreaterThanOrEqual(0n);
      const served = replies.filter(({ status }) => status === 200);
      expect(records.filter(({ status }) => status === "done")).toHaveLength(served.length);
      const shown = served.map(({ id }) => at.gateway.store.requests.find(id)?.status);
      expect(new Set(shown)).toEqual(new Set(["done"]));
    },
  );
});

describe("what a person changes counts at the next request", () => {
  test("a credit", async () => {
    at.providers.local.answer = answered({ usage: full });
    const key = at.gateway.key({ balance: PRICE - 1n });
    expect((await chat(at.gateway, key)).status).toBe(402);
    const booking = {
      account: key.account,
      kind: "credit",
      amount: 1n,
      ref: null,
      note: null,
    } as const;
    at.gateway.store.admin.book(actor, booking);
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect(at.gateway.balance(key)).toBe(0n);
  });

  test("a debit, which cannot take what an open request holds", async () => {
    const go = Promise.withResolvers<void>();
    at.providers.local.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), streamEnd)(peer, request);
    };
    const key = at.gateway.key({ balance: 2n * PRICE });
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen("Hello");
    const debit = (amount: bigint) =>
      at.gateway.store.admin.book(actor, {
        account: key.account,
        kind: "debit",
        amount,
        ref: null,
        note: null,
      });
    expect(() => debit(PRICE + 1n)).toThrow("available");
    debit(PRICE);
    expect((await chat(at.gateway, key)).status).toBe(429);
    go.resolve();
    await client.seen("[DONE]");
    expect((await chat(at.gateway, key)).status).toBe(402);
  });

  test("a revoked key, whose open stream goes on to its end and is charged", async () => {
    const go = Promise.withResolvers<void>();
    at.providers.local.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), streamEnd)(peer, request);
    };
    const key = at.gateway.key();
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen("Hello");
    at.gateway.store.admin.revokeKey(actor, key.id);
    at.providers.local.answer = usual;
    expect((await chat(at.gateway, key)).status).toBe(401);
    go.resolve();
    await client.seen("[DONE]");
    expect(chunksOf(client)).toHaveLength(2);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: 2000n }]);
  });
});
