import { describe, expect, test } from "bun:test";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { created, delta, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import {
  json,
  piece,
  stream,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { until, untilAsync } from "../../support/until.ts";
import { holdWrites } from "../../support/store/gatewayDatabase.ts";

const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [{ id: "small", routes: [{ provider: "local" }] }],
}));

const usual = costOf({ prompt: 20, cached: 5, cacheWrite: 3, completion: 7 });

/** The charges in an account's ledger, newest first. */
async function chargesOf({ account }: TestKey): Promise<bigint[]> {
  const id = (await at.gateway.store.accounts.find(account))?.id ?? 0;
  const rows = await at.gateway.store.ledger.history(id, 100);
  return rows.filter(({ kind }) => kind === "charge").map(({ amount }) => amount);
}

/** How a provider can end a response, and the resulting record. */
const ends = [
  [
    "completed",
    {},
    {
      status: "done",
      charge: usual,
      promptTokens: 20,
      cachedTokens: 5,
      cacheWriteTokens: 3,
      completionTokens: 7,
      estimated: false,
    },
  ],
  [
    "incomplete",
    { incomplete_details: { reason: "max_output_tokens" } },
    { status: "done", charge: usual, estimated: false },
  ],
  [
    "failed",
    { error: { code: "server_error", message: "it failed" } },
    { status: "cancelled", charge: usual, estimated: false },
  ],
] as const;

describe("a response that ends with", () => {
  test.each(ends)(
    "%s is forwarded unchanged and charged correctly, in JSON",
    async (status, fields, record) => {
      const answer = ended("resp_1", { status, ...fields });
      at.providers.local.answer = json(answer);
      const key = await at.gateway.key();
      const reply = await respond(at.gateway, key);
      expect([reply.status, reply.text]).toEqual([200, JSON.stringify(answer)]);
      expect(await at.gateway.records(key, 1)).toMatchObject([record]);
      expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
        { outcome: status === "failed" ? "reported failure" : "ok", status: 200 },
      ]);
    },
  );

  test.each(ends)(
    "%s is forwarded unchanged and charged correctly, as a stream",
    async (status, fields, record) => {
      const events = [created(), delta, terminal(status, "resp_1", fields)];
      at.providers.local.answer = stream(...events);
      const key = await at.gateway.key();
      const reply = await respond(at.gateway, key, { stream: true });
      expect([reply.status, reply.text]).toEqual([200, events.join("")]);
      expect(await at.gateway.records(key, 1)).toMatchObject([record]);
      expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
        { outcome: status === "failed" ? "reported failure" : "ok", status: 200 },
      ]);
    },
  );
});

/** Usage that a provider may report, and the billed usage. `undefined` means an estimate. */
const usages = [
  ["that is null", null, undefined],
  ["that is missing", undefined, undefined],
] as const;

