import { describe, expect, test } from "bun:test";
import { message } from "../../support/provider/anthropicAnswers.ts";
import { completion, usual } from "../../support/provider/chatAnswers.ts";
import { vectors } from "../../support/provider/embeddingsAnswers.ts";
import { ended } from "../../support/provider/responsesAnswers.ts";
import {
  cut,
  held,
  json,
  refusal,
  text,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import {
  ask,
  chat,
  expectRefusal,
  noProvider,
  openCall,
  openChat,
} from "../../support/gateway/chatCalls.ts";
import { embeddingsAsk } from "../../support/gateway/embeddingsCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore, openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { askMessage } from "../../support/gateway/messagesCalls.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import { holdWrites } from "../../support/store/gatewayDatabase.ts";
import { until } from "../../support/until.ts";

const KEEP_ALIVE = "\n";
const at = openBefore(["one", "two", "claude"], ({ one, two, claude }) => ({
  sections: { server: { sse_keepalive: "60ms" }, billing: { hold_wait: "200ms" } },
  providers: { one, two, claude: { base_url: claude, kind: "anthropic" } },
  models: [
    { id: "small", routes: [{ provider: "one", responses: false }] },
    { id: "native", routes: [{ provider: "one" }] },
    { id: "claude", routes: [{ provider: "claude", responses: false }] },
    {
      id: "vectors",
      routes: [{ provider: "one" }],
      settings: { kind: "embedding" },
    },
    {
      id: "safe",
      routes: [
        { provider: "one", priority: 1 },
        { provider: "two", priority: 2 },
      ],
    },
  ],
}));
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

const calls = [
  ["a chat", "one", "/v1/chat/completions", ask(), completion(), "choices"],
  [
    "a native response",
    "one",
    "/v1/responses",
    { model: "native", input: "hello" },
    ended(),
    "output",
  ],
  [
    "a translated response",
    "one",
    "/v1/responses",
    { model: "small", input: "hello", store: false },
    completion(),
    "output",
  ],
  [
    "a native message",
    "claude",
    "/v1/messages",
    askMessage({ model: "claude" }),
    message(),
    "content",
  ],
  ["a translated message", "one", "/v1/messages", askMessage(), completion(), "content"],
  ["embeddings", "one", "/v1/embeddings", embeddingsAsk(), vectors(), "data"],
] as const;

const failures: readonly (readonly [what: string, answer: ProviderAnswer])[] = [
  ["an error", refusal(500)],
  ["the caller's fault", refusal(400, "the prompt is too long")],
  ["an answer that is no JSON", text("<html>")],
  ["an answer that breaks off", cut("reset", 'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"id"')],
];

describe("an answer in JSON that is late", () => {
  test.each(calls)("%s: white space, and then the answer", async (...row) => {
    const [, provider, path, body, sent, field] = row;
    const answer = held(json(sent));
    at.providers[provider].answer = answer.answer;
    const key = await at.gateway.key();
    const client = await openCall(at.gateway, key, { path, body });
    expect(client.status).toBe(200);
    expect(Object.fromEntries(client.headers)).toMatchObject({
      "content-type": "application/json",
      "transfer-encoding": "chunked",
      "x-accel-buffering": "no",
    });
    expect(client.headers.has("x-tollgate-cost-rub")).toBe(false);
    await client.seen(KEEP_ALIVE.repeat(3));
    expect(client.text.trim()).toBe("");
    answer.go();
    await until("the answer is over", () => client.isOver);
    expect(JSON.parse(client.text)).toHaveProperty(field);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done" }]);
    expect(at.gateway.log.at(-1)).toMatchObject({ status: 200, outcome: "done", stream: false });
  });

  test("an answer in time has its length and its cost, and no white space", async () => {
    at.providers.one.answer = usual;
    const reply = await chat(at.gateway, await at.gateway.key());
    expect(Object.fromEntries(reply.headers)).toMatchObject({
      "content-length": String(Buffer.byteLength(reply.text)),
      "x-tollgate-cost-rub": expect.any(String),
    });
    expect(reply.text).toStartWith("{");
  });

  test("still fails over when its provider fails", async () => {
    const answer = held(refusal(500));
    at.providers.one.answer = answer.answer;
    at.providers.two.answer = usual;
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { model: "safe" });
    await client.seen(KEEP_ALIVE);
    answer.go();
    await until("the answer is over", () => client.isOver);
    expect(JSON.parse(client.text)).toHaveProperty("choices");
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({
      status: "done",
      provider: "two",
      attemptCount: 2,
      charge: cost,
    });
  });

  test.each(failures)(
    "for %s the connection is closed before any JSON, and nothing is charged",
    async (_, broken) => {
      const key = await at.gateway.key();
      for (const version of ["1.1", "1.0"]) {
        const answer = held(broken);
        at.providers.one.answer = answer.answer;
        const client = await connectRaw(at.gateway.port);
        const request = chatBytes(key.key, JSON.stringify(ask()));
        client.send(request.replace("HTTP/1.1", `HTTP/${version}`));
        await client.seen(`\r\n\r\n${version === "1.1" ? "1\r\n\n" : KEEP_ALIVE}`);
        answer.go();
        await client.closed;
        const [, body = ""] = client.text.split("\r\n\r\n", 2);
        // No chunk of length 0: it would be the end of a whole body.
        expect(client.text).not.toMatch(/[{<]|\r\n0\r\n/);
        expect(body).toMatch(/^[\r\n1]*$/);
      }
      expect(await at.gateway.records(key, 2)).toMatchObject(
        Array.from({ length: 2 }, () => ({ status: "failed", charge: 0n })),
      );
      expect(at.gateway.log.at(-1)).toMatchObject({ status: 200, outcome: "failed" });
      await until("no request is open", () => at.gateway.app.requests.open === 0);
    },
  );

  test("for HTTP/1.0 the body ends with the connection", async () => {
    const answer = held(usual);
    at.providers.one.answer = answer.answer;
    const key = await at.gateway.key();
    const client = await connectRaw(at.gateway.port);
    const request = chatBytes(key.key, JSON.stringify(ask()));
    client.send(request.replace("HTTP/1.1", "HTTP/1.0"));
    await client.seen(`\r\n\r\n${KEEP_ALIVE}`);
    answer.go();
    await client.closed;
    expect(JSON.parse(client.text.split("\r\n\r\n")[1] ?? "")).toHaveProperty("choices");
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
  });

  test("no byte of the JSON leaves before the commit", async () => {
    const answer = held(usual);
    at.providers.one.answer = answer.answer;
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key);
    await client.seen(KEEP_ALIVE);
    await using writes = await holdWrites(at.gateway.place);
    answer.go();
    await until("the charge waits", () => at.gateway.app.gateway.writer.queued > 0);
    const { length } = client.text;
    await client.seen(KEEP_ALIVE.repeat(length + 2));
    const seenBefore = client.text;
    await writes.release();
    await until("the answer is over", () => client.isOver);
    expect(seenBefore.trim()).toBe("");
    expect(JSON.parse(client.text)).toHaveProperty("choices");
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
  });

  test("is read to its end and charged when its client disconnects, as without white space", async () => {
    const answer = held(usual);
    at.providers.one.answer = answer.answer;
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const client = await openChat(at.gateway, key);
    await client.seen(KEEP_ALIVE);
    client.disconnect();
    await until("the disconnect counts", () => at.gateway.app.gateway.leftAnswers.count === 1);
    answer.go();
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "cancelled", charge: cost }]);
    await until("the request is over", () => at.gateway.app.requests.open === 0);
    expect(at.gateway.log.at(-1)).toMatchObject({ level: "info", outcome: "cancelled" });
    at.providers.one.answer = usual;
    expect((await chat(at.gateway, key)).status).toBe(200);
  });

  test("of a request that waits for money gets no early head: its 429 keeps its status", async () => {
    const answer = held(usual);
    at.providers.one.answer = answer.answer;
    const key = await at.gateway.key({ balance: 220_000_000n });
    const client = await openChat(at.gateway, key, { max_tokens: 1000 });
    expect((await chat(at.gateway, key, { max_tokens: 1000 })).status).toBe(429);
    answer.go();
    await until("the answer is over", () => client.isOver);
  });
});

describe.each([
  ["server.json_keepalive is false", { sse_keepalive: "60ms", json_keepalive: false }],
  ["server.sse_keepalive is 0", { sse_keepalive: "0s" }],
])("while %s", (_, server) => {
  const silent = openOneModelBefore({ server });

  test("nothing is sent before the answer, and a late failure is a plain 502", async () => {
    const { gateway, provider } = silent;
    const key = await gateway.key();
    const late = (answer: ProviderAnswer): ProviderAnswer => {
      return async (peer, request) => {
        await Bun.sleep(300);
        await answer(peer, request);
      };
    };
    provider.answer = late(refusal(500));
    expectRefusal(await chat(gateway, key), noProvider);
    provider.answer = late(usual);
    const reply = await chat(gateway, key);
    expect(reply.text).toStartWith("{");
    expect(reply.headers.has("x-tollgate-cost-rub")).toBe(true);
  });
});
