import { describe, expect, test } from "bun:test";
import { createBodyBudget } from "../../src/limits/bodyBudget.ts";
import { answered, helloEvent, roleEvent } from "../support/chatAnswers.ts";
import { chat, openChat } from "../support/chatCalls.ts";
import { openOneModelBefore } from "../support/gatewayUnderTest.ts";
import { piece, refusal, streamHead } from "../support/scriptedProvider.ts";
import type { ProviderAnswer, ScriptedProvider } from "../support/scriptedProvider.ts";
import type { TestApp } from "../support/testApp.ts";
import { until } from "../support/until.ts";

const at = openOneModelBefore();
const late = openOneModelBefore({ server: { sse_keepalive: "60ms" } });
const bodies = () => at.gateway.app.bodies;
const refused = {
  status: 429,
  body: { error: { message: "rate limit exceeded", type: "rate_limit_error" } },
};
const long = { messages: [{ role: "user", content: "word ".repeat(40_000) }] };

describe("where the bodies of all requests take all the memory that they may", () => {
  test.each([{}, long])(
    "one more is refused for a second, and none of it is kept (%#)",
    async (more) => {
      at.provider.answer = answered();
      const others = bodies().claim();
      others.take(Number.MAX_SAFE_INTEGER);
      const reply = await chat(at.gateway, at.gateway.key(), more);
      expect(reply).toMatchObject(refused);
      expect(reply.headers.get("retry-after")).toBe("1");
      expect(bodies().heldBytes).toBe(Number.MAX_SAFE_INTEGER);
      others.release();
      expect((await chat(at.gateway, at.gateway.key(), more)).status).toBe(200);
      expect(bodies().heldBytes).toBe(0);
    },
  );
});

/** Says hello, and then nothing for as long as anybody listens. */
const hello: ProviderAnswer = async (peer) => {
  await peer.send(Buffer.concat([Buffer.from(streamHead), piece(roleEvent + helloEvent)]));
  await peer.closed;
};

/** A stream whose body is counted; its provider answers when it may. */
async function waiting(gateway: TestApp, provider: ScriptedProvider, answer: ProviderAnswer) {
  const begin = Promise.withResolvers<void>();
  provider.answer = async (peer, request) => {
    await begin.promise;
    await answer(peer, request);
  };
  const stream = openChat(gateway, gateway.key(), { stream: true, ...long });
  await until("the body has come", () => gateway.app.bodies.heldBytes > 200_000);
  return { stream, begin: begin.resolve };
}

test("a body counts until its answer has begun", async () => {
  const { stream, begin } = await waiting(at.gateway, at.provider, hello);
  begin();
  const client = await stream;
  await client.seen("Hello");
  expect(bodies().heldBytes).toBe(0);
  client.leave();
});

describe("a body whose answer's head left before any content counts", () => {
  test.each([
    ["until there is content", hello, "Hello"],
    ["until the routes have failed", refusal(500), "all providers unavailable"],
  ])("%s", async (_, answer, words) => {
    const { stream, begin } = await waiting(late.gateway, late.provider, answer);
    const client = await stream;
    await client.seen(": keep-alive");
    expect(late.gateway.app.bodies.heldBytes).toBeGreaterThan(200_000);
    begin();
    await client.seen(words);
    await until("the body is let go", () => late.gateway.app.bodies.heldBytes === 0);
    client.leave();
  });
});

describe("a budget of bodies", () => {
  test("takes any body that is alone, and others only within its bound", () => {
    const budget = createBodyBudget(100);
    const [first, second] = [budget.claim(), budget.claim()];
    expect([first.take(80), first.take(80), second.take(1)]).toEqual([true, true, false]);
    first.release();
    first.release();
    expect([second.take(60), first.take(41), first.take(40)]).toEqual([true, false, true]);
    expect(budget.heldBytes).toBe(100);
  });
});
