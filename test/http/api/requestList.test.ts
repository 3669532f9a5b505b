import { describe, expect, test } from "bun:test";
import type { RequestList } from "../../../src/contract/account/requestList.ts";
import { helloEvent, usual } from "../../support/provider/chatAnswers.ts";
import { call, chat, expectRefusal, openChat } from "../../support/gateway/chatCalls.ts";
import { costlyModels } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { piece, raw, refusal, streamHead } from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { until, untilAsync } from "../../support/until.ts";

const at = openBefore(["local"], costlyModels("small", "large"));
const provider = at.providers.local;

const unknownCursor =
  "before must be `next` of an earlier page; without before the list begins anew";

function ask(key: TestKey, query = "") {
  return call(at.gateway, key, { path: `/v1/requests${query}` });
}

async function list(key: TestKey, query = ""): Promise<RequestList> {
  const { status, body } = await ask(key, query);
  expect(status).toBe(200);
  return body as RequestList;
}

async function listedIds(key: TestKey, query = ""): Promise<readonly string[]> {
  return (await list(key, query)).data.map(({ id }) => id);
}

/** The ids of all pages, with a hook between two pages. */
async function allPages(
  key: TestKey,
  query: string,
  between = async (): Promise<unknown> => undefined,
): Promise<readonly string[][]> {
  const pages: string[][] = [];
  for (let before = ""; ;) {
    const { data, next } = await list(key, `?${query}${before}`);
    pages.push(data.map(({ id }) => id));
    if (next === null) return pages;
    before = `&before=${next}`;
    await between();
  }
}

/** Sends chats one after another. Returns their ids, newest first. */
async function sent(key: TestKey, count: number, changes: object = {}): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) ids.unshift((await chat(at.gateway, key, changes)).id);
  return ids;
}

/** An open request that has its row. `end` ends it with a disconnect. */
async function openWithRow(key: TestKey) {
  provider.answer = raw(streamHead, piece(helloEvent));
  const open = await openChat(at.gateway, key, { stream: true });
  await open.seen("Hello");
  const { requests } = at.gateway.store;
  await untilAsync("it is recorded", async () => (await requests.find(open.id)) !== undefined);
  provider.answer = usual;
  return {
    id: open.id,
    async end() {
      open.disconnect();
      const isCancelled = async () => (await requests.find(open.id))?.status === "cancelled";
      await untilAsync("it ended", isCancelled);
    },
  };
}

