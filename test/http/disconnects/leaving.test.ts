import { afterEach, describe, expect, test } from "bun:test";
import {
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  thereEvent,
} from "../../support/provider/chatAnswers.ts";
import { isAnyOpen } from "../../support/gateway/breakers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  piece,
  raw,
  stream,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { beginChat, type SteppedChat } from "../../support/gateway/steppedChat.ts";
import { openResponse } from "../../support/gateway/responsesCalls.ts";
import { created } from "../../support/provider/responsesAnswers.ts";
import { chatEvent, responseEvent } from "../../support/provider/upstreamText.ts";
import { holdWrites } from "../../support/store/gatewayDatabase.ts";
import { until } from "../../support/until.ts";

/** What a client pays that leaves while its provider generates what it does not send. */
const graceMs = 200;
const opened = openBefore(["local"], ({ local }) => ({
  providers: {
    local,
    mute: { base_url: local, first_byte_timeout: "2s" },
    silent: { base_url: local, idle_timeout: "400ms" },
  },
  models: [
    { id: "small", routes: [{ provider: "local" }] },
    { id: "hasty", routes: [{ provider: "silent" }] },
    // Each with a speed of its own, which no answer changes.
    ...["slow", "fast", "tail", "files", "gap", "early", "summary"].map((id) => ({
      id,
      routes: [{ provider: "local", model: id, tokens_per_second: id === "slow" ? 20 : 100 }],
      settings: { max_output_tokens: 20_000 },
    })),
    ...["taught", "buffering", "unmeasured"].map((id) => ({
      id,
      routes: [{ provider: "local", model: id }],
      settings: { max_output_tokens: 20_000 },
    })),
    {
      id: "falls-silent",
      routes: [{ provider: "silent", model: "falls-silent" }],
      settings: { max_output_tokens: 20_000 },
    },
    {
      id: "dead",
      routes: [{ provider: "mute", model: "dead" }],
      settings: { max_output_tokens: 20_000 },
    },
  ],
  sections: { billing: { disconnect_grace: `${graceMs}ms` } },
}));
const at = {
  get gateway() {
    return opened.gateway;
  },
  provider: opened.providers.local,
};
afterEach(() => at.gateway.expectAuditPasses());

const begin = (model: string, changes: object = {}): Promise<SteppedChat> =>
  beginChat(at, { model, stream: true, ...changes });

const usageOf = (completion: number, prompt = 2): string =>
  chatEvent({}, null, {
    choices: [],
    usage: { prompt_tokens: prompt, completion_tokens: completion },
  });

async function recordOf({ key }: SteppedChat) {
  const [record] = await at.gateway.records(key, 1);
  expect(record).toMatchObject({ status: "cancelled", writeOff: 0n });
  expect(record?.charge).toBeLessThanOrEqual(record?.hold ?? 0n);
  return record;
}

