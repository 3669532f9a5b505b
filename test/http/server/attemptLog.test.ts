import { describe, expect, test } from "bun:test";
import {
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import { chat, openChat, type Reply } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { created, delta, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import { respond } from "../../support/gateway/responsesCalls.ts";
import {
  json,
  piece,
  raw,
  stream,
  streamEnd,
  streamHead,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore({ log: { level: "debug" }, billing: { disconnect_grace: "10ms" } });
const failed = { error: { code: "external_connector_error", message: "it failed" } };

const linesOf = (requestId: string) =>
  at.gateway.log.filter(
    (line) => line["request_id"] === requestId && String(line["msg"]).startsWith("attempt "),
  );
const attempts = (requestId: string) => at.gateway.store.requests.attempts(requestId);

describe("an attempt has one log line that agrees with its record", () => {
  const ends: readonly (readonly [string, string, string, readonly string[]])[] = [
    ["whole", "debug", "ok", [stopEvent, usageEvent, doneEvent]],
    ["broken off", "warn", "incomplete answer", []],
  ];

  test.each(ends)("when its stream is %s", async (_, level, outcome, end) => {
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(...end.map(piece), streamEnd)(peer, request);
    };
    const reply = await openChat(at.gateway, await at.gateway.key(), { stream: true });
    await reply.seen("Hello");
    expect(linesOf(reply.id)).toEqual([]);
    at.gateway.clock.advance(20_000);
    go.resolve();
    await until("the stream is over", () => reply.isOver);
    const [attempt, ...others] = await attempts(reply.id);
    expect(others).toEqual([]);
    expect(attempt).toMatchObject({ outcome, status: 200 });
    expect(attempt?.durationMs).toBeGreaterThanOrEqual(20_000);
    const lines = linesOf(reply.id);
    expect(lines).toMatchObject([{ level, outcome, status: 200, provider: "local" }]);
    // The record of a single attempt that succeeded has the duration of its request.
    if (level === "debug")
      expect(lines[0]?.["duration_ms"]).toBeWithin(20_000, (attempt?.durationMs ?? 0) + 1);
  });

  test.each<[string, object, ProviderAnswer]>([
    ["in JSON", {}, json(ended("resp_1", { status: "failed", ...failed }))],
    [
      "as a stream",
      { stream: true },
      stream(created(), delta, terminal("failed", "resp_1", failed)),
    ],
  ])("when a response is reported %s as failed", async (_, body, answer) => {
    at.provider.answer = answer;
    const { id, status }: Reply = await respond(at.gateway, await at.gateway.key(), body);
    expect(status).toBe(200);
    await until("its end is logged", () => linesOf(id).length > 0);
    const expected = { outcome: "reported failure", status: 200 };
    expect(await attempts(id)).toMatchObject([expected]);
    expect(linesOf(id)).toMatchObject([{ level: "warn", ...expected }]);
  });

  test("when its client disconnected, as a debug line", async () => {
    at.provider.answer = raw(streamHead, piece(helloEvent));
    const key = await at.gateway.key();
    const reply = await openChat(at.gateway, key, { stream: true });
    await reply.seen("Hello");
    reply.disconnect();
    await at.gateway.records(key, 1);
    const expected = { outcome: "client disconnected", status: 200 };
    expect(await attempts(reply.id)).toMatchObject([expected]);
    expect(linesOf(reply.id)).toMatchObject([{ level: "debug", ...expected }]);
  });
});

test("a chat in JSON has a line too", async () => {
  at.provider.answer = json({ error: { message: "no" } });
  const { id } = await chat(at.gateway, await at.gateway.key());
  expect(await attempts(id)).toMatchObject([{ status: 200 }]);
  expect(linesOf(id)).toMatchObject([{ level: "warn", outcome: (await attempts(id))[0]?.outcome }]);
});
