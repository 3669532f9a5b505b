import { describe, expect, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import {
  badKey,
  call,
  chat,
  expectRefusal,
  tooOften,
  type ExpectedError,
  type Reply,
} from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";

/** What all routes about a caller's own account have in common. */

const at = openOneModelBefore();

/** One path for each route. `REQUEST` is replaced by the id of a request of the key's account. */
const paths = [
  "/v1/account",
  "/v1/usage",
  "/v1/usage?by=model",
  "/v1/usage?by=hour",
  "/v1/requests",
  "/v1/requests?limit=1",
  "/v1/requests/REQUEST",
];

async function charged(key: TestKey): Promise<string> {
  at.provider.answer = usual;
  return (await chat(at.gateway, key)).id;
}

function get(path: string, key?: Pick<TestKey, "key">, method = "GET"): Promise<Reply> {
  return call(at.gateway, key, { path, method });
}

describe.each(paths)("%s", (path) => {
  const of = (id: string) => path.replace("REQUEST", id);

  test("refuses a client without a valid key with 401, before it checks the query or the id", async () => {
    const key = await at.gateway.key();
    const id = await charged(key);
    const gone = await at.gateway.key({ expiresAt: at.gateway.clock.epochMs() - 1 });
    for (const wrongKey of [undefined, { key: "sk-tg-wrong" }, gone]) {
      expectRefusal(await get(of(id), wrongKey), badKey);
      expectRefusal(await get(`${of("x")}?since=x`, wrongKey), badKey);
    }
    expect((await get(of(id), key)).status).toBe(200);
  });

  test("refuses keys of a disabled account, and revoked keys", async () => {
    const key = await at.gateway.key();
    const id = await charged(key);
    const other = await at.gateway.key({ account: key.account, balance: 0n });
    const { admin } = at.gateway.store;
    const actor = { name: "tester", command: "test", at: Date.now() };
    await admin.revokeKey(actor, other.id);
    await at.gateway.toldOfChanges();
    expectRefusal(await get(of(id), other), badKey);
    await admin.setDisabled(actor, key.account, true);
    await at.gateway.toldOfChanges();
    expectRefusal(await get(of(id), key), badKey);
    await admin.setDisabled(actor, key.account, false);
    await at.gateway.toldOfChanges();
    expect((await get(of(id), key)).status).toBe(200);
  });

  test("counts in the key's request rate and shows it in the headers", async () => {
    const id = await charged(await at.gateway.key());
    const key = await at.gateway.key({ requestsPerMinute: 2 });
    const limit = (reply: Reply) => reply.headers.get("x-ratelimit-remaining-requests");
    expect(limit(await get(of(id), key))).toBe("1");
    expect(limit(await get(of(id), key))).toBe("0");
    expectRefusal(await get(of(id), key), tooOften);
  });

  test("releases the key's concurrency slot, also after a refusal", async () => {
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const id = await charged(key);
    for (const asked of [id, "req_x", id, "req_x", id]) await get(of(asked), key);
    expect((await get(of(id), key)).status).toBe(200);
    expect(at.gateway.app.requests.open).toBe(0);
  });

  test("costs nothing, leaves no record, and serves an account without money", async () => {
    const key = await at.gateway.key();
    const id = await charged(key);
    const before = await at.gateway.balance(key);
    expect((await get(of(id), key)).status).toBe(200);
    expect(await at.gateway.balance(key)).toBe(before);
    expect(await at.gateway.records(key, 1)).toHaveLength(1);
    const poor = await at.gateway.key({ balance: 0n });
    expect((await get(of(id), poor)).status).toBe(path.includes("REQUEST") ? 404 : 200);
  });

  test("answers JSON with a request id that is not stored; HEAD is the same without a body", async () => {
    const key = await at.gateway.key();
    const id = await charged(key);
    const [whole, head] = [await get(of(id), key), await get(of(id), key, "HEAD")];
    expect([whole.status, head.status, head.text]).toEqual([200, 200, ""]);
    expect(Object.fromEntries(whole.headers)).toMatchObject({
      "content-type": "application/json",
      "cache-control": "no-store",
      vary: "authorization, x-api-key",
    });
    for (const name of ["content-type", "content-length", "cache-control", "vary"]) {
      expect([name, head.headers.get(name)]).toEqual([name, whole.headers.get(name)]);
    }
    expect(new Set([id, whole.id, head.id]).size).toBe(3);
    for (const reply of [whole, head]) {
      expect(reply.id).toMatch(/^req_[0-9a-z]{20}$/);
      expect(at.gateway.logText()).toContain(reply.id);
    }
    const wrongKey = await get(of(id), undefined, "HEAD");
    expect([wrongKey.status, wrongKey.text]).toEqual([401, ""]);
  });

  test("is a 404 for another method, a trailing slash, or another letter case", async () => {
    const key = await at.gateway.key();
    const notFound: ExpectedError = [404, "invalid_request_error", "not found"];
    const noRequest: ExpectedError = [404, "invalid_request_error", "request not found"];
    for (const method of ["POST", "PUT", "DELETE", "PATCH"]) {
      expectRefusal(await get(of("x"), key, method), notFound);
    }
    const [bare = ""] = path.split(/(?<=\w)[?]|\/REQUEST/);
    expectRefusal(await get(bare.toUpperCase(), key), notFound);
    const isOfId = path.startsWith("/v1/requests");
    expectRefusal(await get(`${bare}/`, key), isOfId ? noRequest : notFound);
  });

  test("is a 502 while the gateway drains, and closes the connection", async () => {
    const { app } = at.gateway;
    const key = await at.gateway.key();
    const id = await charged(key);
    app.phase = "refusing";
    try {
      for (const somebody of [key, undefined]) {
        const reply = await get(of(id), somebody);
        expectRefusal(reply, [502, "provider_error", "service temporarily unavailable"]);
        expect(reply.headers.get("connection")).toBe("close");
      }
    } finally {
      app.phase = "serving";
    }
    expect((await get(of(id), key)).status).toBe(200);
  });
});
