import { describe, expect, test } from "bun:test";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { choice, completion, usual } from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import type { GatewayConfig } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { json, refusal } from "../../support/provider/scriptedProvider.ts";
import { until, untilAsync } from "../../support/until.ts";

const configOf = ({ one, two }: { one: string; two: string }): GatewayConfig => ({
  providers: { one, two },
  models: [{ id: "small", routes: [{ provider: "one" }, { provider: "two" }] }],
});
const at = openBefore(["one", "two"], configOf);

function urls(): { one: string; two: string } {
  const { one, two } = at.providers;
  return { one: `http://127.0.0.1:${one.port}/v1`, two: `http://127.0.0.1:${two.port}/v1` };
}

describe.each([false, true])("a reload during a request (stream: %j)", (stream) => {
  test("lets its failover use the old config, at one charge", async () => {
    const reloaded = Promise.withResolvers<void>();
    at.providers.one.answer = async (peer, request) => {
      await reloaded.promise;
      await refusal(500)(peer, request);
    };
    at.providers.two.answer = usual;
    const key = await at.gateway.key();
    const reply = chat(at.gateway, key, { stream });
    await at.providers.one.request(0);
    const { one, two } = urls();
    const providers = { one, two: { base_url: two, api_key: `sk-${stream}` } };
    await at.gateway.reload({ ...configOf(urls()), providers });
    reloaded.resolve();
    expect((await reply).status).toBe(200);
    expect(await at.gateway.store.requests.attempts((await reply).id)).toMatchObject([
      { provider: "one", status: 500 },
      { provider: "two", outcome: "ok" },
    ]);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", provider: "two" }]);
    await until("the clients of before keep no connection", () => at.providers.two.openCount === 0);
  });
});

test("reloads do not keep old configs in memory", async () => {
  const { one, two } = urls();
  const past: WeakRef<object>[] = [];
  for (let round = 0; round < 10; round += 1) {
    past.push(new WeakRef(at.gateway.app.gateway.current.catalog));
    const providers = { one, two: { base_url: two, api_key: `sk-round-${round}` } };
    await at.gateway.reload({ ...configOf(urls()), providers });
  }
  // A WeakRef keeps its target alive until the end of the current turn of the event loop.
  await Bun.sleep(0);
  Bun.gc(true);
  expect(past.filter((catalog) => catalog.deref() !== undefined).length).toBeLessThan(3);
});

describe("a provider after a reload", () => {
  /** Another config with the same provider `one` and a changed `two`. */
  let rounds = 0;
  const changed = (one: Exclude<GatewayConfig["providers"][string], string>): GatewayConfig => ({
    ...configOf(urls()),
    providers: {
      two: { base_url: urls().two, api_key: `sk-${(rounds += 1)}` },
      one: { base_url: urls().one, ...one },
    },
  });

  test("counts its open requests against max_concurrent, also when the reload changed it", async () => {
    await at.gateway.reload(changed({ max_concurrent: 1 }));
    const go = Promise.withResolvers<void>();
    at.providers.one.answer = async (peer, request) => {
      await go.promise;
      await usual(peer, request);
    };
    at.providers.two.answer = usual;
    const first = chat(at.gateway, await at.gateway.key());
    await at.providers.one.request(0);
    for (const idle of ["52s", "53s"]) {
      await at.gateway.reload(changed({ max_concurrent: 1, idle_timeout: idle }));
      expect((await chat(at.gateway, await at.gateway.key())).status).toBe(200);
    }
    expect([at.providers.one.requests.length, at.providers.two.requests.length]).toEqual([1, 2]);
    go.resolve();
    expect((await first).status).toBe(200);
    expect((await chat(at.gateway, await at.gateway.key())).status).toBe(200);
    expect(at.providers.one.requests).toHaveLength(2);
  });

  test("that is unchanged keeps its open requests, its limit and its connections", async () => {
    const one = { max_concurrent: 1 };
    await at.gateway.reload(changed(one));
    const go = Promise.withResolvers<void>();
    at.providers.one.answer = async (peer, request) => {
      await go.promise;
      await usual(peer, request);
    };
    at.providers.two.answer = usual;
    const first = chat(at.gateway, await at.gateway.key());
    await at.providers.one.request(0);
    await at.gateway.reload(changed(one));
    expect((await chat(at.gateway, await at.gateway.key())).status).toBe(200);
    expect([at.providers.one.requests.length, at.providers.two.requests.length]).toEqual([1, 1]);
    go.resolve();
    expect((await first).status).toBe(200);
    await at.gateway.reload(changed(one));
    expect((await chat(at.gateway, await at.gateway.key())).status).toBe(200);
    expect([at.providers.one.requests.length, at.providers.one.openCount]).toEqual([2, 1]);
  });

  test.each([
    ["sent a rate limit", 1, refusal(429, "later", { "retry-after": "60" })],
    ["failed five times in a row", 5, refusal(500)],
  ])(
    "that is unchanged keeps its cooldown when it %s; a changed one is tried again",
    async (_, times, answer) => {
      await at.gateway.reload(changed({ idle_timeout: "50s" }));
      Object.assign(at.providers.one, { answer });
      at.providers.two.answer = usual;
      const ask = async () =>
        expect((await chat(at.gateway, await at.gateway.key())).status).toBe(200);
      for (let time = 0; time < times; time += 1) await ask();
      await at.gateway.reload(changed({ idle_timeout: "50s" }));
      await ask();
      expect(at.providers.one.requests).toHaveLength(times);
      await at.gateway.reload(changed({ idle_timeout: "51s" }));
      await ask();
      expect(at.providers.one.requests).toHaveLength(times + 1);
    },
  );
});

