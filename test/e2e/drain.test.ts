import { afterAll, beforeAll, expect, test } from "bun:test";
import { seededRandom } from "../support/seededRandom.ts";
import {
  completion,
  doneEvent,
  helloEvent,
  stopEvent,
  thereEvent,
  usageEvent,
} from "../support/provider/chatAnswers.ts";
import { chat, chunksOf, openChat } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { created, delta, terminal } from "../support/provider/responsesAnswers.ts";
import { openResponse } from "../support/gateway/responsesCalls.ts";
import {
  json,
  piece,
  startProvider,
  streamEnd,
  streamHead,
} from "../support/provider/scriptedProvider.ts";
import { until } from "../support/until.ts";
import { amount } from "../support/sample.ts";
import { several } from "../support/several.ts";

const drains = amount(8, 20);
/** For each of the three kinds: chat streams, responses streams, and JSON chats. */
const openOfEach = 3;
const goesOnMsMax = 50;
const timeoutMs = 180_000;
const seed = 20;
const random = seededRandom(seed);

const chatEvents = [helloEvent, thereEvent, stopEvent, usageEvent, doneEvent];
const responsesEvents = [created() + delta, terminal()];

/** Starts at once, and sends events on demand. A JSON answer is sent completely then. */
const provider = startProvider(async (peer, request) => {
  asked += 1;
  const isResponse = request.requestLine.includes("/responses");
  const [first = "", ...events] = isResponse ? responsesEvents : chatEvents;
  const isStream = request.json["stream"] === true;
  if (isStream) await peer.send(Buffer.concat([Buffer.from(streamHead), piece(first)]));
  await goOn.promise;
  for (const event of isStream ? events : []) {
    await Bun.sleep(random.below(goesOnMsMax));
    await peer.send(piece(event));
  }
  if (isStream) await peer.send(streamEnd);
  else await json(completion())(peer, request);
});
let goOn = Promise.withResolvers<void>();
let asked = 0;
let gateway: GatewayProcess;
let key: { key: string };
beforeAll(async () => {
  const server = { listen: "127.0.0.1:0", shutdown_grace: "30s" };
  gateway = await startGatewayProcess(oneModel(`http://127.0.0.1:${provider.port}/v1`, { server }));
  key = { key: await gateway.key("alice", "1000") };
}, startTimeoutMs);
afterAll(async () => {
  await gateway.close();
  provider.stop();
});

/** Stops the gateway during answers of each kind, which continue only then. Returns how many arrived completely. */
async function drain(): Promise<number> {
  goOn = Promise.withResolvers();
  asked = 0;
  const since = gateway.log.length;
  const [chats, responses] = await Promise.all([
    Promise.all(several(openOfEach, () => openChat(gateway, key, { stream: true }))),
    Promise.all(several(openOfEach, () => openResponse(gateway, key))),
  ]);
  const wholes = several(openOfEach, () => chat(gateway, key));
  await until("the provider has them all", () => asked === 3 * openOfEach);
  gateway.signal("SIGTERM");
  await gateway.logged("it drains", ({ msg }) => msg === "draining", since);
  goOn.resolve();
  expect(await gateway.ended).toBe(0);
  await until("all are over", () => [...chats, ...responses].every(({ isOver }) => isOver));
  for (const stream of chats) {
    const said = chunksOf(stream).map(({ choices }) => (choices as Said[])[0]);
    expect(said.map((one) => one?.delta.content ?? "").join("")).toBe("Hello there");
    expect(said.at(-1)?.finish_reason).toBe("stop");
  }
  for (const { text } of responses) expect(text).toBe(responsesEvents.join(""));
  for (const { status, text } of await Promise.all(wholes))
    expect([status, text.includes("Hello there")]).toEqual([200, true]);
  return chats.length + responses.length + wholes.length;
}

interface Said {
  readonly delta: { readonly content?: string };
  readonly finish_reason: string | null;
}

test(
  `${drains} times SIGTERM during answers: none is cut, and each is recorded`,
  async () => {
    let whole = 0;
    for (let round = 0; round < drains; round += 1) {
      whole += await drain();
      await gateway.start();
    }
    expect(whole).toBe(drains * 3 * openOfEach);
    const done = ["--status", "done", "--limit", String(2 * whole)];
    expect(await gateway.cli.json("requests", ...done)).toHaveLength(whole);
  },
  timeoutMs,
);
