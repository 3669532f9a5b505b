import { afterAll, describe, expect, test } from "bun:test";
import { usualMessage } from "../../support/provider/anthropicAnswers.ts";
import { embeds } from "../../support/provider/embeddingsAnswers.ts";
import { answered, choice, helloEvent, usual } from "../../support/provider/chatAnswers.ts";
import { call, chat, openChat, type Reply } from "../../support/gateway/chatCalls.ts";
import { startCollector } from "../../support/gateway/collector.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import { created, delta, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import {
  json,
  piece,
  raw,
  refusal,
  stream,
  streamHead,
  text,
} from "../../support/provider/scriptedProvider.ts";

const collector = startCollector();
afterAll(() => collector.stop());

const upstreamKey = "sk-upstream-secret";
const at = openBefore(["one", "two"], ({ one, two }) => ({
  providers: {
    one: { base_url: one, api_key: upstreamKey },
    two: { base_url: two, api_key: upstreamKey },
    claude: { base_url: two, api_key: upstreamKey, kind: "anthropic" },
  },
  models: [
    { id: "small", routes: [{ provider: "one", model: "small-of-one" }] },
    {
      id: "paired",
      routes: [
        { provider: "one", model: "p1" },
        { provider: "two", model: "p2" },
      ],
    },
    { id: "native", routes: [{ provider: "claude", responses: false }] },
    { id: "vectors", routes: [{ provider: "one" }], settings: { kind: "embedding" } },
  ],
  sections: {
    billing: { disconnect_grace: "50ms" },
    telemetry: { otlp: collector.url },
  },
}));

const traceOf = ({ id }: Pick<Reply, "id">) => collector.trace(id);
/** The header of a request that the provider received. */
const sentHeader = async (name: string, index = 0, id: "one" | "two" = "one") =>
  new Map((await at.providers[id].request(index)).headers).get(name);

const prompt = "canary-prompt";
const content = "canary-answer";
const messages = [{ role: "user", content: prompt }];

/** The usual usage of these tests: 20 prompt tokens, 5 cached, 3 written to the cache, 7 completion tokens. */
const usage = {
  "gen_ai.usage.input_tokens": 20,
  "gen_ai.usage.output_tokens": 7,
  "gen_ai.usage.cache_read.input_tokens": 5,
  "gen_ai.usage.cache_write.input_tokens": 3,
};

describe("an answered request has a span, and its attempt a child", () => {
  test("in JSON", async () => {
    at.providers.one.answer = answered({ choices: [choice({ content })] });
    const reply = await chat(at.gateway, await at.gateway.key(), { messages });
    const { request, attempts } = await traceOf(reply);
    expect(request).toMatchObject({ name: "POST /v1/chat/completions", kind: "server" });
    expect(request.parentSpanId).toBeUndefined();
    expect(request.isError).toBe(false);
    expect(request.attributes).toEqual({
      "http.request.method": "POST",
      "http.route": "/v1/chat/completions",
      "url.path": "/v1/chat/completions",
      "url.scheme": "http",
      "http.response.status_code": 200,
      "tollgate.request_id": reply.id,
      "tollgate.model": "small",
      "tollgate.outcome": "done",
      "tollgate.cost_rub": reply.headers.get("x-tollgate-cost-rub"),
      "tollgate.estimated": false,
    });
    expect(attempts).toHaveLength(1);
    const [attempt] = attempts;
    expect(attempt).toMatchObject({ name: "chat small-of-one", kind: "client", isError: false });
    expect(attempt?.traceId).toBe(request.traceId);
    expect(attempt?.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "one",
      "gen_ai.request.model": "small-of-one",
      "gen_ai.response.model": "model-of-the-provider",
      "gen_ai.response.finish_reasons": ["stop"],
      ...usage,
      "http.response.status_code": 200,
      "server.address": "127.0.0.1",
      "server.port": at.providers.one.port,
      "tollgate.provider": "one",
    });
    expect(request.durationMs).toBeGreaterThanOrEqual(attempt?.durationMs ?? Infinity);
    expect(attempt?.durationMs).toBeGreaterThan(0);
  });

  test("as a stream", async () => {
    at.providers.one.answer = usual;
    const reply = await chat(at.gateway, await at.gateway.key(), { stream: true });
    const { request, attempts } = await traceOf(reply);
    expect(request.attributes).toMatchObject({
      "http.response.status_code": 200,
      "tollgate.outcome": "done",
    });
    expect(attempts[0]?.attributes).toMatchObject({
      "gen_ai.request.stream": true,
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.response.time_to_first_chunk": expect.any(Number),
      ...usage,
    });
  });

  test.each([
    ["in JSON", json(ended()), false, ["stop"]],
    [
      "in JSON that calls a tool",
      json(ended("resp_1", { output: [{ type: "function_call", name: "f", call_id: "c" }] })),
      false,
      ["tool_calls"],
    ],
    [
      "in JSON that is incomplete",
      json(
        ended("resp_1", {
          status: "incomplete",
          incomplete_details: { reason: "max_output_tokens" },
        }),
      ),
      false,
      ["length"],
    ],
    ["as a stream", stream(created(), delta, terminal()), true, ["stop"]],
  ])("of the responses interface, %s", async (_, answer, isStream, reasons) => {
    at.providers.one.answer = answer;
    const key = await at.gateway.key();
    const reply = isStream ? await openResponse(at.gateway, key) : await respond(at.gateway, key);
    const { request, attempts } = await traceOf(reply);
    expect(request.name).toBe("POST /v1/responses");
    expect(attempts[0]?.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.response.finish_reasons": reasons,
      "gen_ai.usage.input_tokens": 20,
      "gen_ai.usage.output_tokens": 7,
    });
  });
});

