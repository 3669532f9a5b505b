import { expect, test } from "bun:test";
import { helloEvent, roleEvent, streamed } from "../support/provider/chatAnswers.ts";
import { ask } from "../support/gateway/chatCalls.ts";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import type { RequestRecord } from "../support/binary/gatewayProcess.ts";
import { chatBytes, connectRaw, type RawClient } from "../support/gateway/rawClient.ts";
import { piece, startProvider, streamHead } from "../support/provider/scriptedProvider.ts";
import { until } from "../support/until.ts";

const openStreams = 1000;
/** Connections are opened in groups of this size, so that the listener's queue is never full. */
const begunAtOnce = 50;
const measurements = 9;
const roundsMax = 4;
const testTimeoutMs = 60_000;

/** Sends the first content and then stays silent. */
const hanging = startProvider(async (peer) => {
  await peer.send(Buffer.concat([Buffer.from(streamHead), piece(roleEvent + helloEvent)]));
  await peer.closed;
});
const prompt = startProvider(streamed);
const setup = openBinaryBefore(
  {
    providers: {
      hanging: `http://127.0.0.1:${hanging.port}/v1`,
      prompt: `http://127.0.0.1:${prompt.port}/v1`,
    },
    models: ["hanging", "prompt"].map((id) => ({ id, routes: [{ provider: id }] })),
    sections: { billing: { disconnect_grace: "200ms" } },
  },
  hanging,
  prompt,
);

/** Uses its own socket, because Bun's `fetch` runs at most 256 requests at once in a process. */
async function open(model: string): Promise<RawClient> {
  const client = await connectRaw(Number(new URL(setup.gateway.url).port));
  client.send(chatBytes(setup.key, JSON.stringify(ask({ model, stream: true }))));
  return client;
}

/** The median time from the request to the first content of the fast provider. */
async function firstContentMs(): Promise<number> {
  const times: number[] = [];
  for (let count = 0; count < measurements; count += 1) {
    const startedMs = performance.now();
    const client = await open("prompt");
    await client.seen("Hello");
    times.push(performance.now() - startedMs);
    await client.seen("[DONE]");
    client.fin();
  }
  return times.sort((a, b) => a - b)[Math.floor(measurements / 2)] ?? NaN;
}

/** The same in the first round below a bound. A slowdown by open streams shows in every round. */
async function firstContentBelow(boundMs: number): Promise<number> {
  let ms = await firstContentMs();
  for (let more = 1; more < roundsMax && ms >= boundMs; more += 1) ms = await firstContentMs();
  return ms;
}

test(
  `${openStreams} open streams at one provider do not slow another's, and all end when their clients leave`,
  async () => {
    await firstContentMs(); // Warms up.
    const beforeMs = await firstContentMs();

    const clients: RawClient[] = [];
    while (clients.length < openStreams) {
      const group = await Promise.all(Array.from({ length: begunAtOnce }, () => open("hanging")));
      await Promise.all(group.map((client) => client.seen("Hello")));
      clients.push(...group);
    }
    expect(hanging.openCount).toBe(openStreams);
    expect(clients.filter(({ isClosed }) => isClosed)).toEqual([]);

    const boundMs = 3 * beforeMs + 20;
    const duringMs = await firstContentBelow(boundMs);
    const figures = [beforeMs, duringMs].map((ms) => `${ms.toFixed(1)} ms`);
    process.stdout.write(`first content, without and with open streams: ${figures.join(", ")}\n`);
    expect(duringMs).toBeLessThan(boundMs);

    for (const client of clients) client.fin();
    await until("the provider is rid of all", () => hanging.openCount === 0, testTimeoutMs);
    const isOver = ({ msg, model }: { msg: string; model?: unknown }) =>
      msg === "request" && model === "hanging";
    await until(
      "all are ended",
      () => setup.gateway.log.filter(isOver).length === openStreams,
      testTimeoutMs,
    );
    await setup.gateway.expectAuditPasses();
    const records = (await setup.gateway.cli.json(
      "requests",
      "--status",
      "cancelled",
      "--limit",
      String(2 * openStreams),
    )) as RequestRecord[];
    expect(records).toHaveLength(openStreams);
    expect(records.filter(({ provider }) => provider !== "hanging")).toEqual([]);
  },
  testTimeoutMs,
);
