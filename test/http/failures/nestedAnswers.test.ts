import { describe, expect, test } from "bun:test";
import {
  answered,
  choice,
  completion,
  doneEvent,
  helloEvent,
  stopEvent,
  usage,
  usageEvent,
  usageOnly,
} from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, expectRefusal, noProvider } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { cpuTimer } from "../../support/measurement.ts";
import { openBefore, expectNoRequestOpen } from "../../support/gateway/gatewayUnderTest.ts";
import { ended } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import {
  piece,
  stream,
  streamEnd,
  streamHead,
  text,
} from "../../support/provider/scriptedProvider.ts";
import { beginChat } from "../../support/gateway/steppedChat.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

/** A placeholder for a value that can be parsed, but is nested too deep to be serialized. */
const DEEP = "nested too deep";
const deepJson = "[".repeat(60_000) + "]".repeat(60_000);
const deepened = (json: string): string => json.replace(`"${DEEP}"`, deepJson);

const opened = openBefore(["local", "again"], ({ local, again }) => ({
  providers: { local, again },
  models: [
    { id: "small", routes: [{ provider: "local" }] },
    { id: "paired", routes: [{ provider: "local" }, { provider: "again" }] },
  ],
}));
const at = {
  get gateway() {
    return opened.gateway;
  },
  provider: opened.providers.local,
};
const started = 100_000_000_000n;

/** Ends of a chat stream that cannot be serialized. */
const deepEnds: readonly (readonly [string, readonly string[]])[] = [
  ["the finish chunk", [chatEvent({}, "stop", { extra: DEEP }), usageEvent, doneEvent]],
  [
    "the usage on the finish chunk",
    [chatEvent({}, "stop", { usage: { ...usage, extra: DEEP } }), doneEvent],
  ],
];
const asking = { stream: true, stream_options: { include_usage: true } };

describe.each(deepEnds)(
  "a chat stream in which %s is nested too deep to be serialized",
  (_, end) => {
    const events = end.map(deepened);

    test.each([
      ["piece by piece", events],
      ["at once", [events.join("")]],
    ])(
      "ends with an error, charged like a disconnect, and leaves nothing open (%s)",
      async (_cut, pieces) => {
        at.provider.answer = stream(helloEvent, ...pieces);
        const key = await at.gateway.key({ concurrentRequests: 1 });
        const reply = await chat(at.gateway, key, asking);
        expect(chunksOf(reply).at(-1)).toMatchObject({
          choices: [{ delta: {}, finish_reason: "error" }],
          error: { type: "provider_error" },
        });
        expect(reply.text).not.toMatch(/"finish_reason":"(?!error)/);
        const charge = costOf({ prompt: 2, completion: 2 });
        expect(await at.gateway.records(key, 1)).toMatchObject([
          { status: "cancelled", estimated: true, charge },
        ]);
        expect(await at.gateway.balance(key)).toBe(started - charge);
        await expectNoRequestOpen(at, key);
      },
    );

    test("is charged once by the estimate, and leaves nothing open when the client has disconnected", async () => {
      const { key, client, provide, disconnect } = await beginChat(at, asking, {
        concurrentRequests: 1,
      });
      await provide(streamHead, piece(helloEvent));
      await client.seen("Hello");
      await disconnect();
      await provide(...events.map(piece), streamEnd);
      const charge = costOf({ prompt: 2, completion: 2 });
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "cancelled", estimated: true },
      ]);
      expect(await at.gateway.balance(key)).toBeLessThanOrEqual(started - charge);
      await expectNoRequestOpen(at, key);
    });
  },
);

describe("a chat stream whose usage after the finish reason is nested too deep to be serialized", () => {
  const events = [stopEvent, deepened(usageOnly({ ...usage, extra: DEEP })), doneEvent];

  test.each([
    ["piece by piece", events],
    ["at once", [events.join("")]],
  ])("is complete, and charged once by the estimate (%s)", async (_, pieces) => {
    at.provider.answer = stream(helloEvent, ...pieces);
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const reply = await chat(at.gateway, key, asking);
    expect(chunksOf(reply).at(-1)).toMatchObject({
      choices: [{ finish_reason: "stop" }],
      usage: { prompt_tokens: 2, completion_tokens: 2 },
    });
    const charge = costOf({ prompt: 2, completion: 2 });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, charge },
    ]);
    expect(await at.gateway.balance(key)).toBe(started - charge);
    await expectNoRequestOpen(at, key);
  });
});

test.each([30_000, 100_000])(
  "a chunk of %d levels does not block other requests",
  async (depth) => {
    const deep = "[".repeat(depth) + "]".repeat(depth);
    // Serializing it, or failing to, would block the process for seconds.
    const writing = cpuTimer();
    expect(isWrittenOrRefused(JSON.parse(deep))).toBe(true);
    const writingMs = writing();
    const end = chatEvent({}, "stop", { extra: DEEP }).replace(`"${DEEP}"`, deep);
    at.provider.answer = stream(helloEvent, end, doneEvent);
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const spentMs = cpuTimer();
    await chat(at.gateway, key, asking);
    expect(spentMs()).toBeLessThan(writingMs / 2);
    await expectNoRequestOpen(at, key);
  },
);

function isWrittenOrRefused(value: unknown): boolean {
  try {
    return JSON.stringify(value).length > 0;
  } catch (error) {
    return error instanceof RangeError;
  }
}

describe("a JSON answer that is nested too deep", () => {
  const deepCompletions: readonly (readonly [string, object])[] = [
    ["beside its choices", { extra: DEEP }],
    ["in its message", { choices: [choice({ extra: DEEP })] }],
    ["in its usage", { usage: { ...usage, extra: DEEP } }],
  ];

  test.each(deepCompletions)(
    "to be serialized, %s: 502, charged like a disconnect, without a failover",
    async (_, changes) => {
      at.provider.answer = text(deepened(JSON.stringify(completion(changes))));
      opened.providers.again.answer = answered();
      const key = await at.gateway.key({ concurrentRequests: 1 });
      expectRefusal(await chat(at.gateway, key, { model: "paired" }), noProvider);
      const charge = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "cancelled", estimated: false, charge, attemptCount: 1, provider: "local" },
      ]);
      expect(await at.gateway.balance(key)).toBe(started - charge);
      await expectNoRequestOpen(at, key);
    },
  );

  const deepOutput = [{ id: "msg_1", type: "message", content: DEEP }];

  test("is forwarded by the responses interface, and charged once without its usage", async () => {
    const body = deepened(JSON.stringify(ended("resp_1", { output: deepOutput, usage: null })));
    at.provider.answer = text(body);
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const reply = await respond(at.gateway, key);
    expect([reply.status, reply.text === body]).toEqual([200, true]);
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", estimated: true }]);
    await expectNoRequestOpen(at, key);
  });
});