describe("an answer of another interface has a span", () => {
  const body = { max_tokens: 100, messages };
  test.each([
    [
      "a translated message",
      "/v1/messages",
      { ...body, model: "small" },
      "chat small-of-one",
      "one",
      ["stop"],
    ],
    [
      "a native message",
      "/v1/messages",
      { ...body, model: "native" },
      "chat native",
      "anthropic",
      ["end_turn"],
    ],
    [
      "a native stream",
      "/v1/messages",
      { ...body, model: "native", stream: true },
      "chat native",
      "anthropic",
      ["end_turn"],
    ],
    [
      "embeddings",
      "/v1/embeddings",
      { model: "vectors", input: prompt },
      "embeddings vectors",
      "one",
      undefined,
    ],
  ] as const)("%s", async (_, path, sent, name, provider, reasons) => {
    at.providers.one.answer = path === "/v1/embeddings" ? embeds() : usual;
    at.providers.two.answer = usualMessage;
    const reply = await call(at.gateway, await at.gateway.key(), { path, body: sent });
    expect(reply.status).toBe(200);
    const { request, attempts } = await traceOf(reply);
    expect(request).toMatchObject({ name: `POST ${path}`, isError: false });
    expect(attempts[0]?.name).toBe(name);
    const attributes = attempts[0]?.attributes ?? {};
    expect(attributes["gen_ai.provider.name"]).toBe(provider);
    expect(attributes["gen_ai.response.finish_reasons"]).toEqual(reasons);
    expect(attributes["gen_ai.usage.input_tokens"]).toBeGreaterThan(0);
  });
});

describe("a request that is not answered by the first provider", () => {
  test("has a span for each attempt, and each provider gets its own as the parent", async () => {
    at.providers.one.answer = refusal(500);
    at.providers.two.answer = usual;
    const reply = await chat(at.gateway, await at.gateway.key(), { model: "paired" });
    const { request, attempts } = await traceOf(reply);
    expect(request.isError).toBe(false);
    const [first, second] = attempts;
    expect(first).toMatchObject({ name: "chat p1", isError: true });
    expect(first?.attributes).toMatchObject({
      "error.type": "500",
      "http.response.status_code": 500,
    });
    expect(first?.attributes).not.toHaveProperty(["gen_ai.usage.input_tokens"]);
    expect(second).toMatchObject({ name: "chat p2", isError: false });
    expect(second?.attributes).toMatchObject({ ...usage, "tollgate.provider": "two" });
    for (const [id, span] of [
      ["one", first],
      ["two", second],
    ] as const) {
      const parent = `00-${request.traceId}-${span?.spanId}-01`;
      expect(await sentHeader("traceparent", 0, id)).toBe(parent);
    }
  });

  test("and by no other is an error", async () => {
    at.providers.one.answer = text("<html>", { type: "text/html" });
    const reply = await chat(at.gateway, await at.gateway.key());
    expect(reply.status).toBe(502);
    const { request, attempts } = await traceOf(reply);
    expect(request.isError).toBe(true);
    expect(request.attributes).toMatchObject({
      "error.type": "502",
      "http.response.status_code": 502,
      "tollgate.outcome": "failed",
      "tollgate.cost_rub": "0",
    });
    expect(attempts[0]?.isError).toBe(true);
  });

  test("because of the caller is no error of the gateway", async () => {
    at.providers.one.answer = refusal(400);
    const { request, attempts } = await traceOf(await chat(at.gateway, await at.gateway.key()));
    expect(request.isError).toBe(false);
    expect(request.attributes["http.response.status_code"]).toBe(400);
    expect(attempts[0]?.attributes["error.type"]).toBe("400");
  });

  test("after the answer began is an error with status 200", async () => {
    at.providers.one.answer = async (peer) => {
      await peer.send(streamHead);
      await peer.send(piece(helloEvent));
      peer.fin();
    };
    const { request, attempts } = await traceOf(
      await chat(at.gateway, await at.gateway.key(), { stream: true }),
    );
    expect(request.isError).toBe(true);
    expect(request.attributes).toMatchObject({
      "error.type": "closed",
      "http.response.status_code": 200,
      "tollgate.outcome": "failed",
    });
    expect(attempts[0]?.attributes["error.type"]).toBe("closed");
  });
});