describe("a client that leaves in a silence of its provider pays for the time", () => {
  test.each([
    ["slow", 30_000, 600],
    ["fast", 30_000, 3000],
    ["fast", 500, 0],
  ])(
    "before the first content, of the model %s for %i ms: %i tokens",
    async (model, ms, tokens) => {
      const begun = await begin(model);
      await begun.provide(streamHead, piece(roleEvent));
      await Bun.sleep(20);
      at.gateway.clock.advance(ms);
      await begun.disconnect();
      await begun.givenUp;
      const record = await recordOf(begun);
      expect(record).toMatchObject({ estimated: true, promptTokens: 2 });
      expect(record?.completionTokens).toBeWithin(tokens, tokens + 200);
    },
  );

  test("in a gap behind content, and for the text", async () => {
    const begun = await begin("gap");
    await begun.provide(streamHead, piece(helloEvent));
    await begun.client.seen("Hello");
    at.gateway.clock.advance(20_000);
    await begun.provide(piece(thereEvent));
    await begun.client.seen("there");
    at.gateway.clock.advance(10_000);
    await begun.disconnect();
    await begun.provide(piece(thereEvent));
    await begun.givenUp;
    expect((await recordOf(begun))?.completionTokens).toBeWithin(2950, 3300);
  });

  test("while only a summary of its reasoning arrives", async () => {
    // A finished answer shows that the route hides most of what it generates.
    at.provider.answer = stream(helloEvent, stopEvent, usageOf(400), doneEvent);
    await chat(at.gateway, await at.gateway.key(), { model: "summary", stream: true });
    const begun = await begin("summary");
    await begun.provide(streamHead, piece(helloEvent));
    await begun.client.seen("Hello");
    for (let second = 0; second < 10; second += 1) {
      at.gateway.clock.advance(1000);
      await begun.provide(piece(chatEvent({ reasoning_content: "a part of a summary " })));
      await Bun.sleep(10);
    }
    await begun.disconnect();
    await begun.provide(piece(thereEvent));
    await begun.givenUp;
    expect((await recordOf(begun))?.completionTokens).toBeWithin(950, 1200);
  });

  test("at the speed that finished answers of the route show", async () => {
    const key = await at.gateway.key();
    at.provider.answer = async (peer) => {
      await peer.send(Buffer.from(streamHead));
      await peer.send(piece(helloEvent));
      await until("the content is there", () => at.gateway.app.gateway.inFlight.exchanges.size > 0);
      await Bun.sleep(50);
      at.gateway.clock.advance(25_000);
      for (const part of [thereEvent, stopEvent, usageOf(1000), doneEvent])
        await peer.send(piece(part));
      await peer.send(Buffer.from(streamEnd));
    };
    expect((await chat(at.gateway, key, { model: "taught", stream: true })).status).toBe(200);
    const begun = await begin("taught");
    await begun.provide(streamHead, piece(roleEvent));
    await Bun.sleep(20);
    at.gateway.clock.advance(30_000);
    await begun.disconnect();
    await begun.givenUp;
    // About 40 tokens a second.
    expect((await recordOf(begun))?.completionTokens).toBeWithin(1150, 1300);
  });

  test("but not at that of answers which their provider sends at once", async () => {
    const key = await at.gateway.key();
    const half = chatEvent({ content: "word ".repeat(50) });
    at.provider.answer = async (peer) => {
      await peer.send(Buffer.concat([Buffer.from(streamHead), piece(half)]));
      await Bun.sleep(20);
      for (const part of [half, stopEvent, usageOf(120), doneEvent]) await peer.send(piece(part));
      await peer.send(Buffer.from(streamEnd));
    };
    for (let done = 0; done < 3; done += 1)
      await chat(at.gateway, key, { model: "buffering", stream: true });
    const begun = await begin("buffering");
    await begun.provide(streamHead, piece(roleEvent));
    await Bun.sleep(20);
    at.gateway.clock.advance(30_000);
    await begun.disconnect();
    await begun.givenUp;
    expect((await recordOf(begun))?.completionTokens).toBeWithin(2900, 3200);
  });

  test("but not for text that is slower than a route is taken for which has shown no speed", async () => {
    const begun = await begin("unmeasured");
    await begun.provide(streamHead, piece(helloEvent));
    await begun.client.seen("Hello");
    for (let seconds = 0; seconds < 20; seconds += 2) {
      at.gateway.clock.advance(2000);
      await begun.provide(piece(chatEvent({ content: `${"four".repeat(40)}${seconds};` })));
      await begun.client.seen(`${seconds};`);
    }
    await begun.disconnect();
    await begun.givenUp;
    expect((await recordOf(begun))?.completionTokens).toBeWithin(400, 450);
  });

  test("but not what an early usage has counted", async () => {
    const begun = await begin("early");
    at.gateway.clock.advance(20_000);
    const counted = { usage: { prompt_tokens: 7, completion_tokens: 1500 } };
    await begun.provide(streamHead, piece(chatEvent({ content: "Hello" }, null, counted)));
    await begun.client.seen("Hello");
    await begun.disconnect();
    await begun.provide(piece(thereEvent));
    await begun.givenUp;
    const record = await recordOf(begun);
    expect(record).toMatchObject({ promptTokens: 7 });
    expect(record?.completionTokens).toBeWithin(1500, 1560);
  });

  test("and nothing, when the provider never answers", async () => {
    const begun = await begin("dead");
    await begun.disconnect();
    // Longer than the grace.
    await Bun.sleep(3 * graceMs);
    expect(at.gateway.app.gateway.leftAnswers.count).toBe(1);
    await begun.givenUp;
    expect(await recordOf(begun)).toMatchObject({ charge: 0n, promptTokens: 0 });
    expect(at.gateway.app.gateway.leftAnswers.count).toBe(0);
  });
});

describe("a client that leaves is charged by the provider's usage", () => {
  test.each([
    ["after the text has ended", [helloEvent], [stopEvent]],
    ["after the finish reason", [helloEvent, stopEvent], []],
  ])("%s, when it comes within four times the grace", async (_, before, behind) => {
    const begun = await begin("tail");
    await begun.provide(streamHead, ...before.map(piece));
    await begun.client.seen("Hello");
    await begun.disconnect();
    await Bun.sleep(2 * graceMs);
    await begun.provide(...[...behind, usageOf(12_000), doneEvent].map(piece), streamEnd);
    expect(await recordOf(begun)).toMatchObject({ estimated: false, completionTokens: 12_000 });
  });

  test("when a file of the prompt is counted by it", async () => {
    const file = {
      file_data: `data:application/pdf;base64,${"A".repeat(40_000)}`,
      filename: "a.pdf",
    };
    const content = [{ type: "file", file }];
    const begun = await begin("files", { messages: [{ role: "user", content }] });
    await begun.provide(streamHead, piece(helloEvent));
    await begun.client.seen("Hello");
    await begun.disconnect();
    for (let sent = 0; sent < 3; sent += 1) {
      await Bun.sleep(graceMs);
      await begun.provide(piece(thereEvent));
    }
    await begun.provide(...[stopEvent, usageOf(9, 18_000), doneEvent].map(piece), streamEnd);
    expect(await recordOf(begun)).toMatchObject({ estimated: false, promptTokens: 18_000 });
  });

  test("if its account leaves far more often than the others, however long that takes", async () => {
    const { leftAnswers } = at.gateway.app.gateway;
    const others = await at.gateway.key();
    at.provider.answer = stream(helloEvent, stopEvent, doneEvent);
    for (let done = 0; done < 60; done += 1)
      await chat(at.gateway, others, { model: "tail", stream: true });
    const begun = await begin("tail");
    const caller = (await at.gateway.store.accounts.find(begun.key.account))?.id ?? 0;
    for (let left = 0; left < 20; left += 1)
      leftAnswers.ended({ accountId: caller, hasLeft: true }, 0);
    await begun.provide(streamHead, piece(helloEvent));
    await begun.client.seen("Hello");
    await begun.disconnect();
    for (let sent = 0; sent < 12; sent += 1) {
      await Bun.sleep(graceMs);
      await begun.provide(piece(thereEvent));
    }
    await begun.provide(...[stopEvent, usageOf(777), doneEvent].map(piece), streamEnd);
    expect(await recordOf(begun)).toMatchObject({ estimated: false, completionTokens: 777 });
  });
});

