import { expect } from "bun:test";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
  usual,
} from "../../support/provider/chatAnswers.ts";
import {
  call,
  chat,
  chunksOf,
  expectRefusal,
  openChat,
  unwritable,
} from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { created, delta, responds, terminal } from "../../support/provider/responsesAnswers.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import { scrape } from "../../support/gateway/scrape.ts";
import { piece, raw, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { until, untilAsync } from "../../support/until.ts";
import { testSqlite } from "../../support/testedEngines.ts";
import { holdWrites } from "../../support/store/gatewayDatabase.ts";

const at = openOneModelBefore({ metrics: { listen: "127.0.0.1:0" } });
const hasty = openOneModelBefore({}, { first_byte_timeout: "200ms", idle_timeout: "200ms" });
const started = 100_000_000_000n;
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });

/** The time that the end of an answer waits for the store. */
const PATIENCE_MS = 10_000;
/** Longer than the writer waits for a lock before it reports it. */
const LOCKED_MS = 6500;
const testTimeoutMs = 60_000;

/** Counts the settlements that were given to the writer. */
function countEnds(): () => number {
  const { writer } = at.gateway.app.gateway;
  const write = writer.writeWithin.bind(writer);
  let count = 0;
  writer.writeWithin = (operation, holds) => {
    if (operation.kind === "recordRequest") count += 1;
    return write(operation, holds);
  };
  return () => count;
}

const statusOf = async ({ account }: TestKey) =>
  (await at.gateway.store.requests.list({ account }, { limit: 1 })).rows[0]?.status;

testSqlite(
  "the end of an answer waits for a locked store; after its time limit it is not charged, and nothing stays held",
  async () => {
    const ends = countEnds();
    const go = { hasty: Promise.withResolvers<void>(), patient: Promise.withResolvers<void>() };
    at.provider.answer = async (peer, request) => {
      const isStream = request.json["stream"] === true;
      if (isStream) await raw(streamHead, piece(helloEvent))(peer, request);
      await go[request.body.includes("hasty") ? "hasty" : "patient"].promise;
      const last = raw(...[stopEvent, usageEvent, doneEvent].map(piece), streamEnd);
      await (isStream ? last : answered())(peer, request);
    };
    const keys = {
      hasty: await at.gateway.key(),
      json: await at.gateway.key(),
      stream: await at.gateway.key(),
    };
    const hastily = chat(at.gateway, keys.hasty, { user: "hasty" });
    const patient = chat(at.gateway, keys.json);
    const streaming = await openChat(at.gateway, keys.stream, { stream: true });
    await streaming.seen("Hello");
    const shown = () => Promise.all(Object.values(keys).map(statusOf));
    await untilAsync("all are recorded", async () =>
      (await shown()).every((status) => status === "running"),
    );

    const lockedAtMs = performance.now();
    const held = await holdWrites(at.gateway.place);
    try {
      go.hasty.resolve();
      await until("the first end is being written", () => ends() === 1);
      at.gateway.clock.advance(PATIENCE_MS);
      go.patient.resolve();
      await until("the others are being written", () => ends() === 3);

      const refused = await hastily;
      expectRefusal(refused, unwritable);
      expect(at.gateway.app.gateway.holds.total()).toBeGreaterThan(0n);
      expect(streaming.text).not.toMatch(/"finish_reason":"|DONE/);
      await Bun.sleep(LOCKED_MS - (performance.now() - lockedAtMs));
      expect(await shown()).toEqual(["running", "running", "running"]);
    } finally {
      await held.release();
    }

    expect((await patient).body).toMatchObject({ choices: [{ finish_reason: "stop" }] });
    await streaming.seen("[DONE]");
    expect(chunksOf(streaming).at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }] });
    for (const key of [keys.json, keys.stream]) {
      expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
      expect(await at.gateway.balance(key)).toBe(started - cost);
    }
    expect(await at.gateway.records(keys.hasty, 1)).toMatchObject([
      { status: "failed", charge: 0n },
    ]);
    expect(await at.gateway.balance(keys.hasty)).toBe(started);
    await at.gateway.expectAuditPasses();
  },
  testTimeoutMs,
);

/** The time that requests during a lock may take in addition to the wait. */
const BUSY_MS = 5000;
const SLACK_MS = 4000;
/** The time in which a gateway finds out by itself that the store is writable again. */
const IDLE_MS = 3000;

