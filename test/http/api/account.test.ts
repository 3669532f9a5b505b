import { describe, expect, test } from "bun:test";
import type { Account } from "../../../src/contract/account/account.ts";
import { formatRoubles } from "../../../src/lib/money.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { call, chat } from "../../support/gateway/chatCalls.ts";
import { costOf, oneModel } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { rouble, type KeyOptions, type TestKey } from "../../support/gateway/testApp.ts";
import { untilAsync } from "../../support/until.ts";

const limits = { requests_per_minute: 600, tokens_per_minute: 0, concurrent_requests: 64 };
const at = openOneModelBefore({ limits });
const charged = costOf({ prompt: 20, cached: 5, cacheWrite: 3, completion: 7 });
/** The balance of 100 roubles after one usual answer. */
const rest = "99.9981975";

async function account(key: TestKey): Promise<unknown> {
  const { status, body } = await call(at.gateway, key, { path: "/v1/account" });
  expect(status).toBe(200);
  return body;
}

/** The body for a new key with 100 roubles, with changes to its account and to itself. */
async function accountBody(
  key: TestKey,
  changes: object = {},
  ofKey: object = {},
): Promise<object> {
  const { prefix } = (await at.gateway.store.keys.find(key.id)) ?? {};
  return {
    account: key.account,
    balance_rub: "100",
    held_rub: "0",
    available_rub: "100",
    ...changes,
    key: {
      id: key.id,
      label: null,
      prefix,
      expires_at: null,
      budget_rub: null,
      spent_rub: "0",
      limits,
      limits_remaining: { requests: expect.any(Number), tokens: null, concurrent_requests: 64 },
      ...ofKey,
    },
    contact_url: null,
  };
}

