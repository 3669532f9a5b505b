import { describe, expect, test } from "bun:test";
import { chat, chunksOf, expectRefusal, openChat } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  begun,
  call,
  choicesOf,
  endOf,
  modelsOver,
  output,
  shownUsage,
  textDelta,
  textOf,
  wholeStream,
} from "../../support/provider/overResponses.ts";
import { ended } from "../../support/provider/responsesAnswers.ts";
import {
  json,
  piece,
  raw,
  refusal,
  stream,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { responseEvent } from "../../support/provider/upstreamText.ts";

/** Longer than a provider may be silent after its own end. */
const idleMs = 3500;
const silentMs = 2300;
const at = openBefore(["over", "plain"], ({ over, plain }) => ({
  providers: { over: { base_url: over, idle_timeout: `${idleMs}ms` }, plain },
  models: modelsOver,
  sections: { billing: { disconnect_grace: "100ms" } },
}));
const { over, plain } = at.providers;

const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
const started = 100_000_000_000n;

describe("a stop sequence, which the interface does not support,", () => {
  const stop = ["lo th"];

  test("ends a JSON answer, which is charged completely", async () => {
    over.answer = json(ended("resp_1", { output: [...output, call] }));
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stop });
    expect(reply.body).toMatchObject({
      choices: [
        {
          finish_reason: "stop",
          message: { role: "assistant", content: "Hel", reasoning_content: "Hm." },
        },
      ],
      usage: shownUsage,
    });
    expect(reply.text).not.toContain("call_1");
    expect(await at.gateway.balance(key)).toBe(started - cost);
  });

  test("ends a stream, which is charged completely", async () => {
    over.answer = stream(...wholeStream);
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stop, stream: true });
    expect(textOf(reply)).toBe("Hel");
    expect(choicesOf(reply).map(({ finish_reason: reason }) => reason)).toEqual([
      null,
      null,
      "stop",
    ]);
    expect(await at.gateway.balance(key)).toBe(started - cost);
  });

  test("is not awaited when the answer ends without it", async () => {
    over.answer = stream(...wholeStream);
    const reply = await chat(at.gateway, await at.gateway.key(), {
      stop: ["there!"],
      stream: true,
    });
    expect(textOf(reply)).toBe("Hello there");
    expect(choicesOf(reply).at(-1)?.finish_reason).toBe("stop");
  });

  test("ends a stream whose provider continues slowly; its final usage is charged", async () => {
    over.answer = async (peer, request) => {
      await raw(streamHead, piece(begun), piece(textDelta("Hello there")))(peer, request);
      await Bun.sleep(silentMs);
      await raw(piece(endOf("completed")), streamEnd)(peer, request);
    };
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stop, stream: true });
    expect(textOf(reply)).toBe("Hel");
    expect(choicesOf(reply).at(-1)?.finish_reason).toBe("stop");
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: false, charge: cost },
    ]);
  });

  test("ends a stream whose provider then falls silent; its text is estimated", async () => {
    const gone = Promise.withResolvers<void>();
    over.answer = async (peer, request) => {
      await raw(streamHead, ...[begun, textDelta("Hello"), textDelta(" there")].map(piece))(
        peer,
        request,
      );
      await raw(piece(textDelta("12345678")))(peer, request);
      await peer.closed;
      gone.resolve();
    };
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stop, stream: true });
    expect(textOf(reply)).toBe("Hel");
    // The provider is aborted.
    await gone.promise;
    // "hello", and the three short deltas of the completion.
    const charge = costOf({ prompt: 2, completion: 3 });
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", estimated: true, promptTokens: 2, completionTokens: 3, charge },
    ]);
  });

  test("ends a stream whose client then disconnects; its provider is soon aborted", async () => {
    const gone = Promise.withResolvers<void>();
    over.answer = async (peer, request) => {
      await raw(streamHead, piece(begun), piece(textDelta("Hello there")))(peer, request);
      await peer.closed;
      gone.resolve();
    };
    const key = await at.gateway.key();
    const client = await openChat(at.gateway, key, { stop, stream: true });
    await client.seen("Hel");
    const leftAtMs = performance.now();
    client.disconnect();
    await gone.promise;
    expect(performance.now() - leftAtMs).toBeLessThan(idleMs - 500);
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "cancelled", estimated: true, charge: costOf({ prompt: 2, completion: 3 }) },
    ]);
  });

  test("keeps a stream complete when its provider fails later", async () => {
    over.answer = stream(
      begun,
      textDelta("Hello there"),
      responseEvent("error", { message: "no" }),
    );
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stop, stream: true });
    expect(textOf(reply)).toBe("Hel");
    expect(choicesOf(reply).at(-1)?.finish_reason).toBe("stop");
    expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "done", estimated: true }]);
  });
});

describe("a provider that fails", () => {
  const failures = [
    ["response.failed", endOf("failed", { error: { code: "server_error", message: "secret" } })],
    ["an error", responseEvent("error", { code: "server_error", message: "secret" })],
    ["no end", ""],
  ] as const;

  test.each(failures)("by %s before content: the next route answers", async (_, last) => {
    over.answer = stream(begun, last);
    const key = await at.gateway.key();
    plain.answer = stream(
      'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n',
    );
    const reply = await chat(at.gateway, key, { model: "paired", stream: true });
    expect(textOf(reply)).toBe("Hi");
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "done", provider: "plain", attemptCount: 2 },
    ]);
  });

  test.each(failures)(
    "by %s after content: the stream ends with an error, and only a reported usage is charged",
    async (_, last) => {
      over.answer = stream(begun, textDelta("Hello"), last);
      const key = await at.gateway.key();
      const reply = await chat(at.gateway, key, { stream: true, stop: ["lo!"] });
      expect(textOf(reply)).toBe("Hello");
      expect(chunksOf(reply).at(-1)).toMatchObject({
        choices: [{ finish_reason: "error" }],
        error: { type: "provider_error" },
      });
      expect(reply.text).not.toContain("secret");
      const [record] = await at.gateway.records(key, 1);
      if (last.includes('"usage"')) {
        expect(record).toMatchObject({ status: "cancelled", estimated: false });
        expect(record?.charge).toBeGreaterThan(0n);
      } else {
        expect(record).toMatchObject({ status: "failed", charge: 0n });
      }
    },
  );

  test("by refusing the request: 400 with its message", async () => {
    over.answer = refusal(400, "max_output_tokens must be at least 16");
    const reply = await chat(at.gateway, await at.gateway.key(), { max_tokens: 1 });
    const told = [400, "invalid_request_error", "max_output_tokens must be at least 16"] as const;
    expectRefusal(reply, told, { code: "some_code" });
  });
});
