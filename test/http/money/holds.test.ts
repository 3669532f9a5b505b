import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { formatRoubles } from "../../../src/lib/money.ts";
import { answered } from "../../support/provider/chatAnswers.ts";
import { ask, chat, expectRefusal } from "../../support/gateway/chatCalls.ts";
import type { GatewayConfig } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import { startProvider } from "../../support/provider/scriptedProvider.ts";
import { openTestApp, type TestKey } from "../../support/gateway/testApp.ts";
import { until } from "../../support/until.ts";
import { describeSqlite } from "../../support/testedEngines.ts";

/** Only completion tokens cost money, so that the hold equals the charge. */
const config = (providers: { local: string }, holdWait: string): GatewayConfig => ({
  providers,
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
  sections: { billing: { hold_wait: holdWait } },
});
const HOLD_WAIT_MS = 1000;
const at = openBefore(["local"], (urls) => config(urls, `${HOLD_WAIT_MS}ms`));

const TOKEN = 1000n;
const PRICE = 10n * TOKEN;
const full = answered({ usage: { prompt_tokens: 5, completion_tokens: 10 } });
const half = answered({ usage: { prompt_tokens: 5, completion_tokens: 5 } });

/** The provider's first call waits. The others are answered. */
function hangFirst(): { release(): void } {
  const released = Promise.withResolvers<void>();
  let calls = 0;
  at.providers.local.answer = async (peer, request) => {
    calls += 1;
    if (calls === 1) await released.promise;
    await half(peer, request);
  };
  return { release: () => released.resolve() };
}

async function firstIsHeld(): Promise<void> {
  await until(
    "the first request is with its provider",
    () => at.providers.local.requests.length > 0,
  );
}

/** It was admitted, and asked for its hold. */
async function secondWaits(): Promise<void> {
  await until("the second request is there", () => at.gateway.app.requests.open === 2);
  // A later request was refused, so the second one has asked for its hold before.
  expect((await chat(at.gateway, await at.gateway.key({ balance: 0n }))).status).toBe(402);
}

describeSqlite("requests that can never be paid", () => {
  test("reserve nothing, so that a command can take the whole balance", async () => {
    const key = await at.gateway.key({ balance: PRICE - 1n });
    expect((await chat(at.gateway, key)).status).toBe(402);
    await at.gateway.advance(2000);
    await at.gateway.unreserved(key);
    for (let time = 0; time < 3; time += 1) expect((await chat(at.gateway, key)).status).toBe(402);
    expect(await at.gateway.store.accounts.find(key.account)).toMatchObject({ reserved: 0n });
  });
});

