import { afterEach, describe, expect, test } from "bun:test";
import {
  answered,
  completion,
  doneEvent,
  helloEvent,
  stopEvent,
  usage,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import { ask, chat, chunksOf, openChat } from "../../support/gateway/chatCalls.ts";
import { costOf, oneModel } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import {
  json,
  piece,
  raw,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { holdWrites, rowsAt } from "../../support/store/gatewayDatabase.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { until, untilAsync } from "../../support/until.ts";

const at = openOneModelBefore();
const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
/** Much longer than a commit and a write to the client. */
const LONG_MS = 150;

describe("no client receives the end of an answer before its charge is committed", () => {
  test("a stream: its content is sent, the finish chunk waits for the commit", async () => {
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      const end = [stopEvent, usageEvent, doneEvent].map(piece);
      await raw(...end, streamEnd)(peer, request);
    };
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen("Hello");
    await using held = await holdWrites(at.gateway.place);
    go.resolve();
    await until("its end waits for the writer", () => at.gateway.app.gateway.writer.queued > 0);
    await Bun.sleep(LONG_MS);
    const seenBefore = client.text;
    await held.release();
    await client.seen("[DONE]");
    expect(seenBefore).toContain("Hello");
    expect(seenBefore).not.toMatch(/"finish_reason":"|DONE/);
    expect(chunksOf(client)).toHaveLength(2);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - cost);
  });

  test("a stream: its content does not wait for the commit, also if it arrives with the end", async () => {
    const events = [helloEvent, stopEvent, usageEvent, doneEvent].map(piece);
    at.provider.answer = raw(streamHead + Buffer.concat(events).toString() + streamEnd);
    const key = await at.gateway.key();
    // The reserve then covers the next request.
    await chat(at.gateway, key, { stream: true });
    await using held = await holdWrites(at.gateway.place);
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen("Hello");
    await until("its end waits for the writer", () => at.gateway.app.gateway.writer.queued > 0);
    await Bun.sleep(LONG_MS);
    const seenBefore = client.text;
    await held.release();
    await client.seen("[DONE]");
    expect(seenBefore).not.toMatch(/"finish_reason":"|DONE/);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - 2n * cost);
  });

  test("a stream: the finish chunk waits also when the usage comes late", async () => {
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent), piece(stopEvent))(peer, request);
      await go.promise;
      await raw(piece(usageEvent), piece(doneEvent), streamEnd)(peer, request);
    };
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { stream: true });
    await client.seen("Hello");
    await Bun.sleep(LONG_MS);
    const seenBefore = client.text;
    const balanceBefore = await at.gateway.balance(key);
    go.resolve();
    await client.seen("[DONE]");
    expect(seenBefore).not.toContain('"finish_reason":"');
    expect(balanceBefore).toBe(100_000_000_000n);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - cost);
  });

  test("a stream: another connection reads the charge when the finish chunk arrives", async () => {
    at.provider.answer = raw(
      streamHead,
      ...[helloEvent, stopEvent, usageEvent, doneEvent].map(piece),
      streamEnd,
    );
    const charged = async ({ account }: TestKey) => {
      const query = `SELECT balance FROM accounts WHERE name = '${account}'`;
      return (await rowsAt<{ balance: bigint }>(at.gateway.place, query))[0]?.balance;
    };
    for (let round = 0; round < 20; round += 1) {
      const key = await at.gateway.key();
      const client = await connectRaw(at.gateway.port);
      client.send(chatBytes(key.key, JSON.stringify(ask({ stream: true }))));
      await client.seen('"finish_reason":"stop"');
      expect(await charged(key)).toBe(100_000_000_000n - cost);
      client.fin();
    }
  });

  test("JSON: nothing of the answer is sent before the commit", async () => {
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await go.promise;
      await json(completion())(peer, request);
    };
    const key = await at.gateway.key();
    const client = await connectRaw(at.gateway.port);
    client.send(chatBytes(key.key, JSON.stringify(ask())));
    const isRunning = async () =>
      (await at.gateway.store.requests.list({ account: key.account }, { limit: 1 })).rows;
    await untilAsync(
      "the request is under way",
      async () => (await isRunning())[0]?.status === "running",
    );
    await using held = await holdWrites(at.gateway.place);
    go.resolve();
    await until("its end waits for the writer", () => at.gateway.app.gateway.writer.queued > 0);
    await Bun.sleep(LONG_MS);
    const seenBefore = client.text;
    await held.release();
    const { status, body } = await client.response();
    expect([seenBefore, status]).toEqual(["", 200]);
    expect(body).toContain("Hello there");
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - cost);
    client.fin();
  });

  test("a stream: its head is sent only after its money is reserved", async () => {
    at.provider.answer = raw(streamHead, piece(helloEvent), piece(stopEvent), streamEnd);
    const client = await connectRaw(at.gateway.port);
    const { key } = await at.gateway.key();
    await using held = await holdWrites(at.gateway.place);
    client.send(chatBytes(key, JSON.stringify(ask({ stream: true }))));
    await until("its money is asked for", () => at.gateway.app.gateway.writer.queued > 0);
    await Bun.sleep(LONG_MS);
    const seenBefore = client.text;
    await held.release();
    await client.seen("[DONE]");
    expect(seenBefore).toBe("");
    client.fin();
  });
});

describe("a request is charged once", () => {
  afterEach(() => at.gateway.reload(oneModel(`http://127.0.0.1:${at.provider.port}/v1`)));

  test("at the prices of its admission", async () => {
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await go.promise;
      await answered()(peer, request);
    };
    const key = await at.gateway.key();
    const client = await connectRaw(at.gateway.port);
    client.send(chatBytes(key.key, JSON.stringify(ask())));
    await at.provider.request(0);
    const local = `http://127.0.0.1:${at.provider.port}/v1`;
    const settings = { rub_input_per_1m: 1_000_000, rub_output_per_1m: 1_000_000 };
    await at.gateway.reload({
      providers: { local },
      models: [{ id: "small", routes: [{ provider: "local" }], settings }],
    });
    go.resolve();
    expect((await client.response()).status).toBe(200);
    expect(await at.gateway.balance(key)).toBe(100_000_000_000n - cost);
    client.fin();
  });

  test("and a model that a reload removed is a 404 from the next request", async () => {
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await go.promise;
      await answered({ usage })(peer, request);
    };
    const key = await at.gateway.key();
    const client = await connectRaw(at.gateway.port);
    client.send(chatBytes(key.key, JSON.stringify(ask())));
    await at.provider.request(0);
    const local = `http://127.0.0.1:${at.provider.port}/v1`;
    const models = [{ id: "other", routes: [{ provider: "local" }] }];
    await at.gateway.reload({ providers: { local }, models });
    go.resolve();
    expect((await client.response()).status).toBe(200);
    client.send(chatBytes(key.key, JSON.stringify(ask())));
    expect((await client.response()).status).toBe(404);
    client.fin();
  });
});
