import { describe, expect, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import { chat, expectRefusal, noProvider, type Reply } from "../../support/gateway/chatCalls.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { json, refusal, startProvider, text } from "../../support/provider/scriptedProvider.ts";

const at = openBefore(["one", "two"], ({ one, two }) => ({
  providers: {
    one: { base_url: one, api_key: upstreamKey },
    two: { base_url: two, api_key: "sk-second-key" },
  },
  models: [{ id: "small", routes: [{ provider: "one" }, { provider: "two" }] }],
}));

const isStream = [false, true];

/** Sends a request after all earlier cooldowns have ended. */
async function ask(stream = false): Promise<Reply & { key: TestKey }> {
  at.gateway.clock.advance(600_000);
  const key = await at.gateway.key();
  return { ...(await chat(at.gateway, key, { stream })), key };
}

function called(): readonly number[] {
  return [at.providers.one.requests.length, at.providers.two.requests.length];
}

describe.each(isStream)("an attempt (stream: %j)", (stream) => {
  test.each([400, 409, 422])(
    "that ends with %d is the caller's fault: 400 with the provider's message, without a failover",
    async (status) => {
      const error = {
        message: "messages must not be empty",
        code: "empty_array",
        param: "messages",
      };
      at.providers.one.answer = json({ error: { ...error, type: "some_type" } }, { status });
      at.providers.two.answer = usual;
      const reply = await ask(stream);
      expectRefusal(reply, [400, "invalid_request_error", error.message], {
        code: error.code,
        param: error.param,
      });
      expect(called()).toEqual([1, 0]);
      expect(await at.gateway.records(reply.key, 1)).toMatchObject([
        { status: "failed", charge: 0n, attemptCount: 1 },
      ]);
      at.providers.one.answer = usual;
      expect((await chat(at.gateway, reply.key, { stream })).status).toBe(200);
      expect(called()).toEqual([2, 0]);
    },
  );

  test.each([
    401, 402, 403, 404, 405, 406, 408, 410, 418, 425, 429, 451, 500, 501, 502, 503, 504, 520, 529,
    201, 202, 203, 204, 205, 206, 300, 304, 305, 599,
  ])("that ends with %d is the provider's fault: the next route answers", async (status) => {
    const body = status === 204 || status === 304 ? "" : '{"error":{"message":"secret words"}}';
    at.providers.one.answer = text(body, { status });
    at.providers.two.answer = usual;
    const reply = await ask(stream);
    expect(reply.status).toBe(200);
    expect(called()).toEqual([1, 1]);
    expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
      { provider: "one", outcome: `status ${status}`, status },
      { provider: "two", outcome: "ok", status: 200 },
    ]);
    expect(await at.gateway.records(reply.key, 1)).toMatchObject([
      { status: "done", provider: "two", attemptCount: 2 },
    ]);
  });

  test.each([
    [424, "Failed Dependency"],
    [403, "Your input was flagged"],
    [408, "Request timed out while reading the body"],
    [
      402,
      "This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 2000.",
    ],
  ])("that ends with %d %s goes to the next route, and never counts", async (status, message) => {
    at.providers.one.answer = refusal(status, message);
    at.providers.two.answer = usual;
    const { key } = await ask(stream);
    for (let again = 0; again < 5; again += 1) {
      expect((await chat(at.gateway, key, { stream })).status).toBe(200);
    }
    expect(called()).toEqual([6, 6]);
  });

  test.each([413, 414, 431])(
    "that ends with %d on one route is tried at the next one, and is the caller's 400 if that one says so too",
    async (status) => {
      at.providers.one.answer = refusal(status, "the request is too large");
      at.providers.two.answer = usual;
      for (let n = 0; n < 6; n += 1) expect((await ask(stream)).status).toBe(200);
      expect(called()).toEqual([6, 6]);
      at.providers.two.answer = refusal(status, "the request is too large");
      const words = [400, "invalid_request_error", "the request is too large"] as const;
      expectRefusal(await ask(stream), words, { code: "some_code" });
      at.providers.two.answer = refusal(500);
      expectRefusal(await ask(stream), noProvider);
    },
  );

  test.each([401, 402, 403, 404, 408, 500, 503, 529])(
    "that ends with %d on all routes is a 502 without the providers' messages",
    async (status) => {
      at.providers.one.answer = refusal(status, "secret words");
      at.providers.two.answer = refusal(status, "secret words");
      const reply = await ask(stream);
      const { headers } = reply;
      const retryAfter = headers.get("retry-after");
      headers.delete("retry-after");
      expectRefusal({ ...reply, headers }, noProvider);
      expect(retryAfter).toBe([401, 402].includes(status) ? "300" : null);
      expect(await at.gateway.records(reply.key, 1)).toMatchObject([
        { status: "failed", charge: 0n, attemptCount: 2 },
      ]);
      expect(await at.gateway.balance(reply.key)).toBe(100_000_000_000n);
      expect(at.gateway.logText()).not.toContain("secret words");
    },
  );

  test.each([301, 302, 303, 307, 308])(
    "that ends with %d is not followed: its target gets no request",
    async (status) => {
      const target = startProvider(usual);
      const location = `http://127.0.0.1:${target.port}/v1/chat/completions`;
      at.providers.one.answer = text("", { status, headers: { location } });
      at.providers.two.answer = usual;
      const reply = await ask(stream);
      target.stop();
      expect([reply.status, target.requests.length, ...called()]).toEqual([200, 0, 1, 1]);
    },
  );
});

