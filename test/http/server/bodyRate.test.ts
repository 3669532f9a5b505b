import { describe, expect, test } from "bun:test";
import { ask, chat, expectRefusal, tooOften } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { usual } from "../../support/provider/chatAnswers.ts";

const at = openOneModelBefore({ limits: { body_bytes_per_minute: "60KB" } });
const KB = 1024;

/** A chat request of exactly so many bytes. */
function bodyOf(bytes: number): string {
  const text = JSON.stringify(ask({ messages: [{ role: "user", content: "" }] }));
  return text.replace('"content":""', `"content":"${"a".repeat(bytes - text.length)}"`);
}

const chunked = (body: string): string => {
  const half = Math.floor(body.length / 2);
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
  return `${chunk(body.slice(0, half))}${chunk(body.slice(half))}0\r\n\r\n`;
};

/** Sends the body with its length, or in chunks without it. */
async function post(key: TestKey, body: string, how: "declared" | "chunked") {
  at.provider.answer = usual;
  const client = await connectRaw(at.gateway.port);
  const bytes = chatBytes(key.key, body);
  const [head = ""] = bytes.split("\r\n\r\n");
  const inChunks = head.replace(/Content-Length: \d+/, "Transfer-Encoding: chunked");
  client.send(how === "declared" ? bytes : `${inChunks}\r\n\r\n${chunked(body)}`);
  const { status, head: answer } = await client.response();
  client.reset();
  return { status, retryAfter: Number(/\r\nretry-after: (\d+)/i.exec(answer)?.[1]) };
}

describe.each(["declared", "chunked"] as const)("the bytes of a %s body", (how) => {
  test("are taken from the key's bucket, which refills evenly; other keys have their own", async () => {
    const key = await at.gateway.key();
    for (const size of [40, 20]) expect((await post(key, bodyOf(size * KB), how)).status).toBe(200);
    expect(await post(key, bodyOf(30 * KB), how)).toEqual({
      status: 429,
      retryAfter: how === "declared" ? 30 : 15,
    });
    const sibling = await at.gateway.key({ account: key.account });
    expect((await post(sibling, bodyOf(30 * KB), how)).status).toBe(200);
    at.gateway.clock.advance(how === "declared" ? 30_000 : 45_000);
    expect((await post(key, bodyOf(30 * KB), how)).status).toBe(200);
  });

  test("may be more than the bucket holds, if that is full", async () => {
    const key = await at.gateway.key();
    expect((await post(key, bodyOf(150 * KB), how)).status).toBe(200);
    at.gateway.clock.advance(90_000);
    expect((await post(key, bodyOf(10 * KB), how)).status).toBe(429);
    at.gateway.clock.advance(60_000);
    expect((await post(key, bodyOf(60 * KB), how)).status).toBe(200);
    expect((await post(key, bodyOf(150 * KB), how)).status).toBe(429);
  });
});

test("a body over the rate is refused before it is read", async () => {
  const { key } = await at.gateway.key();
  const [head = ""] = chatBytes(key, bodyOf(150 * KB)).split("\r\n\r\n");
  const first = await connectRaw(at.gateway.port);
  first.send(`${head}\r\n\r\n{`);
  const second = await connectRaw(at.gateway.port);
  second.send(`${head}\r\n\r\n{`);
  expect((await second.response()).status).toBe(429);
  first.reset();
  second.reset();
});

test("a refusal is the usual 429", async () => {
  const key = await at.gateway.key();
  at.provider.answer = usual;
  const long = { messages: [{ role: "user", content: "a".repeat(60 * KB) }] };
  expect((await chat(at.gateway, key, long)).status).toBe(200);
  expectRefusal(await chat(at.gateway, key), tooOften);
});
