import { expect, test } from "bun:test";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { connectRaw } from "../../support/gateway/rawClient.ts";
import { call } from "../../support/gateway/chatCalls.ts";

const at = openOneModelBefore();

const answersIn = (text: string): readonly string[] =>
  text
    .split("HTTP/1.1 ")
    .slice(1)
    .map((answer) => answer.slice(0, 3));

const get = (path: string, key: string) =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;

test("up to a hundred pipelined requests are answered in one turn, in their order", async () => {
  const { key } = await at.gateway.key();
  const client = await connectRaw(at.gateway.port);
  client.send(get("/v1/models", key).repeat(50) + get("/v1/models/small", key).repeat(49));
  client.send(get("/v1/models/unknown", key));
  await client.seen("model not found");
  expect(answersIn(client.text)).toEqual([...Array<string>(99).fill("200"), "404"]);
  client.fin();
});

test.each([
  ["with a key", "/v1/models", true, "200"],
  ["with a wrong key", "/v1/models", false, "401"],
  ["without a need of a key", "/healthz", false, "200"],
])(
  "of thousands %s about a hundred are answered, and the connection ends",
  async (_, path, isKey, status) => {
    const { key } = isKey ? await at.gateway.key() : { key: "no-key" };
    const client = await connectRaw(at.gateway.port);
    client.send(get(path, key).repeat(5000));
    await client.closed;
    const answers = answersIn(client.text);
    expect(answers.length).toBeLessThanOrEqual(102);
    expect(answers.length).toBeGreaterThan(0);
    expect(new Set(answers.slice(0, -1))).toEqual(new Set([status]));
    // The 429 that ends the connection may be lost: the client goes on sending to a closed connection.
    expect([status, "429"]).toContain(answers.at(-1) ?? "");
  },
);

test("requests of many connections in one turn are all answered", async () => {
  const key = await at.gateway.key();
  const replies = await Promise.all(
    Array.from({ length: 200 }, () => call(at.gateway, key, { path: "/v1/models" })),
  );
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
});
