import { afterEach, expect, spyOn, test } from "bun:test";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
  usageOnly,
  usual,
} from "../../support/provider/chatAnswers.ts";
import { call, chat, expectRefusal, unwritable } from "../../support/gateway/chatCalls.ts";
import { fillStore } from "../../support/store/fullStore.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { responds } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import { piece, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import { beginChat } from "../../support/gateway/steppedChat.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { until, untilAsync } from "../../support/until.ts";
import { describeSqlite } from "../../support/testedEngines.ts";

const at = openOneModelBefore();
const started = 100_000_000_000n;
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
const theEnd = [...[stopEvent, usageEvent, doneEvent].map(piece), streamEnd];
/** The time that the end of an answer waits for the store. */
const PATIENCE_MS = 10_000;

const statusOf = async ({ account }: TestKey) =>
  (await at.gateway.store.requests.list({ account }, { limit: 1 })).rows[0]?.status;

let makeRoom = (): void => {};
function fill(): void {
  const empty = fillStore(at.gateway.path);
  makeRoom = () => {
    empty();
    makeRoom = () => {};
  };
}
// For the tests after a failed one.
afterEach(() => makeRoom());

describeSqlite("a store on a full disk", () => {
  test("refuses a request whose money cannot be reserved, asks no provider, and records nothing", async () => {
    const key = await at.gateway.key({ concurrentRequests: 1 });
    fill();
    expectRefusal(await chat(at.gateway, key), unwritable);

    at.provider.forget();
    for (let count = 0; count < 5; count += 1)
      expectRefusal(await chat(at.gateway, key), unwritable);
    expectRefusal(await chat(at.gateway, key, { stream: true }), unwritable);
    expectRefusal(await respond(at.gateway, key), unwritable);
    expect(at.gateway.log.filter(({ error }) => error === "StoreFull").length).toBeGreaterThan(0);
    expect(at.provider.requests).toEqual([]);
    expect(at.gateway.app.gateway.holds.total()).toBe(0n);

    makeRoom();
    at.provider.answer = usual;
    // One request starts the write that finds out. Requests after its commit are served.
    const { writer } = at.gateway.app.gateway;
    expect([200, 502]).toContain((await chat(at.gateway, key)).status);
    await until("the writer has found room", () => writer.blockedBy === undefined);
    for (let count = 0; count < 2; count += 1)
      expect((await chat(at.gateway, key)).status).toBe(200);
    // Those that were refused leave no record.
    const records = await at.gateway.store.requests.list({ account: key.account }, { limit: 20 });
    for (const { status } of records.rows) expect(status).toBe("done");
  });

  test("makes /healthz unavailable until there is room, which is found without a request", async () => {
    const { writer } = at.gateway.app.gateway;
    const key = await at.gateway.key();
    const health = async () => {
      const { status, body } = await call(at.gateway, undefined, { path: "/healthz" });
      return [status, (body as { status: string }).status];
    };
    expect(await health()).toEqual([200, "ok"]);
    fill();
    // There is no room to record the key's first use.
    expect((await call(at.gateway, key, { path: "/v1/models" })).status).toBe(200);
    await until("the writer has found no room", () => writer.blockedBy === "full");
    for (let count = 0; count < 5; count += 1) expect(await health()).toEqual([503, "unavailable"]);
    const asked = spyOn(writer, "write");
    await until("a write has failed", () => asked.mock.calls.length > 1 && writer.queued === 0);
    asked.mockRestore();
    expect(await health()).toEqual([503, "unavailable"]);
    makeRoom();
    await until("it has found room", () => writer.blockedBy === undefined);
    expect(await health()).toEqual([200, "ok"]);
    expect((await at.gateway.store.keys.find(key.id))?.lastUsedAt).toBeNull();
  });

  test("commits the end of an open request when there is room again, even seconds later: charged once", async () => {
    const { key, client, provide } = await beginChat(at, { stream: true });
    await provide(streamHead, piece(helloEvent));
    await client.seen("Hello");
    fill();
    await provide(...theEnd);
    const { writer } = at.gateway.app.gateway;
    await until("there is no room", () => writer.blockedBy === "full");
    const tries = spyOn(writer, "write");
    at.gateway.clock.advance(PATIENCE_MS / 2);
    await until("it is tried again", () => tries.mock.calls.length > 1);
    tries.mockRestore();
    expect(client.text).not.toMatch(/"finish_reason":"|DONE/);
    makeRoom();
    await client.seen("[DONE]");
    expect(client.text).toContain('"finish_reason":"stop"');
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
    expect(await at.gateway.balance(key)).toBe(started - cost);
    client.fin();
  });

  test("charges beyond the hold when there is room again", async () => {
    const { key, client, provide } = await beginChat(at, { stream: true, max_tokens: 10 });
    await provide(streamHead, piece(helloEvent));
    await client.seen("Hello");
    fill();
    const tokens = { prompt_tokens: 20, completion_tokens: 900 };
    await provide(...[stopEvent, usageOnly(tokens), doneEvent].map(piece), streamEnd);
    const { writer } = at.gateway.app.gateway;
    await until("there is no room", () => writer.blockedBy === "full");
    makeRoom();
    await client.seen("[DONE]");
    const charge = costOf({ prompt: 20, completion: 900 });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ charge, writeOff: 0n }]);
    client.fin();
  });

  test("commits the ids of a response and its charge when there is room again", async () => {
    const key = await at.gateway.key();
    at.provider.answer = async (peer, request) => {
      await untilAsync("it is recorded", async () => (await statusOf(key)) === "running");
      fill();
      void until("there is no room", () => at.gateway.app.gateway.writer.blockedBy === "full").then(
        makeRoom,
      );
      await responds("resp_late")(peer, request);
    };
    expect(await respond(at.gateway, key)).toMatchObject({
      status: 200,
      body: { id: "resp_late" },
    });
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
    at.provider.answer = responds("resp_next");
    const next = await respond(at.gateway, key, { previous_response_id: "resp_late" });
    expect(next.status).toBe(200);
  });

  test.each([
    ["a stream", true],
    ["a JSON answer", false],
  ])(
    "that stays full: %s ends with an internal error, uncharged, and its hold is released",
    async (_, stream) => {
      const { key, client, provide, peer } = await beginChat(
        at,
        { stream },
        { concurrentRequests: 1 },
      );
      await untilAsync("it is recorded", async () => (await statusOf(key)) === "running");
      fill();
      if (stream) await provide(streamHead, piece(helloEvent), ...theEnd);
      else await answered()(peer, await at.provider.request(0));
      await until("there is no room", () => at.gateway.app.gateway.writer.blockedBy === "full");
      at.gateway.clock.advance(PATIENCE_MS);
      if (stream) await client.seen("[DONE]");
      else await client.seen(unwritable[2]);
      expect(client.text).not.toContain('"finish_reason":"stop"');
      expect(await statusOf(key)).toBe("running");
      expect(at.gateway.app.gateway.holds.total()).toBeGreaterThan(0n);
      makeRoom();
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "failed", charge: 0n, provider: "local" },
      ]);
      expect(await at.gateway.balance(key)).toBe(started);
      await at.gateway.expectAuditPasses();
      at.provider.answer = answered();
      expect((await chat(at.gateway, key)).status).toBe(200);
      client.fin();
    },
  );
});
