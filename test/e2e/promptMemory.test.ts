import { afterAll, beforeAll, expect, test } from "bun:test";
import { helloEvent, roleEvent } from "../support/provider/chatAnswers.ts";
import { ask } from "../support/gateway/chatCalls.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { residentBytes } from "../support/measurement.ts";
import { piece, startProvider, streamHead } from "../support/provider/scriptedProvider.ts";
import { amount } from "../support/sample.ts";
import { until } from "../support/until.ts";

const streams = amount(20, 40);
const promptBytes = 4_000_000;
const testTimeoutMs = 60_000;

/** Sends the first content, for `late` on demand, and then stays silent. */
const hanging = startProvider(async (peer, { json }) => {
  if (json["model"] === "late") await saysHello.promise;
  await peer.send(Buffer.concat([Buffer.from(streamHead), piece(roleEvent + helloEvent)]));
  await peer.closed;
});
let saysHello = Promise.withResolvers<void>();
let gateway: GatewayProcess;

/** The prompts are longer than usual contexts. */
const settings = { context_tokens: 100_000_000 };

beforeAll(async () => {
  gateway = await startGatewayProcess({
    providers: { hanging: `http://127.0.0.1:${hanging.port}/v1` },
    models: [
      ...["hanging", "late"].map((id) => ({ id, routes: [{ provider: "hanging" }], settings })),
      { id: "translated", routes: [{ provider: "hanging", responses: false }], settings },
    ],
    sections: {
      server: { sse_keepalive: "100ms" },
      billing: { disconnect_grace: "200ms" },
      limits: { requests_per_minute: 0, concurrent_requests: 0, body_bytes_per_minute: "0B" },
    },
  });
}, startTimeoutMs);
afterAll(async () => {
  await gateway.close();
  hanging.stop();
});

/** A stream that stays open until it is closed on demand. The runtime closes an unreferenced one. */
interface OpenStream {
  readonly reader: unknown;
  disconnect(): void;
}

/** Resolves at the first content. */
async function open(key: string, content: string, model = "hanging"): Promise<OpenStream> {
  const leaving = new AbortController();
  saysHello = Promise.withResolvers();
  const isResponse = model === "translated";
  const chat = ask({ model, stream: true, messages: [{ role: "user", content }] });
  const response = { model, stream: true, store: false, instructions: content, input: "hello" };
  const path = isResponse ? "/v1/responses" : "/v1/chat/completions";
  const answer = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify(isResponse ? response : chat),
    signal: leaving.signal,
  });
  expect(answer.status).toBe(200);
  const reader = answer.body?.getReader();
  for (let seen = ""; !seen.includes("Hello");) {
    const read = await reader?.read();
    if (!read || read.done) throw new Error("the stream ended before its content");
    seen += Buffer.from(read.value).toString();
    // The head was sent. The late content comes now.
    saysHello.resolve();
  }
  return { reader, disconnect: () => leaving.abort() };
}

test.each(["hanging", "late", "translated"])(
  "a stream that stays open keeps its prompt only until its first content: %s",
  async (model) => {
    const key = await gateway.key("alice", "100000");
    (await open(key, "hello")).disconnect();
    const before = residentBytes(gateway.pids);
    const prompt = "word ".repeat(promptBytes / 5);
    const clients: OpenStream[] = [];
    while (clients.length < streams) clients.push(await open(key, prompt, model));
    const small = setInterval(
      () => void open(key, "hello").then((client) => client.disconnect()),
      50,
    );
    try {
      // Work makes the runtime collect unreferenced objects.
      const isLetGo = (): boolean =>
        residentBytes(gateway.pids) - before < (streams * promptBytes) / 2;
      await until("the prompts are let go", isLetGo, 20_000);
    } finally {
      clearInterval(small);
    }
    expect(hanging.openCount).toBeGreaterThanOrEqual(streams);
    for (const client of clients) client.disconnect();
  },
  testTimeoutMs,
);
