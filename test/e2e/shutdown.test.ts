import { beforeAll, describe, expect, test } from "bun:test";
import { binaryPath } from "../support/binary/binary.ts";
import {
  choice,
  completion,
  doneEvent,
  helloEvent,
  roleEvent,
  stopEvent,
  thereEvent,
  usageEvent,
} from "../support/provider/chatAnswers.ts";
import { ask, call, chunksOf, openChat, type OpenReply } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { startGatewayBefore } from "../support/binary/gatewayBefore.ts";
import { startTimeoutMs, type GatewayProcess } from "../support/binary/gatewayProcess.ts";
import { chatBytes, connectRaw } from "../support/gateway/rawClient.ts";
import {
  json,
  piece,
  startProvider,
  streamEnd,
  streamHead,
  type ProviderAnswer,
  type ScriptedProvider,
} from "../support/provider/scriptedProvider.ts";
import { until } from "../support/until.ts";
import { responseEvent, responseObject } from "../support/provider/upstreamText.ts";

beforeAll(async () => {
  await binaryPath();
}, startTimeoutMs);

/** Each test has its own gateway, so that the tests can wait in parallel. */
interface Setup {
  readonly gateway: GatewayProcess;
  readonly key: string;
  readonly provider: ScriptedProvider;
  /** Lets the provider continue. */
  readonly goOn: () => void;
}

/** Runs a test against a gateway with this grace, and always stops the gateway. */
async function withGateway(grace: string, work: (setup: Setup) => Promise<void>): Promise<void> {
  const gate = Promise.withResolvers<void>();
  const provider = startProvider(beginAndWait(gate.promise));
  const url = `http://127.0.0.1:${provider.port}/v1`;
  const server = { listen: "127.0.0.1:0", shutdown_grace: grace };
  const started = await startGatewayBefore(provider, oneModel(url, { server }));
  const { gateway } = started;
  try {
    const key = await gateway.key("alice", "1000");
    await work({ gateway, key, provider, goOn: gate.resolve });
  } finally {
    gate.resolve();
    await started.close();
  }
}

/** Starts a stream at once, and continues on demand. A JSON answer waits completely. */
function beginAndWait(released: Promise<void>): ProviderAnswer {
  return async (peer, request) => {
    if (request.json["stream"] !== true) return;
    const isResponse = request.requestLine.includes("/responses");
    const beginning = isResponse
      ? responseEvent("response.created", { response: responseObject("resp_1") }) +
        responseEvent("response.output_text.delta", { delta: "Hel" })
      : roleEvent + helloEvent;
    await peer.send(Buffer.concat([Buffer.from(streamHead), piece(beginning)]));
    await released;
    await peer.send(piece(thereEvent + stopEvent + usageEvent + doneEvent));
    await peer.send(streamEnd);
  };
}

async function openStream(gateway: GatewayProcess, key: string): Promise<OpenReply> {
  const stream = await openChat(gateway, { key }, { stream: true });
  await stream.seen("Hello");
  return stream;
}

function drains(gateway: GatewayProcess) {
  return gateway.logged("it drains", ({ msg }) => msg === "draining");
}

const over = (stream: OpenReply) => until("the stream is over", () => stream.isOver);