test.each([
  ["its key", refusal(401)],
  ["its empty account", refusal(402)],
])("a provider that refused %s is tried again at once after a reload", async (_, answer) => {
  await at.gateway.reload(configOf(urls()));
  at.providers.one.answer = answer;
  at.providers.two.answer = usual;
  const key = await at.gateway.key();
  const ask = async () => expect((await chat(at.gateway, key)).status).toBe(200);
  await ask();
  await ask();
  expect([at.providers.one.requests.length, at.providers.two.requests.length]).toEqual([1, 2]);
  await at.gateway.reload(configOf(urls()));
  // If the cause remains, the next attempt starts the cooldown again.
  await ask();
  await ask();
  expect([at.providers.one.requests.length, at.providers.two.requests.length]).toEqual([2, 4]);
  await at.gateway.reload(configOf(urls()));
  at.providers.one.answer = usual;
  await ask();
  expect([at.providers.one.requests.length, at.providers.two.requests.length]).toEqual([3, 4]);
});

test("a request that waited for money during a reload does not start a cooldown for the new key", async () => {
  const withKey = (api_key: string): GatewayConfig => ({
    providers: { one: { base_url: urls().one, api_key } },
    models: [{ id: "small", routes: [{ provider: "one" }] }],
  });
  await at.gateway.reload(withKey("sk-old"));
  const go = Promise.withResolvers<void>();
  at.providers.one.answer = async (peer, request) => {
    if (at.providers.one.requests.length === 1) {
      await go.promise;
      await usual(peer, request);
    } else await (request.text.includes("sk-old") ? refusal(401) : usual)(peer, request);
  };
  // Enough for one hold of about 0.21 roubles, and not for two.
  const key = await at.gateway.key({ balance: 300_000_000n });
  const first = chat(at.gateway, key);
  await at.providers.one.request(0);
  const waiting = chat(at.gateway, key);
  // Another account's refusal takes longer than the waiting one's way to its wait.
  await chat(at.gateway, await at.gateway.key({ balance: 1n }));
  await at.gateway.reload(withKey("sk-new"));
  go.resolve();
  expect([(await first).status, (await waiting).status]).toEqual([200, 502]);
  expect((await chat(at.gateway, key)).status).toBe(200);
});

test("a request that waits for money during a reload is answered by the config that it began with", async () => {
  const ruled = (unknown_fields: "forward" | "reject"): GatewayConfig => ({
    ...configOf(urls()),
    sections: { api: { unknown_fields } },
  });
  await at.gateway.reload(ruled("forward"));
  const go = Promise.withResolvers<void>();
  at.providers.one.answer = async (peer, request) => {
    await go.promise;
    const message = { role: "assistant", content: "Hello", reasoning_content: "hm" };
    await json(completion({ choices: [choice(message)] }))(peer, request);
  };
  // Enough for one hold of about 0.21 roubles, and not for two.
  const key = await at.gateway.key({ balance: 300_000_000n });
  const first = chat(at.gateway, key, { max_tokens: 1000 });
  await at.providers.one.request(0);
  const waiting = chat(at.gateway, key, { max_tokens: 1000 });
  await until("it waits", () => at.gateway.app.requests.open === 2);
  // Another account's refusal takes longer than the waiting one's way to its wait.
  await chat(at.gateway, await at.gateway.key({ balance: 1n }));
  await at.gateway.reload(ruled("reject"));
  go.resolve();
  await first;
  const reasoning = { choices: [{ message: { reasoning_content: "hm" } }] };
  expect((await waiting).body).toMatchObject(reasoning);
  expect((await chat(at.gateway, key)).body).not.toMatchObject(reasoning);
});

test("a reload with a shorter keep_requests folds older requests at once, and the next reload too", async () => {
  const keeping = (keep_requests: string): GatewayConfig => ({
    ...configOf(urls()),
    sections: { database: { keep_requests } },
  });
  await at.gateway.reload(keeping("10d"));
  at.providers.one.answer = usual;
  const { id: first } = await chat(at.gateway, await at.gateway.key());
  const { id: second } = await chat(at.gateway, await at.gateway.key());
  const { requests } = at.gateway.store;
  at.gateway.clock.advance(2 * DAY_MS);
  const { id: third } = await chat(at.gateway, await at.gateway.key());
  await at.gateway.reload(keeping("36h"));
  const isFolded = async (id: string) => (await requests.find(id)) === undefined;
  await untilAsync(
    "they are folded",
    async () => (await isFolded(first)) && (await isFolded(second)),
  );
  expect(await isFolded(third)).toBe(false);
  at.gateway.clock.advance(DAY_MS);
  // Its age is that of the newest request.
  await chat(at.gateway, await at.gateway.key());
  await at.gateway.reload(keeping("23h"));
  await untilAsync("the last is folded", () => isFolded(third));
});
