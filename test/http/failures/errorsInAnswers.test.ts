import { describe, expect, test } from "bun:test";
import { begunMessage, messageEvent } from "../../support/provider/anthropicAnswers.ts";
import { helloEvent, roleEvent, usual } from "../../support/provider/chatAnswers.ts";
import { chat, chunksOf, expectRefusal } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { isAnyOpen } from "../../support/gateway/breakers.ts";
import { openBefore, upstreamKey } from "../../support/gateway/gatewayUnderTest.ts";
import { geminiEvent, saying } from "../../support/provider/geminiAnswers.ts";
import { json, stream, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";
import { sample } from "../../support/sample.ts";

/**
 * A chat provider reports an `error` with status 200. A fault that a caller can cause as often as it likes must not give
 * the route a cooldown, and must not be free.
 */
const at = openBefore(["one", "claude", "google", "two"], ({ one, claude, google, two }) => ({
  providers: {
    one: { base_url: one, api_key: upstreamKey },
    claude: { kind: "anthropic", base_url: claude, api_key: upstreamKey },
    google: { kind: "gemini", base_url: google, api_key: upstreamKey },
    two,
  },
  models: ["one", "claude", "google"].flatMap((provider) => [
    { id: provider, routes: [{ provider, responses: false }] },
    { id: `${provider}-and-two`, routes: [{ provider, responses: false }, { provider: "two" }] },
  ]),
}));
const { two } = at.providers;
const started = 100_000_000_000n;
/** This many failures in a row open the breaker of a route. */
const FAILURES_MAX = 5;

type Kind = "one" | "claude" | "google";

/** One form in which a provider reports an error before any content. */
interface Way {
  readonly kind: Kind;
  readonly isStream: boolean;
  readonly report: (error: object) => ProviderAnswer;
}

const dataOf = (error: object): string => `data: ${JSON.stringify({ error })}\n\n`;
const inEvent = (error: object): string => `event: error\n${dataOf(error)}`;
const inPlainEvent = (error: object): string => `event: error\ndata: ${JSON.stringify(error)}\n\n`;
/** The form of old llama.cpp versions, without a `data:` line. */
const inLine = (error: object): string => `error: ${JSON.stringify(error)}\n\n`;
const inChoice = (error: object): string =>
  chatEvent({}, null, { choices: [{ index: 0, delta: {}, error, finish_reason: "error" }] });
const inMessage = (error: object): string => messageEvent("error", { error });
const choiceOf = (error: object) => ({ index: 0, message: {}, error });

const ways: readonly (readonly [string, Way])[] = [
  ["an event", { kind: "one", isStream: true, report: (error) => stream(dataOf(error)) }],
  ["an event after the start", streamed("one", (error) => [roleEvent, dataOf(error)])],
  ["an event of the type error", streamed("one", (error) => [inEvent(error)])],
  ["an event that is an error", streamed("one", (error) => [inPlainEvent(error)])],
  ["a line of its own", streamed("one", (error) => [inLine(error)])],
  ["a choice of a stream", streamed("one", (error) => [inChoice(error)])],
  ["a choice", whole("one", (error) => ({ choices: [choiceOf(error)] }))],
  ["JSON", whole("one", (error) => ({ error }))],
  ["a list", whole("one", (error) => [{ error }])],
  ["an event of Anthropic", streamed("claude", (error) => [inMessage(error)])],
  ["JSON of Anthropic", whole("claude", (error) => ({ type: "error", error }))],
  ["an event of Google", streamed("google", (error) => [geminiEvent({ error })])],
  ["JSON of Google", whole("google", (error) => ({ error }))],
  ["JSON instead of a stream", inItsPlace("one", (error) => ({ error }))],
];

function streamed(kind: Kind, events: (error: object) => readonly string[]): Way {
  return { kind, isStream: true, report: (error) => stream(...events(error)) };
}

function whole(kind: Kind, body: (error: object) => unknown): Way {
  return { kind, isStream: false, report: (error) => json(body(error)) };
}

/** The answer of llama.cpp to a prompt that is too long: https://github.com/ggml-org/llama.cpp/pull/16486 */
function inItsPlace(kind: Kind, body: (error: object) => unknown): Way {
  return { ...whole(kind, body), isStream: true };
}

/** Sends as many requests as open a breaker, and then tests whether it is open. */
async function opensBreaker({ kind, isStream, report }: Way, error: object): Promise<boolean> {
  at.providers[kind].answer = report(error);
  for (let time = 0; time < FAILURES_MAX; time += 1) {
    await chat(at.gateway, await at.gateway.key(), { model: kind, stream: isStream });
  }
  return isAnyOpen(at.gateway);
}

const message = `The input is too long, says ${upstreamKey}.`;
const words = "The input is too long, says ***.";

/** The reply with another route after the reporting one, and how often the other route was asked. */
async function failover({ kind, isStream, report }: Way, error: object) {
  at.providers[kind].answer = report(error);
  two.answer = usual;
  const asked = { model: `${kind}-and-two`, stream: isStream };
  const reply = await chat(at.gateway, await at.gateway.key(), asked);
  return { reply, others: two.requests.length };
}

const tooLong = "context_length_exceeded";

async function expectCallers(way: Way, error: object, extra: object): Promise<void> {
  const { reply, others } = await failover(way, error);
  expectRefusal(reply, [400, "invalid_request_error", words], extra);
  expect(others).toBe(0);
  expect(await at.gateway.store.requests.attempts(reply.id)).toMatchObject([
    { outcome: "reported failure", status: 200 },
  ]);
  expect(await opensBreaker(way, error)).toBe(false);
}

async function expectNextRoutes(way: Way, error: object, skips: boolean): Promise<void> {
  const { reply, others } = await failover(way, error);
  expect([reply.status, others]).toEqual([200, 1]);
  at.gateway.forgetFailures();
  expect(await opensBreaker(way, error)).toBe(skips);
}

async function expectAccount({ kind, isStream, report }: Way, error: object): Promise<void> {
  at.providers[kind].answer = report(error);
  const reply = await chat(at.gateway, await at.gateway.key(), { model: kind, stream: isStream });
  expect(reply).toMatchObject({ status: 502, body: { error: { type: "provider_error" } } });
  expect(reply.headers.get("retry-after")).toBe("300");
}

describe.each(sample(ways, 5, ([name]) => name))("an error in %s", (_, way) => {
  test("of the caller is a 400, without a failover and without an effect on the route's health", () =>
    expectCallers(way, { type: "invalid_request_error", code: 400, message }, { code: "400" }));

  // vLLM sends the second one for its own crashes too.
  test.each([
    { type: "invalid_request_error", message },
    { type: "BadRequestError", code: 400, message },
  ])("that another route may not have goes to the next route, and does not count: %o", (error) =>
    expectNextRoutes(way, error, false),
  );

  test("of the provider goes to the next route, and counts for the breaker", () =>
    expectNextRoutes(way, { type: "overloaded_error", message }, true));

  test("of the operator's account starts a cooldown of the provider at once", () =>
    expectAccount(way, { code: 401, message }));
});

describe("an error object in an event", () => {
  const way = streamed("one", (error) => [dataOf(error)]);

  test.each<[string, object, string | undefined]>([
    ["a status beside its code", { code: "some_code", status_code: 422 }, "some_code"],
    ["a status", { status: 422 }, undefined],
    ["a code", { code: tooLong }, tooLong],
    ["a code in upper case", { code: "INVALID_PROMPT" }, "INVALID_PROMPT"],
    ["a code of Groq", { code: "tool_use_failed" }, "tool_use_failed"],
    ["a type of llama.cpp", { type: "exceed_context_size_error", code: 500 }, tooLong],
  ])("is the caller's fault by %s", (_, error, code) =>
    expectCallers(way, { ...error, message }, code === undefined ? {} : { code }),
  );

  test("is the caller's fault by a status beside it", async () => {
    const body = { status_code: 422, error: { message } };
    const beside = streamed("one", () => [`data: ${JSON.stringify(body)}\n\n`]);
    await expectCallers(beside, {}, {});
  });

  test.each<[string, object, boolean]>([
    ["a model that failed at this request", { code: 424, message }, false],
    ["a rate limit", { code: 429, message }, true],
    ["a rate limit, by its type", { type: "rate_limit_error", message }, true],
    ["a server of the caller", { type: "http_error", code: 401, message }, false],
    ["a bad request without details", { code: 400, message }, false],
    ["its size", { status: 413, message }, false],
    ["its size, by its type", { type: "request_too_large", message }, false],
    ["moderation", { code: 403, message: "The prompt was flagged by moderation." }, false],
    ["an unknown model", { code: 404, message }, false],
    ["a fault of the provider", { code: 502, message }, true],
    ["the same without a number", { type: "server_error", message }, true],
    ["an unknown code", { code: "some_code", message }, true],
    ["an impossible status", { code: 4000, message }, true],
  ])("about %s goes to the next route", (_, error, skips) => expectNextRoutes(way, error, skips));

  test.each<[string, object]>([
    ["key, by its type", { type: "authentication_error", message }],
    ["empty account", { code: 402, message }],
    ["empty account, by its type", { type: "insufficient_quota", message }],
    ["empty account, by its message alone", { message: "Insufficient Balance" }],
    [
      "empty account, in Anthropic's words",
      { type: "invalid_request_error", message: "Your credit balance is too low to go on." },
    ],
  ])("about the operator's %s starts a cooldown of the provider at once", (_, error) =>
    expectAccount(way, error),
  );
});

describe("an error after content", () => {
  const fullContext = { code: tooLong, message };
  const refused = { type: "invalid_request_error", message };
  const hello = geminiEvent(saying([{ text: "Hello" }]));
  const callersEnds: readonly (readonly [string, Kind, (error: object) => ProviderAnswer])[] = [
    ["an event", "one", (error) => stream(helloEvent, dataOf(error))],
    ["an event of the type error", "one", (error) => stream(helloEvent, inEvent(error))],
    ["the same read", "one", (error) => stream(helloEvent + inEvent(error))],
    ["a line of its own", "one", (error) => stream(helloEvent, inLine(error))],
    ["a choice", "one", (error) => stream(helloEvent, inChoice(error))],
    ["an event of Anthropic", "claude", (error) => begunMessage(inMessage(error))],
    ["an event of Google", "google", (error) => stream(hello, geminiEvent({ error }))],
  ];

  describe.each(callersEnds)("in %s", (_, kind, answer) => {
    test.each([fullContext, refused])(
      "of the caller ends the stream with an error, charged like a disconnect, and does not count: %o",
      async (error) => {
        const way = { kind, isStream: true, report: answer };
        at.providers[kind].answer = answer(error);
        const key = await at.gateway.key();
        const reply = await chat(at.gateway, key, { model: kind, stream: true });
        expect(reply.text).toContain("Hello");
        expect(reply.text).not.toContain("too long");
        expect(chunksOf(reply).at(-1)).toMatchObject({
          choices: [{ delta: {}, finish_reason: "error" }],
          error: { type: "provider_error" },
        });
        const [record] = await at.gateway.records(key, 1);
        expect(record).toMatchObject({ status: "cancelled", estimated: true, provider: kind });
        expect(record?.charge).toBeGreaterThanOrEqual(costOf({ prompt: 2, completion: 2 }));
        expect(await at.gateway.balance(key)).toBe(started - (record?.charge ?? 0n));
        const attempts = await at.gateway.store.requests.attempts(reply.id);
        expect(attempts).toMatchObject([{ outcome: "isolated failure" }]);
        expect(await opensBreaker(way, error)).toBe(false);
      },
    );

    test.each([
      { code: 502, message },
      { code: 429, message },
      { type: "BadRequestError", code: 400, message },
      { message },
    ])("of the provider ends the stream with an error, not charged: %o", async (error) => {
      at.providers[kind].answer = answer(error);
      const key = await at.gateway.key();
      const reply = await chat(at.gateway, key, { model: kind, stream: true });
      expect(chunksOf(reply).at(-1)).toMatchObject({ error: { type: "provider_error" } });
      expect(await at.gateway.records(key, 1)).toMatchObject([{ status: "failed", charge: 0n }]);
    });
  });
});