describe("GET /v1/account", () => {
  test("shows a new key its account's money and its own limits", async () => {
    const key = await at.gateway.key();
    expect(await account(key)).toEqual(await accountBody(key));
    expect(key.key).toStartWith((await at.gateway.store.keys.find(key.id))?.prefix ?? "?");
  });

  const expiresAt = Date.UTC(2100, 0, 1);
  test.each<[string, KeyOptions, object, object]>([
    ["an overdraft", { overdraft: rouble / 2n }, { available_rub: "100.5" }, {}],
    ["no money", { balance: 0n }, { balance_rub: "0", available_rub: "0" }, {}],
    ["a budget", { budget: 12n * rouble }, {}, { budget_rub: "12" }],
    ["an end", { expiresAt }, {}, { expires_at: "2100-01-01T00:00:00.000Z" }],
    ["a label", { label: "for the лаптоп" }, {}, { label: "for the лаптоп" }],
    [
      "its own limits, where 0 is no limit",
      { requestsPerMinute: 0, tokensPerMinute: 5000, concurrentRequests: 3 },
      {},
      {
        limits: { requests_per_minute: 0, tokens_per_minute: 5000, concurrent_requests: 3 },
        limits_remaining: { requests: null, tokens: 5000, concurrent_requests: 3 },
      },
    ],
  ])("shows %s", async (_, options, ofAccount, ofKey) => {
    const key = await at.gateway.key(options);
    expect(await account(key)).toEqual(await accountBody(key, ofAccount, ofKey));
  });

  test("shows a charge, a held amount and a refund", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const first = await chat(at.gateway, key);
    expect(first.headers.get("x-tollgate-cost-rub")).toBe("0.0018025");
    const after = { balance_rub: rest, available_rub: rest };
    await at.gateway.unreserved(key);
    expect(await account(key)).toEqual(await accountBody(key, after, { spent_rub: "0.0018025" }));

    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await go.promise;
      await usual(peer, request);
    };
    const open = chat(at.gateway, key);
    const { store } = at.gateway;
    const reserved = async () => (await store.accounts.find(key.account))?.reserved ?? 0n;
    await untilAsync("money is reserved", async () => (await reserved()) > 0n);
    const left = {
      ...after,
      held_rub: formatRoubles(await reserved()),
      available_rub: formatRoubles(100n * rouble - charged - (await reserved())),
    };
    const limits_remaining = {
      requests: expect.any(Number),
      tokens: null,
      concurrent_requests: 63,
    };
    expect(await account(key)).toEqual(
      await accountBody(key, left, { spent_rub: "0.0018025", limits_remaining }),
    );
    go.resolve();
    await open;
    await at.gateway.unreserved(key);

    await store.admin.refund(
      { name: "tester", command: "test", at: Date.now() },
      { request: first.id, amount: null, ref: null, note: null },
    );
    expect(await account(key)).toEqual(await accountBody(key, after, { spent_rub: "0.0018025" }));
    expect(await at.gateway.balance(key)).toBe(100n * rouble - charged);
  });

  test("shows what is left of the key's limits: without this request's slot, with those of open ones", async () => {
    const key = await at.gateway.key({
      requestsPerMinute: 3,
      tokensPerMinute: 1000,
      concurrentRequests: 2,
    });
    const remaining = async () => {
      const { headers, body } = await call(at.gateway, key, { path: "/v1/account" });
      const { requests, ...others } = (body as Account).key.limits_remaining;
      expect(requests).toBe(Number(headers.get("x-ratelimit-remaining-requests")));
      return { requests, ...others };
    };
    expect(await remaining()).toEqual({ requests: 2, tokens: 1000, concurrent_requests: 2 });
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await go.promise;
      await usual(peer, request);
    };
    const sent = at.provider.requests.length;
    // So many that a busy machine does not give them back meanwhile.
    const messages = [{ role: "user", content: "word ".repeat(500) }];
    const open = chat(at.gateway, key, { messages });
    await at.provider.request(sent);
    const meanwhile = await remaining();
    expect(meanwhile).toMatchObject({ requests: 0, concurrent_requests: 1 });
    expect(meanwhile.tokens).toBeLessThan(1000);
    go.resolve();
    await open;
    const other = await at.gateway.key({ account: key.account, balance: 0n });
    expect(await account(other)).toMatchObject({ key: { limits_remaining: { requests: 599 } } });
  });

  test("names the operator's contact, also after a reload", async () => {
    const key = await at.gateway.key();
    const local = `http://127.0.0.1:${at.provider.port}/v1`;
    for (const contact of ["https://example.com/buy", "mailto:sales@example.com"]) {
      await at.gateway.reload(oneModel(local, { limits, page: { contact } }));
      expect(await account(key)).toMatchObject({ contact_url: contact });
    }
    await at.gateway.reload(oneModel(local, { limits }));
    expect(await account(key)).toMatchObject({ contact_url: null });
  });

  test("shows two keys of one account the same money, and each its own limits only", async () => {
    at.provider.answer = usual;
    const one = await at.gateway.key();
    const two = await at.gateway.key({ account: one.account, balance: 0n, budget: rouble });
    const other = await at.gateway.key();
    await chat(at.gateway, two);
    await at.gateway.unreserved(two);
    const money = { balance_rub: rest, available_rub: rest };
    const ofTwo = { spent_rub: "0.0018025", budget_rub: "1" };
    expect(await account(one)).toEqual(await accountBody(one, money));
    expect(await account(two)).toEqual(await accountBody(two, money, ofTwo));
    expect(await account(other)).toEqual(await accountBody(other));
  });

  test("shows a credit and reloaded limits at the next request", async () => {
    const key = await at.gateway.key();
    const booking = { kind: "credit", amount: rouble, ref: null, note: null } as const;
    const { store } = at.gateway;
    await store.admin.changeBalance(
      { name: "tester", command: "test", at: Date.now() },
      { account: key.account, ...booking },
    );
    const more = { balance_rub: "101", available_rub: "101" };
    expect(await account(key)).toEqual(await accountBody(key, more));
    const local = `http://127.0.0.1:${at.provider.port}/v1`;
    const halved = { ...limits, requests_per_minute: 300 };
    await at.gateway.reload(oneModel(local, { limits: halved }));
    expect(await account(key)).toEqual(await accountBody(key, more, { limits: halved }));
    await at.gateway.reload(oneModel(local, { limits }));
  });
});
