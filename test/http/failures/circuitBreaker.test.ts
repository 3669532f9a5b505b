import { beforeEach, describe, expect, spyOn, test } from "bun:test";
import { candidatesOf } from "../../../src/gateway/catalog.ts";
import { rouble, type TestKey } from "../../support/gateway/testApp.ts";
import { breakerStates } from "../../support/gateway/breakers.ts";
import { completion, helloEvent, usual } from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, openChat, type Reply } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { ended, responds, terminal } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import {
  json,
  raw,
  refusal,
  stream,
  text,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

const overTwo = (model: string) => [
  { provider: "one", model, priority: 1 },
  { provider: "two", priority: 2 },
];
const at = openBefore(["one", "two"], (urls) => ({
  providers: { ...urls, gone: "http://127.0.0.1:1/v1" },
  models: [
    { id: "small", routes: [{ provider: "one" }] },
    { id: "safe", routes: overTwo("small") },
    { id: "alias", routes: overTwo("small") },
    { id: "other", routes: overTwo("other") },
    { id: "gone", routes: [{ provider: "gone" }] },
  ],
  // A silent provider may take thirty times as long for a sign of life.
  sections: { billing: { disconnect_grace: "2ms" } },
}));

beforeEach(() => {
  at.providers.two.answer = usual;
});

const calls = () => at.providers.one.requests.length;
const probes = () => at.providers.one.probes.length;
const key = () => at.gateway.key();
const states = () => breakerStates(at.gateway).filter(({ provider }) => provider !== "two");

const candidateOf = (provider: string) =>
  candidatesOf(at.gateway.app.gateway.current.catalog).find(
    (candidate) => candidate.provider.id === provider,
  ) ?? expect.unreachable();
/** How many seconds an account waits that has asked nothing yet. */
const waitSeconds = () =>
  Math.ceil(at.gateway.app.gateway.health.waitMs(candidateOf("one"), 1_000_000) / 1000);

const MiB = 1024 * 1024;
/** Answers that a caller can cause at a healthy provider. */
const unusable = [
  [
    "too large",
    raw(`HTTP/1.1 200 OK\r\ncontent-length: ${33 * MiB}\r\n\r\n`, Buffer.alloc(33 * MiB, " ")),
  ],
  [
    "nested too deep",
    text(JSON.stringify(completion()).replace("{", `{"x":${"[".repeat(2000)}${"]".repeat(2000)},`)),
  ],
] as const;

/**
 * Sends this many requests, each of another account unless one is given, and returns how many reached the first
 * provider. The second one answers the others.
 */
async function ask(count: number, model = "safe", one?: TestKey): Promise<number> {
  const before = calls();
  for (let n = 0; n < count; n += 1) await chat(at.gateway, one ?? (await key()), { model });
  return calls() - before;
}

async function open(): Promise<void> {
  at.providers.one.answer = refusal(500);
  expect(await ask(6)).toBe(5);
}

/** Sends a request that the provider answers when the returned function is called. */
async function waiting(answer: ProviderAnswer, fields = {}): Promise<() => Promise<Reply>> {
  const go = Promise.withResolvers<void>();
  at.providers.one.answer = async (peer, request) => {
    await go.promise;
    await answer(peer, request);
  };
  const before = calls();
  const reply = chat(at.gateway, await key(), fields);
  await until("the provider is asked", () => calls() === before + 1);
  return () => {
    go.resolve();
    return reply;
  };
}

describe("a route that fails five times in a row", () => {
  test.each([true, false])(
    "ignores responses that its provider reports as failed (stream: %j)",
    async (isStream) => {
      const failed = isStream
        ? stream(terminal("failed"))
        : json(ended("resp_1", { status: "failed" }));
      at.providers.one.answer = failed;
      for (let n = 0; n < 6; n += 1) {
        await respond(at.gateway, await key(), { stream: isStream });
      }
      expect(states()).toMatchObject([{ state: "closed" }]);
      at.providers.one.answer = refusal(500);
      expect(await ask(4)).toBe(4);
      at.providers.one.answer = failed;
      expect((await respond(at.gateway, await key(), { stream: isStream })).status).toBe(200);
      at.providers.one.answer = refusal(500);
      expect(await ask(2)).toBe(1);
    },
  );

  test("is skipped at once", async () => {
    await open();
    expect(waitSeconds()).toBe(10);
    at.gateway.clock.advance(4000);
    expect(await ask(3)).toBe(0);
    // Less on a busy machine.
    expect(waitSeconds()).toBeWithin(3, 7);
    expect(states()).toEqual([{ provider: "one", model: "small", state: "open" }]);
  });

  test("is skipped for every model with this route, and for no other model of its provider", async () => {
    await open();
    expect(await ask(1, "alias")).toBe(0);
    expect(await ask(1, "other")).toBe(1);
  });

  test("gets a single probe, and all requests after a successful probe", async () => {
    await open();
    at.gateway.clock.advance(10_001);
    const go = Promise.withResolvers<void>();
    at.providers.one.answer = async (peer, request) => {
      await go.promise;
      await usual(peer, request);
    };
    const probe = chat(at.gateway, await key());
    await until("the probe is out", () => calls() === 6);
    expect(states()).toMatchObject([{ state: "half-open" }]);
    expect(await ask(1)).toBe(0);
    go.resolve();
    expect((await probe).status).toBe(200);
    expect(await ask(3)).toBe(3);
    expect(states()).toMatchObject([{ state: "closed" }]);
  });

  test("gets a second probe when the first one is silent for long", async () => {
    await open();
    at.gateway.clock.advance(10_001);
    const go = Promise.withResolvers<void>();
    at.providers.one.answer = async (peer, request) => {
      await go.promise;
      await usual(peer, request);
    };
    const probe = chat(at.gateway, await key());
    await until("the probe is out", () => calls() === 6);
    at.providers.one.answer = usual;
    at.gateway.clock.advance(9000);
    expect(await ask(1)).toBe(0);
    at.gateway.clock.advance(1001);
    expect(await ask(3)).toBe(3);
    expect(states()).toMatchObject([{ state: "closed" }]);
    go.resolve();
    expect((await probe).status).toBe(200);
  });

  test("ignores results of attempts that began before, and of an earlier probe", async () => {
    const attempt = await waiting(refusal(500));
    await open();
    at.gateway.clock.advance(4000);
    expect((await attempt()).status).toBe(502);
    expect(waitSeconds()).toBeLessThanOrEqual(6);
    at.gateway.clock.advance(6001);
    const probes = [await waiting(usual, { stream: true })];
    at.gateway.clock.advance(10_001);
    probes.push(await waiting(refusal(500)));
    at.providers.one.answer = refusal(500);
    at.gateway.clock.advance(10_001);
    expect(await ask(1)).toBe(1);
    expect((await probes[0]?.())?.status).toBe(200);
    expect(states()).toMatchObject([{ state: "open" }]);
    at.gateway.clock.advance(20_001);
    at.providers.one.answer = usual;
    expect(await ask(1)).toBe(1);
    expect((await probes[1]?.())?.status).toBe(502);
    expect(states()).toMatchObject([{ state: "closed" }]);
  });

  test("gets no third probe when the first probe ends by its caller's fault", async () => {
    await open();
    const go = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const probes: Promise<Reply>[] = [];
    for (const [nth, answer] of [refusal(400), usual].entries()) {
      at.gateway.clock.advance(10_001);
      at.providers.one.answer = async (peer, request) => {
        await go[nth]?.promise;
        await answer(peer, request);
      };
      probes.push(chat(at.gateway, await key()));
      await until("the probe is out", () => calls() === 6 + nth);
    }
    go[0]?.resolve();
    expect((await probes[0])?.status).toBe(400);
    expect(await ask(1)).toBe(0);
    go[1]?.resolve();
    expect((await probes[1])?.status).toBe(200);
    expect(states()).toMatchObject([{ state: "closed" }]);
  });

  test("doubles its wait after each failed probe, up to a minute", async () => {
    await open();
    for (const seconds of [10, 20, 40, 60, 60]) {
      expect(waitSeconds()).toBe(seconds);
      at.gateway.clock.advance(seconds * 1000 + 1);
      expect(await ask(1)).toBe(1);
    }
    at.gateway.clock.advance(60_001);
    at.providers.one.answer = usual;
    expect(await ask(1)).toBe(1);
    at.providers.one.answer = refusal(500);
    expect(await ask(6)).toBe(5);
    expect(waitSeconds()).toBe(10);
  });

  test("is probed again at once when its probe fails by an internal error", async () => {
    await open();
    at.gateway.clock.advance(10_001);
    const send = spyOn(candidateOf("one").provider.upstream, "send");
    send.mockImplementationOnce(() => {
      throw new Error("a fault of our own");
    });
    expect((await chat(at.gateway, await key())).status).toBe(502);
    send.mockRestore();
    at.providers.one.answer = usual;
    expect(await ask(1)).toBe(1);
    expect(states()).toMatchObject([{ state: "closed" }]);
  });

  test("is probed again at once when its probe fails by its caller's fault", async () => {
    await open();
    at.gateway.clock.advance(10_001);
    at.providers.one.answer = refusal(400);
    expect(await ask(2)).toBe(2);
    at.providers.one.answer = usual;
    expect((await chat(at.gateway, await key())).status).toBe(200);
    expect(states()).toMatchObject([{ state: "closed" }]);
  });
});

describe("a route", () => {
  test.each([400, 408, 413, 414, 431])(
    "is never skipped because of its callers' faults: %i",
    async (status) => {
      at.providers.one.answer = refusal(status);
      expect(await ask(8)).toBe(8);
    },
  );

  test.each([false, true])(
    "is skipped after five 429 answers without a time (stream: %j)",
    async (isStream) => {
      at.providers.one.answer = refusal(429);
      const waits: (string | null)[] = [];
      for (let n = 0; n < 5; n += 1) {
        const reply = await chat(at.gateway, await key(), { stream: isStream });
        expect(reply.status).toBe(502);
        waits.push(reply.headers.get("retry-after"));
      }
      expect(waits).toEqual(["1", "1", "1", "1", "10"]);
      expect(await ask(1)).toBe(0);
      at.gateway.clock.advance(10_001);
      expect(await ask(2)).toBe(1);
      expect(waitSeconds()).toBe(20);
    },
  );

  test("is not skipped by its breaker after 429 answers with a time", async () => {
    at.providers.one.answer = refusal(429, "slow down", { "retry-after": "1" });
    for (let n = 0; n < 8; n += 1) {
      expect(await ask(1)).toBe(1);
      at.gateway.clock.advance(1001);
    }
    expect(states()).toMatchObject([{ state: "closed" }]);
  });

  test("is not skipped because callers name unknown responses", async () => {
    at.providers.one.answer = refusal(404, "Item with id 'rs_1' not found.");
    for (let n = 0; n < 6; n += 1) {
      expect((await respond(at.gateway, await key())).status).toBe(404);
    }
    expect(calls()).toBe(6);
    expect(at.gateway.logText()).not.toContain("answers 404");
    at.providers.one.answer = responds();
    expect((await respond(at.gateway, await key())).status).toBe(200);
  });

  test.each(unusable)("is not skipped because answers are %s", async (_, answer) => {
    at.providers.one.answer = refusal(500);
    expect(await ask(4)).toBe(4);
    at.providers.one.answer = answer;
    expect(await ask(2)).toBe(2);
    at.providers.one.answer = refusal(500);
    expect(await ask(2)).toBe(1);
  });

  test("is not skipped because clients disconnect", async () => {
    at.providers.one.answer = () => undefined;
    for (let n = 0; n < 6; n += 1) {
      const client = new AbortController();
      const reply = fetch(`${at.gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${(await key()).key}` },
        body: JSON.stringify({
          model: "small",
          stream: true,
          messages: [{ role: "user", content: "x" }],
        }),
        signal: client.signal,
      }).catch(() => undefined);
      await until("the provider is asked", () => calls() === n + 1);
      client.abort();
      await reply;
    }
    await at.gateway.expectAuditPasses();
    expect(states()).toMatchObject([{ state: "closed" }]);
  });

  test("counts each stream that is cut after content as a failure", async () => {
    at.providers.one.answer = stream(helloEvent);
    for (let n = 0; n < 5; n += 1) {
      const client = await openChat(at.gateway, await key(), { stream: true });
      await client.seen("[DONE]");
      expect(chunksOf(client).at(-1)).toMatchObject({ error: { type: "provider_error" } });
    }
    expect(await ask(1)).toBe(0);
  });

  test("is not skipped because of a 404, which some providers send for a single request", async () => {
    at.providers.one.answer = refusal(404);
    expect(await ask(30)).toBe(30);
  });
});

