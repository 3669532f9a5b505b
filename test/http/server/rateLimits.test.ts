import { describe, expect, test } from "bun:test";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usual,
} from "../../support/provider/chatAnswers.ts";
import { bodyBytesMax } from "../../../src/limits/bodyBudget.ts";
import { WriteError } from "../../../src/store/store.ts";
import {
  call,
  chat,
  expectRefusal,
  openChat,
  tooOften,
  type Reply,
} from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  piece,
  raw,
  refusal,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";

const at = openOneModelBefore({
  limits: { requests_per_minute: 3, tokens_per_minute: 100, concurrent_requests: 2 },
});

/** The rate limit headers: limit, remaining and reset, of requests and then of tokens. */
function limits({ headers }: Reply): readonly (readonly (string | null)[])[] {
  return ["requests", "tokens"].map((of) =>
    ["limit", "remaining", "reset"].map((what) => headers.get(`x-ratelimit-${what}-${of}`)),
  );
}

const withUsage = (prompt_tokens: number, completion_tokens: number) =>
  answered({ usage: { prompt_tokens, completion_tokens } });

function models(key: TestKey): Promise<Reply> {
  return call(at.gateway, key, { path: "/v1/models" });
}

describe("the request rate", () => {
  test("has the config's limit, is in every answer's headers, and refills evenly", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const seen = [await models(key), await chat(at.gateway, key), await models(key)];
    expect(seen.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(seen.map((reply) => limits(reply)[0])).toEqual([
      ["3", "2", "20s"],
      ["3", "1", "40s"],
      ["3", "0", "60s"],
    ]);
    const refused = await chat(at.gateway, key);
    expectRefusal(refused, tooOften);
    expect(refused.headers.get("retry-after")).toBe("20");
    expect(limits(refused)[0]).toEqual(["3", "0", "60s"]);
    await at.gateway.advance(19_000);
    expect((await chat(at.gateway, key)).headers.get("retry-after")).toBe("1");
    await at.gateway.advance(1000);
    expect((await chat(at.gateway, key)).status).toBe(200);
    expect((await chat(at.gateway, key)).status).toBe(429);
  });

  test("counts requests that are refused for another reason, with the headers", async () => {
    const key = await at.gateway.key();
    const body = { messages: [] };
    const refused = await call(at.gateway, key, { body });
    expect([refused.status, limits(refused)[0]]).toEqual([400, ["3", "2", "20s"]]);
    const absent = await chat(at.gateway, key, { model: "unknown" });
    expect([absent.status, limits(absent)[0]]).toEqual([404, ["3", "1", "40s"]]);
    at.provider.answer = refusal(500);
    const failed = await chat(at.gateway, key);
    expect([failed.status, limits(failed)[0]]).toEqual([502, ["3", "0", "60s"]]);
  });

  test("of a key replaces the config's; 0 is no limit and has no headers", async () => {
    at.provider.answer = usual;
    const narrow = await at.gateway.key({ requestsPerMinute: 1 });
    expect(limits(await models(narrow))[0]).toEqual(["1", "0", "60s"]);
    expect((await models(narrow)).status).toBe(429);
    const free = await at.gateway.key({ requestsPerMinute: 0, tokensPerMinute: 0 });
    for (let round = 0; round < 5; round += 1) {
      const reply = await models(free);
      expect([reply.status, ...limits(reply).flat()]).toEqual([200, ...Array<null>(6).fill(null)]);
    }
  });

  test("of one key is not shared with another key of the account", async () => {
    const first = await at.gateway.key({ requestsPerMinute: 1 });
    const second = await at.gateway.key({
      requestsPerMinute: 1,
      account: first.account,
      balance: 0n,
    });
    expect((await models(first)).status).toBe(200);
    expect((await models(first)).status).toBe(429);
    expect((await models(second)).status).toBe(200);
  });

  test("is not shown without a valid key", async () => {
    const reply = await call(at.gateway, undefined, { path: "/v1/models" });
    expect([...reply.headers.keys()].filter((name) => name.startsWith("x-ratelimit"))).toEqual([]);
  });

  test("changes with a reload, which leaves the same part of it", async () => {
    const key = await at.gateway.key();
    const local = `http://127.0.0.1:${at.provider.port}/v1`;
    const config = (requests_per_minute: number) => ({
      providers: { local },
      models: [{ id: "small", routes: [{ provider: "local" }] }],
      sections: {
        limits: { requests_per_minute, tokens_per_minute: 100, concurrent_requests: 2 },
      },
    });
    expect(limits(await models(key))[0]).toEqual(["3", "2", "20s"]);
    await at.gateway.reload(config(60));
    expect(limits(await models(key))[0]).toEqual(["60", "39", "21s"]);
    await at.gateway.reload(config(3));
  });
});