describe("the operator's own account", () => {
  test.each([
    ["401", 401, { message: "invalid key" }],
    ["402", 402, { message: "pay" }],
    ["403 for its balance", 403, { message: "no", code: "AccountOverdueError" }],
    ["429 insufficient_quota", 429, { message: "no", code: "insufficient_quota" }],
    ["400 with an empty balance", 400, { message: "Your credit balance is too low to go on" }],
    [
      "400 with a wrong key",
      400,
      {
        message:
          "Incorrect API key provided: xa***yz. You can obtain an API key from https://console.x.ai.",
      },
    ],
    ["429 with a number for arrears", 429, { message: "Please recharge.", code: "1113" }],
    ["400 insufficient_balance", 400, { message: "no", type: "insufficient_balance" }],
    ["400 with only the message of an empty account", 400, { message: "Insufficient Balance" }],
    ["422 with only the message of an empty account", 422, { message: "insufficient credits." }],
  ])(
    "refused with %s starts a cooldown of minutes, and is logged as an error",
    async (_, status, error) => {
      at.providers.one.answer = json({ error }, { status });
      at.providers.two.answer = usual;
      const reply = await ask();
      expect(reply.status).toBe(200);
      expect((await chat(at.gateway, reply.key)).status).toBe(200);
      expect(called()).toEqual([1, 2]);
      at.gateway.clock.advance(299_000);
      expect((await chat(at.gateway, reply.key)).status).toBe(200);
      expect(called()).toEqual([1, 3]);
      at.gateway.clock.advance(2000);
      expect((await chat(at.gateway, reply.key)).status).toBe(200);
      expect(called()).toEqual([2, 4]);
      expect(
        at.gateway.log.findLast(({ level, provider }) => level === "error" && provider === "one"),
      ).toMatchObject({
        msg: "the provider refuses the API key, the account or the country: run `tollgate check --live` to see why, fix it, then reload (SIGHUP) to use the provider again at once",
        status,
      });
    },
  );
});

test.each(isStream)(
  "an empty account at all providers is a 502, never the client's own 400 or 402 (stream: %j)",
  async (stream) => {
    const error = { message: "Insufficient Balance", type: "unknown_error", param: null };
    at.providers.one.answer = json({ error }, { status: 400 });
    at.providers.two.answer = json({ error }, { status: 422 });
    const { headers, ...reply } = await ask(stream);
    expect(headers.get("retry-after")).toBe("300");
    headers.delete("retry-after");
    expectRefusal({ ...reply, headers }, noProvider);
  },
);