test("a client that disconnects from a stream leaves a span with the outcome and the estimate", async () => {
  at.providers.one.answer = raw(streamHead, piece(helloEvent));
  const reply = await openChat(at.gateway, await at.gateway.key(), { stream: true });
  await reply.seen("Hello");
  reply.disconnect();
  const { request, attempts } = await traceOf(reply);
  expect(request.attributes).toMatchObject({
    "tollgate.outcome": "cancelled",
    "tollgate.estimated": true,
  });
  expect(attempts[0]?.attributes["error.type"]).toBe("client disconnected");
});

test("a refused request with a valid key has a span without attempts, other requests have none", async () => {
  const key = await at.gateway.key();
  const strange = await chat(at.gateway, { key: "sk-canary-wrong" });
  const listed = await call(at.gateway, key, { path: "/v1/models" });
  const refused = await chat(at.gateway, key, { model: "canary-model" });
  const { request, attempts } = await traceOf(refused);
  expect(request.attributes["http.response.status_code"]).toBe(404);
  expect(attempts).toEqual([]);
  const ids = collector.spans.map(({ attributes }) => attributes["tollgate.request_id"]);
  for (const { id } of [strange, listed]) expect(ids).not.toContain(id);
});

describe("the client's trace", () => {
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  const parentId = "00f067aa0ba902b7";
  const traced = async (headers: Record<string, string>) => {
    at.providers.one.answer = usual;
    const body = { model: "small", messages };
    return call(at.gateway, await at.gateway.key(), { body, headers });
  };

  test.each([
    ["version 00", `00-${traceId}-${parentId}-01`, "01"],
    ["random trace id", `00-${traceId}-${parentId}-03`, "03"],
    ["unknown flags", `00-${traceId}-${parentId}-fd`, "01"],
    ["a later version", `cc-${traceId}-${parentId}-01-more`, "01"],
  ])("is continued: %s", async (_, traceparent, flags) => {
    const tracestate = "congo=t61rcWkgMzE, rojo=00f067aa0ba902b7";
    const { request, attempts } = await traceOf(await traced({ traceparent, tracestate }));
    expect(request).toMatchObject({ traceId, parentSpanId: parentId });
    const [attempt] = attempts;
    expect(await sentHeader("traceparent")).toBe(`00-${traceId}-${attempt?.spanId}-${flags}`);
    const state = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7";
    expect(await sentHeader("tracestate")).toBe(state);
    for (const span of [request, attempt]) expect(span?.traceState).toBe(state);
  });

  test("that is not recorded is passed on, and no span is sent", async () => {
    const before = await traced({ traceparent: `00-${traceId}-${parentId}-00` });
    const sent = await sentHeader("traceparent");
    expect(sent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
    expect(sent).not.toContain(parentId);
    await traceOf(await traced({}));
    const ids = collector.spans.map(({ attributes }) => attributes["tollgate.request_id"]);
    expect(ids).not.toContain(before.id);
  });

  test.each([
    ["no hex", `00-${traceId.replace("4", "g")}-${parentId}-01`],
    ["upper case", `00-${traceId.toUpperCase()}-${parentId}-01`],
    ["a trace id of zeros", `00-${"0".repeat(32)}-${parentId}-01`],
    ["a span id of zeros", `00-${traceId}-${"0".repeat(16)}-01`],
    ["the forbidden version", `ff-${traceId}-${parentId}-01`],
    ["more fields in version 00", `00-${traceId}-${parentId}-01-more`],
    ["two values", `00-${traceId}-${parentId}-01, 00-${traceId}-${parentId}-01`],
    ["empty", ""],
  ])("that is malformed is ignored, and a new one begins: %s", async (_, traceparent) => {
    await traced({ traceparent, tracestate: "congo=1" });
    const sent = await sentHeader("traceparent");
    expect(sent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    expect(sent).not.toContain(traceId);
    expect(await sentHeader("tracestate")).toBeUndefined();
  });

  test.each([
    ["not a list of members", "congo"],
    ["too long", `congo=${"a".repeat(600)}`],
    ["too many members", Array.from({ length: 33 }, (_, index) => `k${index}=1`).join(",")],
    ["upper case in a name", "Congo=1"],
  ])("keeps its id without an invalid tracestate: %s", async (_, tracestate) => {
    await traced({ traceparent: `00-${traceId}-${parentId}-01`, tracestate });
    expect(await sentHeader("traceparent")).toStartWith(`00-${traceId}-`);
    expect(await sentHeader("tracestate")).toBeUndefined();
  });
});

test("no span has a prompt, an answer, a key, an account or a client's text", async () => {
  at.providers.one.answer = answered({ choices: [choice({ content })] });
  const key = await at.gateway.key({ account: "canary-account", label: "canary-label" });
  await chat(at.gateway, key, { model: "canary-model" });
  await traceOf(await chat(at.gateway, key, { messages }));
  const sent = collector.bodies.join("\n");
  for (const secret of ["canary", key.key, key.id, upstreamKey]) expect(sent).not.toContain(secret);
});
