import { describe, expect, test } from "bun:test";
import { createBodyBudget } from "../../src/limits/bodyBudget.ts";
import { answered, helloEvent, roleEvent } from "../support/chatAnswers.ts";
import { chat } from "../support/chatCalls.ts";
import { openOneModelBefore } from "../support/gatewayUnderTest.ts";
import { piece, streamHead } from "../support/scriptedProvider.ts";
import { until } from "../support/until.ts";

const at = openOneModelBefore();
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

test("a body counts until its answer has begun", async () => {
  const begin = Promise.withResolvers<void>();
  at.provider.answer = async (peer) => {
    await begin.promise;
    await peer.send(Buffer.concat([Buffer.from(streamHead), piece(roleEvent + helloEvent)]));
    await peer.closed;
  };
  const leaving = new AbortController();
  const key = at.gateway.key();
  const answer = fetch(`${at.gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key.key}` },
    body: JSON.stringify({ model: "small", stream: true, ...long }),
    signal: leaving.signal,
  });
  await until("the body has come", () => bodies().heldBytes > 200_000);
  begin.resolve();
  await (await answer).body?.getReader().read();
  expect(bodies().heldBytes).toBe(0);
  leaving.abort();
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