test("a client that leaves while its whole answer is committed takes no place among the answers that are read on", async () => {
  const begun = await begin("tail");
  await begun.provide(streamHead, piece(helloEvent));
  await begun.client.seen("Hello");
  const caller = (await at.gateway.store.accounts.find(begun.key.account))?.id ?? 0;
  const { leftAnswers } = at.gateway.app.gateway;
  for (let left = 0; left < 20; left += 1)
    leftAnswers.ended({ accountId: caller, hasLeft: true }, 0);
  const held = await holdWrites(at.gateway.place);
  await begun.provide(...[stopEvent, doneEvent].map(piece), streamEnd);
  await Bun.sleep(20);
  await begun.disconnect();
  await held.release();
  await at.gateway.records(begun.key, 1);
  await Bun.sleep(6 * graceMs);
  expect(leftAnswers.count).toBe(0);
});

test("a file counts the most tokens that its bytes can hold, when no usage comes", async () => {
  const file = {
    file_data: `data:application/pdf;base64,${"A".repeat(40_000)}`,
    filename: "a.pdf",
  };
  const begun = await begin("files", {
    messages: [{ role: "user", content: [{ type: "file", file }] }],
  });
  await begun.provide(streamHead, piece(helloEvent));
  await begun.client.seen("Hello");
  await begun.disconnect();
  await begun.givenUp;
  expect((await recordOf(begun))?.promptTokens).toBeWithin(30_000, 32_000);
});

test("a stream that falls silent until idle_timeout is charged for what was delivered, not for the silence", async () => {
  const begun = await begin("falls-silent");
  await begun.provide(streamHead, piece(helloEvent));
  await begun.client.seen("Hello");
  at.gateway.clock.advance(20_000);
  await begun.client.seen('"finish_reason":"error"');
  expect(await recordOf(begun)).toMatchObject({ promptTokens: 2, completionTokens: 2 });
});

test("an answer that a time-out of the gateway cuts is charged, and does not count for its route", async () => {
  at.provider.answer = raw(streamHead, piece(helloEvent));
  const keys = await Promise.all(Array.from({ length: 6 }, () => at.gateway.key()));
  await Promise.all(
    keys.map(async (key) => {
      const { text } = await chat(at.gateway, key, { model: "hasty", stream: true });
      expect(text).toContain('"finish_reason":"error"');
      const [record] = await at.gateway.records(key, 1);
      expect(record).toMatchObject({ status: "cancelled", estimated: true, promptTokens: 2 });
      expect(record?.completionTokens).toBe(2);
    }),
  );
  expect(isAnyOpen(at.gateway)).toBe(false);
});

describe("an answer that its provider reports as failed", () => {
  test("is not charged by its usage where no text was delivered", async () => {
    const usage = { input_tokens: 20, output_tokens: 7, total_tokens: 27 };
    const error = { code: "server_error", message: "no" };
    const response = {
      id: "resp_1",
      object: "response",
      status: "failed",
      error,
      usage,
      output: [],
    };
    at.provider.answer = stream(created(), responseEvent("response.failed", { response }));
    const key = await at.gateway.key();
    const client = await openResponse(at.gateway, key);
    await client.seen("response.failed");
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
  });

  test("by an error of a chat with a usage is charged by it", async () => {
    const usage = { prompt_tokens: 20, completion_tokens: 9 };
    const error = `data: ${JSON.stringify({ error: { message: "no" }, usage })}\n\n`;
    at.provider.answer = stream(helloEvent, error);
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stream: true });
    expect(reply.text).toContain('"finish_reason":"error"');
    const [record] = await at.gateway.records(key, 1);
    expect(record).toMatchObject({ status: "cancelled", promptTokens: 20, completionTokens: 9 });
  });
});