describe("a usage", () => {
  test.each(usages)("%s is billed the same in JSON and in a stream", async (_, usage, charge) => {
    const key = await at.gateway.key();
    at.providers.local.answer = json(ended("resp_1", { usage }));
    const reply = await respond(at.gateway, key);
    at.providers.local.answer = stream(
      created(),
      delta,
      terminal("completed", "resp_1", { usage }),
    );
    await respond(at.gateway, key, { stream: true });
    const records = await at.gateway.records(key, 2);
    for (const record of records) {
      expect(record).toMatchObject({ status: "done", estimated: charge === undefined });
      if (charge === undefined) expect(record.charge).toBeGreaterThan(0n);
      else expect(record.charge).toBe(charge);
    }
    expect(reply.headers.get("x-tollgate-cost-rub")).toMatch(/^\d+(\.\d+)?$/);
    // A request with status done has a ledger row, also one of 0.
    expect(await chargesOf(key)).toEqual(records.map((record) => -record.charge));
  });

  test("that is missing is estimated from texts and arguments, not from names and ids", async () => {
    const key = await at.gateway.key();
    const [message] = ended()["output"] as object[];
    const summary = [{ type: "summary_text", text: "hm" }];
    const output = [
      { id: "rs_1", type: "reasoning", summary, encrypted_content: "x".repeat(500) },
      message,
      { id: "fc_1", type: "function_call", call_id: "call_1", name: "add", arguments: '{"a":1}' },
    ];
    at.providers.local.answer = json(ended("resp_1", { usage: null, output }));
    await respond(at.gateway, key);
    // "hm", "Hello there" and the arguments have 20 bytes, four to a token. The prompt "hello" is two tokens.
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { estimated: true, promptTokens: 2, completionTokens: 5 },
    ]);
  });

  test("that is missing is estimated from the final response too, when a stream has few deltas or none", async () => {
    const key = await at.gateway.key();
    const text = "word ".repeat(40);
    const [message] = ended()["output"] as object[];
    const output = [{ ...message, content: [{ type: "output_text", text }] }];
    for (const deltas of [[], [delta]]) {
      const end = terminal("completed", "resp_1", { usage: null, output });
      at.providers.local.answer = stream(created(), ...deltas, end);
      await respond(at.gateway, key, { stream: true, max_output_tokens: 1000 });
    }
    // The deltas count when they have more text than the final response.
    const end = terminal("completed", "resp_1", { usage: null, output: [] });
    at.providers.local.answer = stream(created(), delta, end);
    await respond(at.gateway, key, { stream: true });
    expect(await at.gateway.records(key, 3)).toMatchObject([
      { estimated: true, completionTokens: 3 },
      { estimated: true, completionTokens: text.length / 4 },
      { estimated: true, completionTokens: text.length / 4 },
    ]);
  });

  test("that is missing is never estimated above the hold", async () => {
    const key = await at.gateway.key();
    const words = "word ".repeat(100);
    at.providers.local.answer = json(ended("resp_1", { usage: null }));
    await respond(at.gateway, key, { input: words, max_output_tokens: 3 });
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({ estimated: true, completionTokens: 3 });
    expect(record?.promptTokens).toBeGreaterThanOrEqual(words.length / 4);
    expect(record?.charge).toBeLessThanOrEqual(record?.hold ?? 0n);
  });
});

/** The result of `look` a while after `goOn`, while another process holds the write lock: nothing can be committed. */
async function whileLocked<Seen>(goOn: () => void, look: () => Seen): Promise<Seen> {
  await using _held = await holdWrites(at.gateway.place);
  goOn();
  await until("its end waits for the writer", () => at.gateway.app.gateway.writer.queued > 0);
  // Much longer than a commit and a write to the client.
  await Bun.sleep(100);
  return look();
}

async function rowCommitted({ account }: TestKey): Promise<void> {
  const { requests } = at.gateway.store;
  await untilAsync("its row is committed", async () => {
    const rows = (await requests.list({ account }, { limit: 1 })).rows;
    return rows.length > 0;
  });
}

test("the terminal event is sent only after the charge is committed", async () => {
  const end = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer) => {
    await peer.send(streamHead);
    await peer.send(piece(created() + delta));
    await end.promise;
    await peer.send(Buffer.concat([piece(terminal()), Buffer.from(streamEnd)]));
  };
  const reply = await openResponse(at.gateway, await at.gateway.key());
  await reply.seen("Hello there");
  const seenBefore = await whileLocked(end.resolve, () => reply.text);
  await reply.seen("response.completed");
  expect(seenBefore).toBe(created() + delta);
  expect(await at.gateway.store.requests.find(reply.id)).toMatchObject({
    status: "done",
    charge: usual,
  });
});

test("a JSON answer is sent only after the charge is committed", async () => {
  const end = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer, request) => {
    await end.promise;
    await json(ended())(peer, request);
  };
  const key = await at.gateway.key();
  let isAnswered = false;
  const answered = respond(at.gateway, key).finally(() => (isAnswered = true));
  await rowCommitted(key);
  const wasAnswered = await whileLocked(end.resolve, () => isAnswered);
  const { id } = await answered;
  expect(wasAnswered).toBe(false);
  expect(await at.gateway.store.requests.find(id)).toMatchObject({ status: "done", charge: usual });
});

test("the head of a stream is sent only after the response's owner is committed", async () => {
  const begin = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer) => {
    await begin.promise;
    await peer.send(Buffer.concat([Buffer.from(streamHead), piece(created() + delta)]));
    await end.promise;
    await peer.send(Buffer.concat([piece(terminal()), Buffer.from(streamEnd)]));
  };
  const key = await at.gateway.key();
  let isAnswered = false;
  const opened = openResponse(at.gateway, key).finally(() => (isAnswered = true));
  await rowCommitted(key);
  const wasAnswered = await whileLocked(begin.resolve, () => isAnswered);
  end.resolve();
  await (await opened).seen("response.completed");
  expect(wasAnswered).toBe(false);
});