describe("a request that fits except for held money", () => {
  test("waits for it, and is served when it is released", async () => {
    const key = await at.gateway.key({ balance: PRICE + PRICE / 2n });
    const hanging = hangFirst();
    const first = chat(at.gateway, key);
    await firstIsHeld();
    const second = chat(at.gateway, key);
    await secondWaits();
    expect(at.providers.local.requests).toHaveLength(1);
    hanging.release();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    expect(await at.gateway.balance(key)).toBe(PRICE / 2n);
  });

  test.each([
    ["JSON", {}, 10n],
    ["a stream", { stream: true }, 10n],
    ["JSON with a bound", { max_tokens: 7 }, 7n],
  ])("gets 429 with the code and both amounts after hold_wait (%s)", async (_, changes, tokens) => {
    const key = await at.gateway.key({ balance: PRICE + 3n * TOKEN });
    const hanging = hangFirst();
    const first = chat(at.gateway, key);
    await firstIsHeld();
    const startedMs = performance.now();
    const second = await chat(at.gateway, key, changes);
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(990);
    expectRefusal(second, [429, "rate_limit_error", "rate limit exceeded"], {
      code: "balance_held",
      required_rub: formatRoubles(tokens * TOKEN),
      available_rub: formatRoubles(3n * TOKEN),
    });
    expect(second.headers.get("retry-after")).toBe("1");
    expect(at.providers.local.requests).toHaveLength(1);
    hanging.release();
    expect((await first).status).toBe(200);
  });

  test("whose client disconnects before that is never sent, and not charged", async () => {
    const key = await at.gateway.key({ balance: PRICE + PRICE / 2n });
    const hanging = hangFirst();
    const first = chat(at.gateway, key);
    await firstIsHeld();
    const client = await connectRaw(at.gateway.port);
    client.send(chatBytes(key.key, JSON.stringify(ask())));
    await secondWaits();
    client.reset();
    await Bun.sleep(50);
    hanging.release();
    expect((await first).status).toBe(200);
    await until("the second request is over", () => at.gateway.app.requests.open === 0);
    expect(at.providers.local.requests).toHaveLength(1);
    expect(await at.gateway.balance(key)).toBe(PRICE);
  });

  test("is served when a credit makes room", async () => {
    const key = await at.gateway.key({ balance: PRICE });
    const hanging = hangFirst();
    const first = chat(at.gateway, key);
    await firstIsHeld();
    const second = chat(at.gateway, key);
    await secondWaits();
    const booking = {
      account: key.account,
      kind: "credit",
      amount: PRICE,
      ref: null,
      note: null,
    } as const;
    await at.gateway.store.admin.changeBalance({ name: "tester", command: "test", at: 0 }, booking);
    expect((await second).status).toBe(200);
    hanging.release();
    expect((await first).status).toBe(200);
  });

  test("gets 402 at once when its key's budget cannot pay it any more", async () => {
    const key = await at.gateway.key({ balance: PRICE + TOKEN });
    const limited = await at.gateway.key({ account: key.account, balance: 0n, budget: 5n * TOKEN });
    const hanging = hangFirst();
    const first = chat(at.gateway, key);
    await firstIsHeld();
    const statuses: number[] = [];
    const asks = async (by: TestKey, tokens: number): Promise<void> => {
      statuses.push((await chat(at.gateway, by, { max_tokens: tokens })).status);
    };
    const waiting = [asks(key, 5)];
    await until("one request waits", () => at.gateway.app.requests.open === 2);
    waiting.push(asks(limited, 5));
    await until("a second one waits", () => at.gateway.app.requests.open === 3);
    // A small request overtakes the waiting ones, and takes a part of the key's budget.
    await asks(limited, 1);
    await Promise.all(waiting);
    expect(new Set(statuses.slice(0, 2))).toEqual(new Set([200, 402]));
    expect(statuses.slice(2)).toEqual([429]);
    hanging.release();
    expect((await first).status).toBe(200);
  });

  test("is refused when the money is spent", async () => {
    const key = await at.gateway.key({ balance: PRICE });
    const spent = Promise.withResolvers<void>();
    at.providers.local.answer = async (peer, request) => {
      await spent.promise;
      await full(peer, request);
    };
    const first = chat(at.gateway, key);
    await firstIsHeld();
    const second = chat(at.gateway, key);
    await secondWaits();
    spent.resolve();
    expect((await first).status).toBe(200);
    expect((await second).status).toBe(402);
    expect(await at.gateway.balance(key)).toBe(0n);
  });
});

describeSqlite("a command takes the money of a request before it is reserved", () => {
  test.each([
    ["JSON", {}],
    ["a stream", { stream: true }],
  ])("it is refused by what is left, and no provider is asked: %s", async (_, changes) => {
    const { gateway, providers } = at;
    providers.local.answer = full;
    providers.local.forget();
    const key = await gateway.key({ balance: PRICE });
    // The transaction of the command keeps the reserve from being committed.
    const other = new Database(gateway.path);
    other.run("PRAGMA busy_timeout = 2000");
    other.run("BEGIN IMMEDIATE");
    const asked = chat(gateway, key, changes);
    const { writer } = gateway.app.gateway;
    await until("the request waits for its reserve", () => writer.queued > 0);
    other.run(
      `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, at)
       SELECT id, ledger_seq + 1, 'debit', -1, balance - 1, 0 FROM accounts WHERE name = ?`,
      [key.account],
    );
    other.run("COMMIT");
    other.close();
    expectRefusal(await asked, [402, "billing_error", "insufficient balance"], {
      code: "insufficient_balance",
      required_rub: formatRoubles(PRICE),
      available_rub: formatRoubles(PRICE - 1n),
    });
    expect(providers.local.requests).toEqual([]);
    expect(await gateway.records(key, 0)).toEqual([]);
    expect(await gateway.balance(key)).toBe(PRICE - 1n);
  });
});

test("a request that waits for money when the gateway stops is refused, and never sent", async () => {
  const provider = startProvider();
  const gateway = await openTestApp(
    config({ local: `http://127.0.0.1:${provider.port}/v1` }, "5s"),
  );
  try {
    provider.answer = () => {};
    const key = await gateway.key({ balance: PRICE });
    const first = chat(gateway, key);
    await provider.request(0);
    const second = chat(gateway, key);
    // When another account's request is refused, the second one is waiting.
    expect((await chat(gateway, await gateway.key({ balance: 0n }))).status).toBe(402);
    gateway.app.abortAll();
    for (const reply of [await first, await second])
      expectRefusal(reply, [502, "provider_error", "service temporarily unavailable"]);
    expect(provider.requests).toHaveLength(1);
    expect(await gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  } finally {
    provider.stop();
    await gateway.close();
  }
});
