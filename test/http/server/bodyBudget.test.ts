import { describe, expect, test } from "bun:test";
import { array, assert, boolean, nat, property, tuple } from "fast-check";
import { createBodyBudget, type BodyReservation } from "../../../src/limits/bodyBudget.ts";
import { answered, helloEvent, roleEvent } from "../../support/provider/chatAnswers.ts";
import { chat, openChat } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  piece,
  refusal,
  streamHead,
  type ProviderAnswer,
  type ScriptedProvider,
} from "../../support/provider/scriptedProvider.ts";
import type { TestApp, TestKey } from "../../support/gateway/testApp.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore();
const late = openOneModelBefore({ server: { sse_keepalive: "60ms" } });
const bodies = () => at.gateway.app.bodies;
const accountOf = async ({ account }: TestKey): Promise<number> =>
  (await at.gateway.store.accounts.find(account))?.id ?? Number.NaN;
const refused = {
  status: 429,
  body: { error: { message: "rate limit exceeded", type: "rate_limit_error" } },
};
const long = { messages: [{ role: "user", content: "word ".repeat(40_000) }] };

describe("when the bodies of one account fill its share of the memory", () => {
  test.each([{}, long])(
    "one more body is refused with retry-after 1, and is not read (%#)",
    async (more) => {
      at.provider.answer = answered();
      const key = await at.gateway.key();
      const others = bodies().claim(await accountOf(key));
      others.take(Number.MAX_SAFE_INTEGER);
      const reply = await chat(at.gateway, key, more);
      expect(reply).toMatchObject(refused);
      expect(reply.headers.get("retry-after")).toBe("1");
      expect(bodies().heldBytes).toBe(Number.MAX_SAFE_INTEGER);
      others.release();
      expect((await chat(at.gateway, key, more)).status).toBe(200);
      expect(bodies().heldBytes).toBe(0);
    },
  );

  test("bodies of other accounts are accepted, small and large", async () => {
    at.provider.answer = answered();
    // From another account, so that no body of the first account is the only one.
    const other = bodies().claim(0);
    other.take(1);
    const hoarder = await at.gateway.key();
    const hoard = bodies().claim(await accountOf(hoarder));
    takeAll(hoard);
    const key = await at.gateway.key();
    for (const more of [{}, long]) expect((await chat(at.gateway, key, more)).status).toBe(200);
    expect((await chat(at.gateway, hoarder)).status).toBe(429);
    for (const claim of [other, hoard]) claim.release();
  });
});

/** Reserves as much as possible, to the byte, and returns the amount. */
function takeAll(claim: BodyReservation): number {
  let taken = 0;
  for (let bytes = 2 ** 50; bytes >= 1; bytes /= 2) while (claim.take(bytes)) taken += bytes;
  return taken;
}

/** Sends the first content and then stays silent. */
const hello: ProviderAnswer = async (peer) => {
  await peer.send(Buffer.concat([Buffer.from(streamHead), piece(roleEvent + helloEvent)]));
  await peer.closed;
};

/** A stream whose body is counted. Its provider answers when the test allows it. */
async function waiting(gateway: TestApp, provider: ScriptedProvider, answer: ProviderAnswer) {
  const begin = Promise.withResolvers<void>();
  provider.answer = async (peer, request) => {
    await begin.promise;
    await answer(peer, request);
  };
  const stream = openChat(gateway, await gateway.key(), { stream: true, ...long });
  await until("the body has come", () => gateway.app.bodies.heldBytes > 200_000);
  return { stream, begin: begin.resolve };
}

test("a body counts until its answer has started", async () => {
  const { stream, begin } = await waiting(at.gateway, at.provider, hello);
  begin();
  const client = await stream;
  await client.seen("Hello");
  expect(bodies().heldBytes).toBe(0);
  client.disconnect();
});

describe("a body whose answer's early 200 was sent counts", () => {
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
    client.disconnect();
  });
});

const SMALL = 65_536;
const ALL = 1000 * SMALL;

describe("a budget of bodies", () => {
  test("accepts any body when no other is counted, and small ones beside it", () => {
    const budget = createBodyBudget(ALL);
    const [first, second] = [budget.claim(1), budget.claim(2)];
    expect([first.take(2 * ALL), second.take(SMALL), second.take(1)]).toEqual([true, true, false]);
    expect(first.take(1)).toBe(false);
    first.release();
    first.release();
    expect([second.take(ALL), budget.heldBytes]).toEqual([true, ALL + SMALL]);
  });

  test("gives an account three quarters of the free memory, however many bodies it sends", () => {
    const budget = createBodyBudget(1 + ALL);
    budget.claim(9).take(1);
    const hoard = (accountId: number): number =>
      Array.from({ length: 3 }, () => takeAll(budget.claim(accountId))).reduce(
        (sum, one) => sum + one,
      );
    expect(hoard(1)).toBe((ALL * 3) / 4);
    expect(hoard(2)).toBe((ALL * 3) / 16);
    expect(hoard(3)).toBe((ALL * 3) / 64);
    expect(hoard(1)).toBe(0);
  });

  test("returns the size of a body to its account and to all", () => {
    const budget = createBodyBudget(ALL);
    const most = (ALL * 3) / 4;
    const [small, large] = [budget.claim(1), budget.claim(1)];
    expect([small.take(SMALL), large.take(most), large.take(most - SMALL)]).toEqual([
      true,
      false,
      true,
    ]);
    small.release();
    expect([large.take(SMALL), budget.heldBytes]).toEqual([true, most]);
  });

  test("is exceeded by an eighth at most, however many accounts there are", () => {
    const budget = createBodyBudget(ALL);
    budget.claim(0).take(ALL);
    for (let accountId = 1; accountId <= 2000; accountId += 1) budget.claim(accountId).take(SMALL);
    expect(budget.heldBytes).toBe(ALL + (ALL / 8 - SMALL));
    expect(budget.claim(2001).take(1)).toBe(false);
  });

  test("always has room for a small body of an account without one, in any history", () => {
    const step = tuple(nat(9), nat((ALL * 3) / 4), boolean());
    const steps = array(step, { maxLength: 200, size: "max" });
    const history = property(steps, (operations) => {
      const budget = createBodyBudget(ALL);
      const accounts = Array.from({ length: 10 }, (): BodyReservation[] => []);
      for (const [accountId, bytes, isRelease] of operations) {
        const open = accounts[accountId] ?? [];
        const claim = budget.claim(accountId);
        if (isRelease) open.shift()?.release();
        else if (claim.take(bytes)) open.push(claim);
        else expect(open.length > 0 || bytes > SMALL).toBe(true);
        expect(budget.heldBytes).toBeLessThanOrEqual(ALL + accounts.length * SMALL);
      }
      expect(budget.claim(accounts.length).take(SMALL)).toBe(true);
      for (const claim of accounts.flat()) claim.release();
      expect(budget.heldBytes).toBe(SMALL);
    });
    assert(history, { seed: 1 });
  });
});
