import { describe, expect, test } from "bun:test";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { created, delta, responds, terminal } from "../../support/provider/responsesAnswers.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import {
  json,
  piece,
  raw,
  refusal,
  stream,
  streamHead,
  text,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import { responseEvent } from "../../support/provider/upstreamText.ts";
import { until } from "../../support/until.ts";

const at = openBefore(["first", "second"], ({ first, second }) => ({
  providers: {
    first: { base_url: first, idle_timeout: "300ms", first_byte_timeout: "2s" },
    second,
  },
  models: [
    { id: "small", routes: [{ provider: "first" }] },
    // A different model name, so that the cooldown of the other route does not affect this one.
    { id: "both", routes: [{ provider: "first", model: "both" }, { provider: "second" }] },
    { id: "patient", routes: [{ provider: "second" }] },
  ],
}));

const usual = costOf({ prompt: 20, cached: 5, cacheWrite: 3, completion: 7 });
const chunked = (...texts: readonly string[]) => texts.map((one) => piece(one));
const providersError = responseEvent("error", {
  code: "server_error",
  message: "secret words of the provider",
  param: null,
  sequence_number: 1,
});

/** The event that ends a failed stream. */
function errorEvent(sequenceNumber: number): string {
  const fields = {
    code: "provider_error",
    message: "upstream provider failure",
    param: null,
    sequence_number: sequenceNumber,
    error: {
      type: "provider_error",
      code: "provider_error",
      message: "upstream provider failure",
      param: null,
    },
  };
  return responseEvent("error", fields);
}

/** Ways in which a stream can fail after its first content. */
const breaks: readonly (readonly [name: string, answer: ProviderAnswer])[] = [
  ["ends without a terminal event", stream(created(), delta)],
  ["reports an error", stream(created(), delta, providersError, terminal())],
  [
    "has a terminal event without a response",
    stream(created(), delta, responseEvent("response.completed")),
  ],
];

describe("a stream that", () => {
  test.each(breaks)(
    "%s after content ends with the error event, and is not charged",
    async (_, answer) => {
      at.providers.first.answer = answer;
      const key = await at.gateway.key();
      const reply = await openResponse(at.gateway, key);
      await until("the stream is over", () => reply.isOver);
      expect(reply.text).toBe(created() + delta + errorEvent(2));
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "failed", charge: 0n, promptTokens: 0 },
      ]);
    },
  );
});

/** Invalid answers before any content. `forms` lists for which forms (stream or JSON) each is invalid. */
const noAnswers: readonly (readonly [
  name: string,
  answer: ProviderAnswer,
  forms: readonly boolean[],
])[] = [
  ["an error as the first event", stream(providersError), [true]],
  ["an error after the opening events", stream(created(), providersError), [true]],
  ["comments alone", stream(": hello\n\n"), [true]],
  [
    "a JSON error with status 200",
    json({ error: { message: "secret words", code: "overloaded" } }),
    [true, false],
  ],
  ["HTML", text("<html>secret words</html>", { type: "text/html" }), [true, false]],
  ["null", json(null), [false]],
  ["500", refusal(500, "secret words"), [true, false]],
  ["429", refusal(429, "secret words"), [true, false]],
  ["408", refusal(408, "secret words"), [true, false]],
];
const table = noAnswers.flatMap(([name, answer, forms]) =>
  forms.map((isStream) => [name, isStream ? "a stream" : "JSON", answer, isStream] as const),
);

describe("instead of an answer", () => {
  // A failed route may have a cooldown. The clock advances between the tests.
  const nextMinute = () => at.gateway.clock.advance(60_000);

  test.each(table)(
    "%s, when %s was requested, lets the next provider answer",
    async (_, __, answer, isStream) => {
      nextMinute();
      at.providers.first.answer = answer;
      at.providers.second.answer = responds("resp_2");
      const key = await at.gateway.key();
      const reply = await respond(at.gateway, key, { model: "both", stream: isStream });
      expect(reply.status).toBe(200);
      // The client sees nothing of the first provider.
      expect(reply.text).not.toContain("resp_1");
      expect(reply.text).toContain("resp_2");
      if (isStream)
        expect(reply.text).toBe(created("resp_2") + delta + terminal("completed", "resp_2"));
      expect(at.providers.second.requests).toHaveLength(1);
      expect(await at.gateway.records(key, 1)).toMatchObject([
        { status: "done", provider: "second", attemptCount: 2, charge: usual },
      ]);
    },
  );
});

describe("an error of the provider about the request", () => {
  test.each([400, 409, 422])(
    "with status %d is a 400 with its message, and no other provider is asked",
    async (status) => {
      at.providers.first.answer = json(
        { error: { message: "input is odd", code: "odd", param: "input" } },
        { status },
      );
      for (const stream of [false, true]) {
        const key = await at.gateway.key();
        expect(await respond(at.gateway, key, { model: "both", stream })).toMatchObject({
          status: 400,
          body: {
            error: {
              message: "input is odd",
              type: "invalid_request_error",
              code: "odd",
              param: "input",
            },
          },
        });
        expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
      }
      expect(at.providers.second.requests).toEqual([]);
    },
  );

  test.each([undefined, "not_found", "file_not_found"])(
    "with 404 and the code %p is a 404",
    async (code) => {
      at.providers.first.answer = json(
        { error: { message: "secret words", code } },
        { status: 404 },
      );
      for (const stream of [false, true]) {
        const key = await at.gateway.key();
        expect(await respond(at.gateway, key, { model: "both", stream })).toMatchObject({
          status: 404,
          body: { error: { message: "resource not found", type: "invalid_request_error" } },
        });
        expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
      }
      expect(at.providers.second.requests).toEqual([]);
    },
  );

  // The last one is Azure's, where a route names a deployment.
  test.each(["model_not_found", "unknown_model", "DeploymentNotFound"])(
    "with 404 and the code %s is the provider's fault: the next one answers",
    async (code) => {
      at.providers.first.answer = json(
        { error: { message: "no such model", code } },
        { status: 404 },
      );
      at.providers.second.answer = responds("resp_2");
      for (const stream of [false, true]) {
        const key = await at.gateway.key();
        expect((await respond(at.gateway, key, { model: "both", stream })).status).toBe(200);
        expect((await respond(at.gateway, key, { stream })).status).toBe(502);
        expect(await at.gateway.records(key, 2)).toMatchObject([
          { status: "failed", charge: 0n },
          { status: "done", provider: "second", charge: usual },
        ]);
      }
    },
  );
});

test("a client that disconnects pays an estimate of the text so far, and the provider is aborted", async () => {
  let isLetGo = false;
  at.providers.second.answer = async (peer, request) => {
    await raw(streamHead, ...chunked(created(), delta))(peer, request);
    await peer.closed;
    isLetGo = true;
  };
  const key = await at.gateway.key();
  const reply = await openResponse(at.gateway, key, { model: "patient" });
  await reply.seen("Hello there");
  reply.disconnect();
  const [record] = await at.gateway.records(key, 1);
  expect(record).toMatchObject({ status: "cancelled", estimated: true });
  await until("the provider is let go", () => isLetGo);
  expect(record?.completionTokens).toBeGreaterThan(0);
});

test("a stream with an object that is not a response is a failure too", async () => {
  const wrong = responseEvent("response.created", { response: "resp_1" });
  at.providers.first.answer = stream(wrong, delta, terminal());
  at.providers.second.answer = responds("resp_2");
  const reply = await respond(at.gateway, await at.gateway.key(), { model: "both", stream: true });
  expect(reply.text).toContain("resp_2");
});