testSqlite(
  "requests that come while another waits for a lock wait with it, and are served when it ends",
  async () => {
    const { gateway, provider } = at;
    const { writer } = gateway.app.gateway;
    provider.answer = usual;
    const [user, ...keys] = [await gateway.key(), await gateway.key(), await gateway.key()];
    const held = await holdWrites(gateway.place);
    try {
      // The write of the key's first use waits for the lock.
      await call(gateway, user, { path: "/v1/models" });
      await until("the write waits", () => writer.queued > 0);
      const asked = keys.map((key) => chat(gateway, key));
      await until("they wait behind it", () => writer.queued > 1);
      await held.release();
      for (const { status } of await Promise.all(asked)) expect(status).toBe(200);
    } finally {
      await held.release();
    }
    for (const key of keys)
      expect(await gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
    await gateway.expectAuditPasses();
  },
  testTimeoutMs,
);

testSqlite(
  "a locked store is awaited once; then no provider is asked and /healthz is unavailable, until it is free, which is found without a request",
  async () => {
    const { gateway, provider } = at;
    const { writer } = gateway.app.gateway;
    const health = async () => (await call(gateway, undefined, { path: "/healthz" })).status;
    const isToldLocked = async () =>
      (await scrape(gateway.metricsUrl)).value("tollgate_store_locked");
    provider.answer = (peer, request) =>
      (request.requestLine.includes("/responses") ? responds() : usual)(peer, request);
    const [key, second] = [await gateway.key(), await gateway.key()];
    const loggedBefore = gateway.log.length;
    const held = await holdWrites(gateway.place);
    try {
      const lockedAtMs = performance.now();
      provider.forget();
      const asked = [false, true].map((stream) => chat(gateway, key, { stream }));
      await until("the writer waits for the lock", () => writer.queued > 0);
      asked.push(respond(gateway, key));
      asked.push(chat(gateway, key), chat(gateway, second));
      for (const reply of await Promise.all(asked)) expectRefusal(reply, unwritable);
      expect(performance.now() - lockedAtMs).toBeWithin(BUSY_MS - SLACK_MS, BUSY_MS + SLACK_MS);

      const toldLocked = () =>
        gateway.log.slice(loggedBefore).filter(({ error }) => error === "StoreLocked");
      expect(toldLocked().filter(({ msg }) => msg === "request")).toHaveLength(asked.length);

      const toldBefore = toldLocked().length;
      const refusedAtMs = performance.now();
      for (let count = 0; count < 3; count += 1)
        expectRefusal(await chat(gateway, key), unwritable);
      expectRefusal(await chat(gateway, key, { stream: true }), unwritable);
      expect(await health()).toBe(503);
      expect(await isToldLocked()).toBe(1);
      expect(performance.now() - refusedAtMs).toBeLessThan(SLACK_MS);
      expect(provider.requests).toEqual([]);
      const lines = toldLocked().slice(toldBefore);
      const touched = "the last use of a key was not recorded";
      expect(lines.map(({ msg }) => msg).filter((msg) => msg !== touched)).toEqual([
        ...Array<string>(4).fill("request"),
        "the database is not usable",
      ]);
      await until("what was tried is over", () => writer.queued === 0);
    } finally {
      await held.release();
    }
    // No request is sent that would find out.
    await until("the lock is found to be gone", () => writer.blockedBy === undefined, IDLE_MS);
    expect(await isToldLocked()).toBe(0);
    expect(await health()).toBe(200);
    provider.answer = usual;
    expect((await chat(gateway, key)).status).toBe(200);
    // Those that were refused leave no record.
    expect(await gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
    await gateway.expectAuditPasses();
  },
  testTimeoutMs,
);

testSqlite(
  "a stream is not aborted as silent because the store delays the ids of its response",
  async () => {
    const seen = Promise.withResolvers<void>();
    hasty.provider.answer = async (peer, request) => {
      await raw(streamHead, piece(delta))(peer, request);
      await seen.promise;
      const held = await holdWrites(hasty.gateway.place);
      await peer.send(piece(created()));
      await Bun.sleep(350);
      await held.release();
      await raw(piece(terminal()), streamEnd)(peer, request);
    };
    const key = await hasty.gateway.key();
    const reply = await openResponse(hasty.gateway, key);
    await reply.seen("Hello there");
    seen.resolve();
    await until("the stream is over", () => reply.isOver);
    expect(reply.text).toContain("response.completed");
    expect(await hasty.gateway.records(key, 1)).toMatchObject([{ status: "done", charge: cost }]);
  },
);