describe("no client can cause a cooldown for all", () => {
  const error = { type: "invalid_request_error", code: null };

  test.each([
    [
      "400 that repeats the client's text",
      400,
      "Unknown parameter: 'insufficient_quota'",
      400,
      [2, 0],
    ],
    ["403 for one prompt", 403, "Your input was flagged: 'my account'", 200, [2, 2]],
    ["429 without a time", 429, "slow down: 'insufficient balance'", 200, [2, 2]],
  ])("by a %s: the next request reaches the provider", async (_, status, message, seen, calls) => {
    at.providers.one.answer = json({ error: { ...error, message } }, { status });
    at.providers.two.answer = usual;
    const reply = await ask();
    expect(reply.status).toBe(seen);
    expect((await chat(at.gateway, reply.key)).status).toBe(seen);
    expect(called()).toEqual(calls);
  });
});

describe("a provider's error message", () => {
  /** The client's error message when the provider refuses with this body. */
  async function messageFor(body: string, type?: string): Promise<string> {
    at.providers.one.answer = text(body, { status: 400, ...(type === undefined ? {} : { type }) });
    const reply = await ask();
    expect(reply.status).toBe(400);
    return (reply.body as { error: { message: string } }).error.message;
  }
  const error = (message: string) => messageFor(JSON.stringify({ error: { message } }));
  test("has at most 512 characters, on one line", async () => {
    expect(await error("a".repeat(5000))).toBe("a".repeat(512));
    expect(await error("one\r\ntwo\u0000\u001b[31m")).toBe("one two [31m");
    expect(await error(`${"a".repeat(508)}${upstreamKey}`)).toBe(`${"a".repeat(508)}***`);
  });

  test.each([
    ["an HTML page", "<html>nginx</html>", "text/html"],
    ["broken JSON", "{broken", undefined],
    ["an empty body", "", undefined],
    ["an error without a message", '{"error":{}}', undefined],
    ["a list", "[1]", undefined],
    ["a page without a type", "\n<!DOCTYPE html><p>Bad Request", undefined],
    ["a text of 5,000 characters", "so ".repeat(1667), "text/plain"],
    ["a number", "42", undefined],
  ])("missing in %s becomes: invalid request", async (_, body, type) => {
    expect(await messageFor(body, type)).toBe("invalid request");
  });

  test.each([
    ['{"error":"plain words"}', "plain words"],
    ['{"message":"words at the top"}', "words at the top"],
    ['[{"error":{"message":"in a list"}}]', "in a list"],
    ['{"detail":"x","error":{"message":"ж"}}', "ж"],
    ["Bad Request: prompt of 7 pages\n", "Bad Request: prompt of 7 pages"],
    ["<400> InternalError.Algo: no such role", "<400> InternalError.Algo: no such role"],
    ['event: error\ndata: {"error":{"message":"in an event"}}\n\n', "in an event"],
  ])("is found in %s", async (body, message) => {
    expect(await messageFor(body)).toBe(message);
  });

  test("within a message that says nothing is added to it, without a secret", async () => {
    const raw = JSON.stringify({ error: { message: `At most 1 image with ${upstreamKey}.` } });
    const body = { error: { message: "Provider returned error", code: 400, metadata: { raw } } };
    const words = "Provider returned error: At most 1 image with ***.";
    expect(await messageFor(JSON.stringify(body))).toBe(words);
  });

  test("in a huge body is read from its beginning only", async () => {
    at.providers.one.answer = async (peer) => {
      await peer.send("HTTP/1.1 400 X\r\ncontent-type: application/json\r\n\r\n");
      for (;;) await peer.send("a".repeat(65_536));
    };
    expectRefusal(await ask(), [400, "invalid_request_error", "invalid request"]);
  });
});