describe("the token rate", () => {
  test("takes the estimate first and the usage at the end; a debt needs a full bucket", async () => {
    at.provider.answer = withUsage(20, 60);
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key);
    expect([reply.status, limits(reply)[1]]).toEqual([200, ["100", "20", "48s"]]);
    at.provider.answer = withUsage(20, 100);
    const second = await chat(at.gateway, key);
    expect([second.status, limits(second)[1]?.[1]]).toEqual([200, "0"]);
    const refused = await chat(at.gateway, key);
    expectRefusal(refused, tooOften);
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(60, 63);
    await at.gateway.advance(63_000);
    expect((await chat(at.gateway, key)).status).toBe(200);
  });

  test("returns the tokens of a refused or failed request", async () => {
    const poor = await at.gateway.key({ balance: 1n });
    expect((await chat(at.gateway, poor)).status).toBe(402);
    expect(limits(await models(poor))[1]).toEqual(["100", "100", "0s"]);
  });

  test.each([false, true])(
    "returns the tokens of an answer whose end could not be committed (stream: %j)",
    async (isStream) => {
      at.provider.answer = usual;
      const key = await at.gateway.key();
      const { writer } = at.gateway.app.gateway;
      const write = writer.writeWithin.bind(writer);
      // Only the end of the answer fails. The later one that releases its hold succeeds.
      writer.writeWithin = () => {
        writer.writeWithin = write;
        return Promise.reject(new WriteError("refused", "not now"));
      };
      const { text } = await chat(at.gateway, key, { stream: isStream });
      expect(text).toContain('"provider_error"');
      expect(limits(await models(key))[1]).toEqual(["100", "100", "0s"]);
    },
  );

  test("lets a prompt over the limit of a minute through when the bucket is full", async () => {
    at.provider.answer = withUsage(1000, 1);
    const key = await at.gateway.key();
    const messages = [{ role: "user", content: "a".repeat(4000) }];
    expect((await chat(at.gateway, key, { messages })).status).toBe(200);
    expect((await chat(at.gateway, key, { messages })).status).toBe(429);
  });

  test.each([
    ["of a call", { function_call: { name: "f", arguments: "a".repeat(4000) } }],
    ["of reasoning", { reasoning_content: "a".repeat(4000) }],
  ])("counts the text %s that a message brings", async (_, fields) => {
    at.provider.answer = withUsage(10, 10);
    const key = await at.gateway.key();
    const said = { role: "assistant", content: "", ...fields };
    const messages = [{ role: "user", content: "x" }, said];
    expect((await chat(at.gateway, key)).status).toBe(200);
    expectRefusal(await chat(at.gateway, key, { messages }), tooOften);
  });

  test("is charged for a stream as well", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    expect((await chat(at.gateway, key, { stream: true })).status).toBe(200);
    expect(limits(await models(key))[1]?.[1]).toBe("73");
  });
});

describe("retry-after, when the request rate is used up too,", () => {
  test("is the request rate's for a request without tokens, if that is longer", async () => {
    at.provider.answer = withUsage(40, 50);
    const key = await at.gateway.key({ requestsPerMinute: 2 });
    const messages = [{ role: "user", content: "a".repeat(60) }];
    expect((await chat(at.gateway, key)).status).toBe(200);
    const refused = await chat(at.gateway, key, { messages });
    expectRefusal(refused, tooOften);
    expect(refused.headers.get("retry-after")).toBe("30");
    await at.gateway.advance(30_000);
    expect((await chat(at.gateway, key, { messages })).status).toBe(200);
  });

  test("is the request rate's for a request without a concurrency slot", async () => {
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), piece(doneEvent), streamEnd)(peer, request);
    };
    const key = await at.gateway.key({ requestsPerMinute: 1, concurrentRequests: 1 });
    const open = await openChat(at.gateway, key, { stream: true });
    const refused = await chat(at.gateway, key);
    go.resolve();
    await open.seen("[DONE]");
    expectRefusal(refused, tooOften);
    expect(refused.headers.get("retry-after")).toBe("60");
  });

  test("is the request rate's for a request whose body has no room", async () => {
    const key = await at.gateway.key({ requestsPerMinute: 1 });
    const { app, store } = at.gateway;
    const other = app.bodies.claim((await store.accounts.findOrThrow(key.account)).id);
    expect(other.take(bodyBytesMax())).toBe(true);
    const refused = await chat(at.gateway, key);
    other.release();
    expectRefusal(refused, tooOften);
    expect(refused.headers.get("retry-after")).toBe("60");
  });
});

describe("the concurrency", () => {
  test("takes one slot for each open request, and releases it after the answer", async () => {
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), piece(doneEvent), streamEnd)(peer, request);
    };
    const key = await at.gateway.key({ requestsPerMinute: 0, tokensPerMinute: 0 });
    const first = await openChat(at.gateway, key, { stream: true });
    const second = await openChat(at.gateway, key, { stream: true });
    const refused = await chat(at.gateway, key);
    expectRefusal(refused, tooOften);
    expect(refused.headers.get("retry-after")).toBe("1");
    go.resolve();
    await Promise.all([first.seen("[DONE]"), second.seen("[DONE]")]);
    at.provider.answer = usual;
    expect((await chat(at.gateway, key)).status).toBe(200);
  });

  test("releases its slot after every kind of refusal", async () => {
    at.provider.answer = refusal(500);
    const key = await at.gateway.key({
      concurrentRequests: 1,
      requestsPerMinute: 0,
      tokensPerMinute: 0,
    });
    const poor = await at.gateway.key({ concurrentRequests: 1, balance: 0n });
    const statuses = [
      (await call(at.gateway, key, { body: "{" })).status,
      (await call(at.gateway, key, { body: "{}", headers: { "content-type": "text/plain" } }))
        .status,
      (await chat(at.gateway, key, { model: "unknown" })).status,
      (await models(key)).status,
      (await call(at.gateway, key, { path: "/v1/models/unknown" })).status,
      (await chat(at.gateway, key)).status,
      (await chat(at.gateway, key, { stream: true })).status,
      (await chat(at.gateway, poor)).status,
      (await models(poor)).status,
    ];
    expect(statuses).toEqual([400, 400, 404, 200, 404, 502, 502, 402, 200]);
    at.provider.answer = usual;
    expect((await chat(at.gateway, key)).status).toBe(200);
  });
});