describe("one account alone", () => {
  test("opens no breaker: the gateway asks the route itself, and at a bounded rate", async () => {
    const one = await key();
    at.providers.one.answer = refusal(500);
    at.providers.one.probeAnswer = usual;
    expect(await ask(3, "small", one)).toBe(3);
    await until("the gateway asks", () => probes() === 1);
    expect(await ask(20, "small", one)).toBe(20);
    expect(probes()).toBe(1);
    for (const seconds of [10, 20, 40, 60, 60]) {
      const before = probes();
      at.gateway.clock.advance(seconds * 1000 - 2000);
      await ask(4, "small", one);
      expect(probes()).toBe(before);
      at.gateway.clock.advance(2001);
      await ask(4, "small", one);
      await until("the gateway asks", () => probes() === before + 1);
    }
    expect(states()).toMatchObject([{ state: "closed" }]);
    expect(at.providers.one.probes[0]?.json).toMatchObject({ model: "small", max_tokens: 1 });
  });

  test("opens it at its fifth failure at the latest if the gateway's own request fails too", async () => {
    const one = await key();
    at.providers.one.answer = refusal(500);
    expect(await ask(3, "small", one)).toBe(3);
    await until("the gateway asks", () => probes() === 1);
    await until("the probe is over", () => at.gateway.app.gateway.inFlight.exchanges.size === 0);
    await ask(2, "small", one);
    expect(states()).toMatchObject([{ state: "open" }]);
  });

  test("opens it at its fifth failure if the provider cannot be reached", async () => {
    const one = await key();
    for (let n = 0; n < 5; n += 1) await chat(at.gateway, one, { model: "gone" });
    expect(states()).toMatchObject([{ provider: "gone", state: "open" }]);
  });

  test("does not probe it after it opened it: the gateway does", async () => {
    const [one, other] = [await key(), await key()];
    at.providers.one.answer = refusal(500);
    await ask(1, "safe", other);
    await ask(4, "safe", one);
    expect(states()).toMatchObject([{ state: "open" }]);
    at.gateway.clock.advance(10_001);
    const before = probes();
    for (const culprit of [one, other]) expect(await ask(1, "safe", culprit)).toBe(0);
    await until("the gateway asks", () => probes() === before + 1);
    await until("it stays open", () => states()[0]?.state === "open");
    expect(waitSeconds()).toBe(20);
    at.gateway.clock.advance(20_001);
    at.providers.one.answer = usual;
    expect(await ask(1, "safe", one)).toBe(0);
    await until("it is closed", () => states()[0]?.state === "closed");
    expect(await ask(1, "safe", one)).toBe(1);
  });

  test("is charged for nothing that the gateway asks", async () => {
    const one = await key();
    at.providers.one.answer = refusal(500);
    at.providers.one.probeAnswer = usual;
    await ask(3, "small", one);
    await until("the gateway asks", () => probes() === 1);
    await at.gateway.expectAuditPasses();
    expect(await at.gateway.records(one, 3)).toHaveLength(3);
    expect(await at.gateway.balance(one)).toBe(100n * rouble);
  });
});

describe("a route without an alternative", () => {
  test("is asked although its breaker is open, at a bounded rate", async () => {
    await open();
    const replies = await Promise.all(
      Array.from({ length: 12 }, async () => chat(at.gateway, await key())),
    );
    expect(calls() - 5).toBeWithin(5, 12);
    const refused = replies.filter(({ headers }) => headers.get("retry-after") !== null);
    for (const { status, headers } of refused)
      expect([status, Number(headers.get("retry-after"))]).toEqual([502, expect.any(Number)]);
    expect(waitSeconds()).toBeLessThanOrEqual(10);
  });

  test("is usable for all as soon as it answers", async () => {
    await open();
    at.providers.one.answer = usual;
    expect((await chat(at.gateway, await key())).status).toBe(200);
    expect(states()).toMatchObject([{ state: "closed" }]);
    expect(await ask(3)).toBe(3);
  });

  test("is not asked while its provider wants to be left alone", async () => {
    at.providers.one.answer = refusal(429, "slow down", { "retry-after": "30" });
    expect(await ask(3, "small")).toBe(1);
  });
});