describe.concurrent("SIGTERM", () => {
  test("lets an open stream finish, and ends with status 0", () =>
    withGateway("30s", async ({ gateway, key, goOn }) => {
      const stream = await openStream(gateway, key);
      gateway.signal("SIGTERM");
      await drains(gateway);
      goOn();
      await over(stream);
      expect(chunksOf(stream).at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }] });
      expect(await gateway.ended).toBe(0);
      expect(await gateway.request(stream.id)).toMatchObject({
        status: "done",
        prompt_tokens: 20,
        completion_tokens: 7,
        estimated: false,
      });
    }));

  test("ends a stream that outlasts the grace with the error chunk, and does not charge it", () =>
    withGateway("200ms", async ({ gateway, key }) => {
      const stream = await openStream(gateway, key);
      gateway.signal("SIGTERM");
      await over(stream);
      expect(chunksOf(stream).at(-1)).toMatchObject({
        choices: [{ index: 0, delta: {}, finish_reason: "error" }],
        error: { type: "provider_error", message: expect.stringMatching(/.+/) },
      });
      expect(await gateway.ended).toBe(0);
      expect(await gateway.request(stream.id)).toMatchObject({ status: "failed", cost_rub: "0" });
    }));

  test("ends a responses stream that outlasts the grace with its error event, and does not charge it", () =>
    withGateway("500ms", async ({ gateway, key, provider }) => {
      const body = { model: "small", input: "hello", stream: true };
      const answered = call(gateway, { key }, { path: "/v1/responses", body });
      await provider.request(0);
      gateway.signal("SIGTERM");
      const { text, id } = await answered;
      expect(text).toContain('event: error\ndata: {"type":"error","code":"provider_error"');
      expect(text).toMatch(/"sequence_number":2,"error":\{[^\n}]*\}\}\n\n$/);
      expect(await gateway.ended).toBe(0);
      expect(await gateway.request(id)).toMatchObject({ status: "failed", cost_rub: "0" });
    }));

  test("answers a JSON request that outlasts the grace with 502, and does not charge it", () =>
    withGateway("200ms", async ({ gateway, key, provider }) => {
      const answered = call(gateway, { key }, { path: "/v1/chat/completions", body: ask() });
      await provider.request(0);
      gateway.signal("SIGTERM");
      const { status, body, id } = await answered;
      expect({ status, body }).toEqual({
        status: 502,
        body: { error: { message: "service temporarily unavailable", type: "provider_error" } },
      });
      expect(await gateway.ended).toBe(0);
      expect(await gateway.request(id)).toMatchObject({ status: "failed", cost_rub: "0" });
    }));

  test("lets a slow client read a complete answer within the grace", () =>
    withGateway("30s", async ({ gateway, key, provider }) => {
      const words = "word ".repeat(6_000_000);
      provider.answer = json(completion({ choices: [choice({ content: words })] }));
      const client = await connectRaw(Number(new URL(gateway.url).port));
      client.pause();
      client.send(chatBytes(key, JSON.stringify(ask())));
      await until("it is charged", () => gateway.log.some(({ outcome }) => outcome === "done"));
      gateway.signal("SIGTERM");
      await drains(gateway);
      // Longer than the time that aborted requests have to end.
      await Bun.sleep(3500);
      client.resume();
      const { body } = await client.response();
      expect(body.length).toBeGreaterThan(words.length);
      expect(await gateway.ended).toBe(0);
    }));

  test("without anything under way ends at once", () =>
    withGateway("1h", async ({ gateway }) => {
      // An idle kept connection is not a request, and neither is half a head.
      const half = await connectRaw(Number(new URL(gateway.url).port));
      half.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n");
      const client = await connectRaw(Number(new URL(gateway.url).port));
      client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
      expect((await client.response()).status).toBe(200);
      const startedMs = performance.now();
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      // Bun itself waits ten seconds and more for the rest of a head.
      expect(performance.now() - startedMs).toBeLessThan(8000);
    }));
});

test.concurrent("a second SIGINT ends the grace: what is open is cut off and not charged, and the status is 0", () =>
  withGateway("1h", async ({ gateway, key }) => {
    const stream = await openStream(gateway, key);
    gateway.signal("SIGINT");
    await drains(gateway);
    expect(stream.isOver).toBe(false);
    gateway.signal("SIGINT");
    await over(stream);
    expect(chunksOf(stream).at(-1)).toMatchObject({ choices: [{ finish_reason: "error" }] });
    expect(await gateway.ended).toBe(0);
    expect(await gateway.request(stream.id)).toMatchObject({ status: "failed", cost_rub: "0" });
  }));
