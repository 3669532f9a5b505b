import { describe, expect, test } from "bun:test";
import { LARGE_BODY_BYTES, LargeBodies } from "../../../src/limits/largeBodies.ts";
import { ask, chat } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore();

const large = { messages: [{ role: "user", content: "word ".repeat(LARGE_BODY_BYTES / 4) }] };

/** Clients of one account, each of which has sent the head and the first half of a large body. */
async function halfSent(key: string, count: number) {
  const bytes = chatBytes(key, JSON.stringify(ask(large)));
  const half = Math.floor(bytes.length / 2);
  const clients = await Promise.all(
    Array.from({ length: count }, () => connectRaw(at.gateway.port)),
  );
  for (const client of clients) client.send(bytes.slice(0, half));
  return clients.map((client) => ({ client, finish: () => client.send(bytes.slice(half)) }));
}

describe("while an account's large body is read", () => {
  test("small ones of the account and large ones of others are answered", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const [half] = await halfSent(key.key, 1);
    await until("the body is read", () => at.gateway.app.bodies.heldBytes > 0);
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect((await chat(at.gateway, await at.gateway.key(), large)).status).toBe(200);
    half?.finish();
    expect((await half?.client.response())?.status).toBe(200);
    half?.client.reset();
  });

  test("a client that disconnects gives its turn away", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const bodies = await halfSent(key.key, 8);
    await until("all have begun", () => at.gateway.app.requests.open === 8);
    for (const { client } of bodies) client.reset();
    expect((await chat(at.gateway, key, large)).status).toBe(200);
    await until("none is open", () => at.gateway.app.requests.open === 0);
  });
});

test("large bodies of many clients are all answered, declared or in chunks", async () => {
  at.provider.answer = usual;
  const keys = await Promise.all([at.gateway.key(), at.gateway.key()]);
  const replies = await Promise.all(
    Array.from({ length: 12 }, (_, index) => chat(at.gateway, keys[index % 2], large)),
  );
  const body = JSON.stringify(ask(large));
  const chunked = await fetch(`${at.gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${keys[0].key}` },
    body: new Blob([body]).stream(),
  });
  await chunked.text();
  expect([...replies, chunked].map(({ status }) => status)).toEqual(Array(13).fill(200));
});

describe("the turns of large bodies", () => {
  test("come one after the other for each account, with a pause of three times the work", async () => {
    let nowMs = 0;
    const turns = new LargeBodies({ monotonicMs: () => nowMs, epochMs: () => nowMs });
    const began: string[] = [];
    const enter = (account: number, name: string) =>
      turns.enter(account).then((turn) => {
        began.push(name);
        return turn;
      });
    const [a1, a2, b1] = [enter(1, "a1"), enter(1, "a2"), enter(2, "b1")];
    const [first] = await Promise.all([a1, b1]);
    expect(began).toEqual(["a1", "b1"]);
    first.start();
    nowMs += 20;
    const startedMs = performance.now();
    first.end();
    first.end();
    const second = await a2;
    expect(performance.now() - startedMs).toBeGreaterThan(55);
    second.end();
    (await enter(1, "a3")).end();
    expect(began).toEqual(["a1", "b1", "a2", "a3"]);
  });
});
