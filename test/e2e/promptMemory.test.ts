import { afterAll, beforeAll, expect, test } from "bun:test";
import { helloEvent, roleEvent } from "../support/chatAnswers.ts";
import { ask } from "../support/chatCalls.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/gatewayProcess.ts";
import { residentBytes } from "../support/memory.ts";
import { piece, startProvider, streamHead } from "../support/scriptedProvider.ts";
import { until } from "../support/until.ts";

const streams = 40;
const promptBytes = 4_000_000;
const testTimeoutMs = 60_000;

/** Says hello and then nothing, for as long as anybody listens. */
const hanging = startProvider(async (peer) => {
  await peer.send(Buffer.concat([Buffer.from(streamHead), piece(roleEvent + helloEvent)]));
  await peer.closed;
});
let gateway: GatewayProcess;

beforeAll(async () => {
  gateway = await startGatewayProcess({
    providers: { hanging: `http://127.0.0.1:${hanging.port}/v1` },
    models: [{ id: "hanging", routes: [{ provider: "hanging" }] }],
    sections: { billing: { disconnect_grace: "200ms" } },
  });
}, startTimeoutMs);
afterAll(async () => {
  await gateway.close();
  hanging.stop();
});

/** Resolves with the first content. The stream stays open until its abort. */
async function open(key: string, content: string): Promise<AbortController> {
  const messages = [{ role: "user", content }];
  const leaving = new AbortController();
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify(ask({ model: "hanging", stream: true, messages })),
    signal: leaving.signal,
  });
  expect(answer.status).toBe(200);
  await answer.body?.getReader().read();
  return leaving;
}

test(
  "a stream that stays open keeps its prompt only until its first content",
  async () => {
    const key = await gateway.key("alice", "100000");
    (await open(key, "hello")).abort();
    const before = residentBytes(gateway.pid);
    const prompt = "word ".repeat(promptBytes / 5);
    const clients: AbortController[] = [];
    while (clients.length < streams) clients.push(await open(key, prompt));
    const small = setInterval(() => void open(key, "hello").then((client) => client.abort()), 50);
    try {
      // Work makes the runtime collect what nobody refers to any more.
      const isLetGo = (): boolean =>
        residentBytes(gateway.pid) - before < (streams * promptBytes) / 2;
      await until("the prompts are let go", isLetGo, 20_000);
    } finally {
      clearInterval(small);
    }
    expect(hanging.openCount).toBeGreaterThanOrEqual(streams);
    for (const client of clients) client.abort();
  },
  testTimeoutMs,
);
