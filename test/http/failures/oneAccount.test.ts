import { describe, expect, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import { breakerStates } from "../../support/gateway/breakers.ts";
import { chat, expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import {
  cut,
  json,
  refusal,
  stream,
  streamHead,
  raw,
  text,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import { helloEvent } from "../../support/provider/chatAnswers.ts";
import { until } from "../../support/until.ts";

/** What one account provokes takes no route, no provider and no answer from another account. */
const at = openBefore(["one", "two"], ({ one, two }) => ({
  providers: {
    one: { base_url: one, first_byte_timeout: "1s", total_timeout: "2s" },
    two,
  },
  models: [
    { id: "small", routes: [{ provider: "one" }] },
    { id: "other", routes: [{ provider: "one" }] },
    {
      id: "safe",
      routes: [
        { provider: "one", model: "small", priority: 1 },
        { provider: "two", priority: 2 },
      ],
    },
  ],
}));

const POISON = { messages: [{ role: "user", content: "POISON" }] };

/** Answers the one who sends poison like this, and all others as usual. */
function answersPoison(answer: ProviderAnswer): void {
  at.providers.one.answer = (peer, request) =>
    (request.body.includes("POISON") ? answer : usual)(peer, request);
}

const ask = (key: TestKey, fields: object = {}) => chat(at.gateway, key, fields);
const words = (status: number, error: object) => json({ error }, { status });
const silence: ProviderAnswer = () => undefined;
const permission = words(403, {
  code: 403,
  status: "PERMISSION_DENIED",
  message: "The caller does not have permission",
});

const triggers: readonly (readonly [string, ProviderAnswer, object?])[] = [
  ["500 for one prompt", refusal(500)],
  ["500 in the middle of a stream", stream(helloEvent), { stream: true }],
  ["a closed connection", cut("reset")],
  [
    "429 for a request above the tokens of a minute",
    words(429, {
      message: "Request too large for gpt-5 in organization org-Ab12Cd34Ef on tokens per min (TPM)",
      type: "tokens",
      code: "rate_limit_exceeded",
    }),
  ],
  [
    "413 for a request above the tokens of a minute, with a time",
    json(
      {
        error: {
          message: "Request too large for model `m` on tokens per minute (TPM): Limit 6000",
          type: "tokens",
          code: "rate_limit_exceeded",
        },
      },
      { status: 413, headers: { "retry-after": "30" } },
    ),
  ],
  ["429 without a time", refusal(429)],
  ["408", refusal(408)],
  ["413", refusal(413)],
  ["431", text("<html>Request Header Fields Too Large</html>", { status: 431, type: "text/html" })],
  [
    "a firewall's 403 in HTML",
    text("<html>Sorry, you have been blocked</html>", { status: 403, type: "text/html" }),
  ],
  ["a 403 for a file of somebody else", permission],
  [
    "402 for the bound of the request",
    words(402, {
      message:
        "This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 2000.",
    }),
  ],
  ["silence beyond first_byte_timeout", silence, { stream: true }],
  ["a head and then silence", raw(streamHead), { stream: true }],
  ["an answer beyond total_timeout", silence],
];

describe.each(triggers)("a client that provokes %s", (_, answer, fields = {}) => {
  test("takes no answer from another client of the route", async () => {
    const [bad, good] = [await at.gateway.key(), await at.gateway.key()];
    answersPoison(answer);
    const seen: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      await Promise.all(
        Array.from({ length: 8 }, () => ask(bad, { ...POISON, ...fields, model: "small" })),
      );
      // First with an alternative: without one an open breaker would be asked all the same, and close.
      for (const model of ["safe", "small", "other"])
        seen.push((await ask(good, { model })).status);
      at.gateway.clock.advance(10_001);
    }
    expect(seen).toEqual(Array.from({ length: 9 }, () => 200));
    expect(at.providers.two.requests).toHaveLength(0);
    expect(breakerStates(at.gateway).every(({ state }) => state === "closed")).toBe(true);
  });
});

describe("a 403 that says nothing known", () => {
  const isAvoided = () =>
    at.gateway.app.gateway.health.refusedProviders(
      at.gateway.app.gateway.current.catalog.models.get("small")?.chatCandidates ?? [],
    ).size > 0;

  test("goes to the next route, and the gateway asks the provider itself", async () => {
    answersPoison(permission);
    at.providers.two.answer = usual;
    expect((await ask(await at.gateway.key(), { ...POISON, model: "safe" })).status).toBe(200);
    await until("the gateway asks", () => at.providers.one.probes.length === 1);
    await at.gateway.expectAuditPasses();
    expect(isAvoided()).toBe(false);
  });

  test("is the account's if the gateway meets it too: all models of the provider are avoided", async () => {
    at.providers.one.answer = permission;
    expectRefusal(await ask(await at.gateway.key(), { model: "other" }), noProvider);
    await until("the gateway asks, and the provider is avoided", isAvoided);
    const reply = await ask(await at.gateway.key(), { model: "small" });
    expect([reply.status, reply.headers.get("retry-after")]).toEqual([502, "300"]);
    expect(at.providers.one.requests).toHaveLength(1);
    expect(at.gateway.log.findLast(({ event }) => event === "provider_refused")).toMatchObject({
      level: "error",
      provider: "one",
      status: 403,
      cooldown_ms: 300_000,
    });
  });

  test("is the account's if a second account meets it", async () => {
    at.providers.one.answer = permission;
    at.providers.one.probeAnswer = silence;
    for (const key of [await at.gateway.key(), await at.gateway.key()])
      await ask(key, { model: "small" });
    expect(isAvoided()).toBe(true);
    at.gateway.app.abortAll();
    at.gateway.app.gateway.inFlight.isAborting = false;
  });
});

describe("what is not the caller's", () => {
  test("a quota of one model puts its route in cooldown, and no other model", async () => {
    const quota = words(403, { message: "no", code: "AllocationQuota.FreeTierOnly" });
    at.providers.one.answer = (peer, request) =>
      (request.body.includes('"other"') ? quota : usual)(peer, request);
    const key = await at.gateway.key();
    const reply = await ask(key, { model: "other" });
    expect([reply.status, reply.headers.get("retry-after")]).toEqual([502, "300"]);
    expect((await ask(key, { model: "small" })).status).toBe(200);
    expect((await ask(key, { model: "other" })).status).toBe(502);
    expect(at.providers.one.requests).toHaveLength(2);
    expect(at.gateway.log.findLast(({ level }) => level === "error")).toMatchObject({
      event: "model_quota_used_up",
      provider: "one",
      model: "other",
    });
  });

  test.each([
    [400, { message: "Your organization must be verified to stream this model.", param: "stream" }],
    [400, { message: "Organization has been restricted.", code: "organization_restricted" }],
  ])(
    "%d %j goes to the next route, is logged, and is never shown to the client",
    async (status, error) => {
      at.providers.one.answer = words(status, error);
      at.providers.two.answer = usual;
      const key = await at.gateway.key();
      for (let n = 0; n < 6; n += 1) expect((await ask(key, { model: "safe" })).status).toBe(200);
      expect(at.providers.one.requests).toHaveLength(6);
      expectRefusal(await ask(key, { model: "small" }), noProvider);
      expect(at.gateway.log.findLast(({ level }) => level === "error")).toMatchObject({
        event: "organization_refused",
        provider: "one",
      });
    },
  );

  test.each([429, 413])(
    "a request above the tokens of a minute, as a %d, goes to the next route; none is left: 429 in the provider's words",
    async (status) => {
      const message = "Request too large for m in organization org-Ab12Cd34Ef on tokens per min";
      at.providers.one.answer = words(status, {
        message,
        code: "rate_limit_exceeded",
        type: "tokens",
      });
      at.providers.two.answer = usual;
      const key = await at.gateway.key();
      expect((await ask(key, { model: "safe" })).status).toBe(200);
      expectRefusal(
        await ask(key),
        [429, "rate_limit_error", message.replace("org-Ab12Cd34Ef", "***")],
        { code: "rate_limit_exceeded" },
      );
    },
  );
});