describe("GET /v1/requests", () => {
  test("lists the account's requests as receipts, newest first, of all its keys", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    expect(await list(key)).toEqual({ object: "list", data: [], next: null });
    const second = await at.gateway.key({ account: key.account, balance: 0n });
    const [one] = await sent(key, 1);
    provider.answer = refusal(500);
    const { id: two } = await chat(at.gateway, second, { model: "large" });
    for (const either of [key, second]) {
      const { data, next } = await list(either);
      expect(next).toBeNull();
      expect(data.map(({ id }) => id)).toEqual([two, String(one)]);
      for (const shown of data) {
        const { body } = await call(at.gateway, either, { path: `/v1/requests/${shown.id}` });
        expect(body).toEqual(shown);
      }
      expect(data.map(({ attempts }) => attempts.map(({ outcome }) => outcome))).toEqual([
        ["unavailable"],
        ["ok"],
      ]);
    }
  });

  test("shows 20 by default, and pages to the end", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    const ids = await sent(key, 23);
    expect(await listedIds(key)).toEqual(ids.slice(0, 20));
    expect(await allPages(key, "limit=20")).toEqual([ids.slice(0, 20), ids.slice(20)]);
    expect(await allPages(key, "limit=100")).toEqual([ids]);
    expect(await allPages(key, "limit=23")).toEqual([ids]);
    expect((await allPages(key, "limit=1")).flat()).toEqual(ids);
    const { next } = await list(key, "?limit=10");
    expect(await listedIds(key, `?limit=5&before=${next}`)).toEqual(ids.slice(10, 15));
  });

  test("filters by model and status", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    const small = await sent(key, 3);
    const large = await sent(key, 2, { model: "large" });
    provider.answer = refusal(500);
    const failed = await sent(key, 2, { model: "large" });
    expect(await listedIds(key, "?model=small")).toEqual(small);
    expect((await allPages(key, "model=large&limit=1")).flat()).toEqual([...failed, ...large]);
    expect(await allPages(key, "status=failed&limit=1")).toEqual(failed.map((id) => [id]));
    expect(await allPages(key, "status=done&limit=2&model=small")).toEqual([
      small.slice(0, 2),
      small.slice(2),
    ]);
    expect(await listedIds(key, "?status=failed&model=small")).toEqual([]);
    expect(await listedIds(key, "?status=interrupted")).toEqual([]);
    expect(await listedIds(key, "?model=unknown")).toEqual([]);
  });

  test("keeps a request that is open for long at its place, and has each once while others arrive", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    const before = await sent(key, 2);
    const open = await openWithRow(key);
    const after = await sent(key, 3);
    const expected = [...after, open.id, ...before];
    expect(await listedIds(key)).toEqual(expected);
    expect(await listedIds(key, "?status=running")).toEqual([open.id]);
    expect(await listedIds(key, "?status=done")).toEqual([...after, ...before]);
    let pages = 0;
    const paged = await allPages(key, "limit=1", async () => {
      await sent(key, 1);
      if (++pages === 2) await open.end();
    });
    expect(paged.flat()).toEqual(expected);
    expect(await listedIds(key, "?status=cancelled")).toEqual([open.id]);
    expect((await listedIds(key)).slice(-6)).toEqual(expected);
  });

  test("goes on after a request whose status changed, and after a restart", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    const before = await sent(key, 1);
    const open = await openWithRow(key);
    const { data, next } = await list(key, "?limit=1");
    expect(data).toMatchObject([{ id: open.id, status: "running", attempts: [] }]);
    await open.end();
    expect(await listedIds(key, `?limit=1&before=${next}`)).toEqual(before);
  });

  test("shows no request of another account, and tells nothing by another's cursor", async () => {
    provider.answer = usual;
    const [alice, bob] = [await at.gateway.key(), await at.gateway.key()];
    const ofAlice = await sent(alice, 2);
    const ofBob = await sent(bob, 2);
    expect(await listedIds(alice, "?model=small")).toEqual(ofAlice);
    expect(await listedIds(bob, "?status=done")).toEqual(ofBob);
    const { next } = await list(bob, "?limit=1");
    const foreign = await ask(alice, `?limit=1&before=${next}`);
    const unknown = await ask(alice, "?limit=1&before=req_0");
    for (const reply of [foreign, unknown])
      expectRefusal(reply, [400, "invalid_request_error", unknownCursor]);
  });

  test("begins anew after a cursor whose request is folded", async () => {
    provider.answer = usual;
    const key = await at.gateway.key();
    await sent(key, 2);
    const { next } = await list(key, "?limit=1");
    const before = at.gateway.clock.epochMs() + 60_000;
    const { writer } = at.gateway.app.gateway;
    for (let folded = 1; folded > 0;)
      ({ folded = 0 } = await writer.write({ kind: "fold", before }));
    const reply = await ask(key, `?limit=1&before=${next}`);
    expectRefusal(reply, [400, "invalid_request_error", unknownCursor]);
    expect(await listedIds(key)).toEqual([]);
  });

  const others = "only the parameters limit, before, model and status are accepted";
  const count = "limit must be a whole number from 1 to 100";
  const statuses = "status must be one of: running, done, failed, cancelled, interrupted";
  test.each([
    ["limit=0", count],
    ["limit=101", count],
    ["limit=-1", count],
    ["limit=1.5", count],
    ["limit=", count],
    ["limit=020", count],
    ["limit=1e1", count],
    ["limit=5&limit=5", "limit stands twice"],
    ["before=", unknownCursor],
    ["before=x", unknownCursor],
    ["before=%00", unknownCursor],
    [`before=${"x".repeat(257)}`, "before must be at most 256 characters long"],
    ["model=", "model must not be empty"],
    ["model=%07", "model must not contain control characters"],
    [`model=${"x".repeat(257)}`, "model must be at most 256 characters long"],
    ["status=x", statuses],
    ["status=", statuses],
    ["status=Done", statuses],
    ["status=done&status=done", "status stands twice"],
    ["account=alice", others],
    ["after=x", others],
    ["__proto__=x", others],
  ])("refuses %.60s with 400", async (query, message) => {
    const key = await at.gateway.key({ concurrentRequests: 1 });
    expectRefusal(await ask(key, `?${query}`), [400, "invalid_request_error", message]);
    expect(await listedIds(key)).toEqual([]);
    expect(at.gateway.app.requests.open).toBe(0);
  });

  test("runs at most four lists of an account at once, and stops at a disconnect", async () => {
    const key = await at.gateway.key();
    const { app, clock } = at.gateway;
    const taken = Promise.withResolvers<void>();
    const turn = app.fairQueue.run(0, async (pause) => {
      // The rest after it is 400 ms.
      clock.advance(100);
      taken.resolve();
      await pause();
    });
    await taken.promise;
    const client = new AbortController();
    const headers = { authorization: `Bearer ${key.key}` };
    const left = fetch(`${at.gateway.url}/v1/requests`, { headers, signal: client.signal });
    await until("it is asked for", () => app.requests.open === 1);
    const asked = Array.from({ length: 4 }, () => ask(key));
    const statuses = Promise.all(asked).then((replies) => replies.map(({ status }) => status));
    client.abort();
    expect(await left.catch((error: unknown) => error)).toBeInstanceOf(Error);
    expect((await statuses).toSorted((one, other) => one - other)).toEqual([200, 200, 200, 429]);
    await turn;
    await until("it is over", () => app.requests.open === 0);
  });
});
