import { expect, test } from "bun:test";
import { helloEvent, roleEvent } from "../support/provider/chatAnswers.ts";
import { ask } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import { unhinderedTimer } from "../support/measurement.ts";
import { connectRaw, postBytes } from "../support/gateway/rawClient.ts";
import type { RawPeer } from "../support/provider/rawServer.ts";
import { created } from "../support/provider/responsesAnswers.ts";
import { piece, startProvider, streamHead } from "../support/provider/scriptedProvider.ts";
import { disconnectWays } from "../support/gateway/steppedChat.ts";
import { responseEvent } from "../support/provider/upstreamText.ts";
import { several } from "../support/several.ts";

const clients = 200;
const atOnce = 20;
const graceMs = 300;
/** A provider whose text has ended gets four times the grace. */
const closedWithinMs = 4 * graceMs + 250;
const timeoutMs = 120_000;
const wordEveryMs = 20;

const everyForm = ["chat", "responses"] as const;
/** How far a provider has come when its client leaves. */
const everyStage = ["silent", "begun", "saying", "going on"] as const;

interface Leaving {
  readonly form: (typeof everyForm)[number];
  readonly stage: (typeof everyStage)[number];
  readonly way: (typeof disconnectWays)[number];
  /** The provider's side, when it has come so far. */
  readonly reached: PromiseWithResolvers<RawPeer>;
}

const opening = { chat: roleEvent, responses: created() };
const saying = {
  chat: helloEvent,
  responses: responseEvent("response.output_text.delta", { delta: "Hello" }),
};

const every = everyForm.flatMap((form) =>
  everyStage.flatMap((stage) => disconnectWays.map((way) => ({ form, stage, way }))),
);
const leavings: readonly Leaving[] = several(clients, (at) => {
  const one = every[at % every.length];
  if (one === undefined) throw new Error("unreachable");
  return { ...one, reached: Promise.withResolvers() };
});

const provider = startProvider(async (peer, { text }) => {
  const leaving = leavings[Number(/"client (\d+)"/.exec(text)?.[1])];
  if (leaving === undefined) throw new Error("no request came");
  const { form, stage, reached } = leaving;
  const at = everyStage.indexOf(stage);
  if (at > 0) await peer.send(Buffer.concat([Buffer.from(streamHead), piece(opening[form])]));
  if (at > 1) await peer.send(piece(saying[form]));
  reached.resolve(peer);
  if (stage !== "going on") return;
  for (;;) {
    await Bun.sleep(wordEveryMs);
    await peer.send(piece(saying[form]));
  }
});
const billing = { disconnect_grace: `${graceMs}ms` };
const setup = openBinaryBefore(
  oneModel(`http://127.0.0.1:${provider.port}/v1`, { billing }),
  provider,
);

/** How long the provider was kept after its client disconnected, in wall time and without the time of other programs. */
async function disconnect(
  { form, stage, way, reached }: Leaving,
  at: number,
): Promise<{ byTheClock: number; own: number }> {
  const said = `client ${at}`;
  const client = await connectRaw(Number(new URL(setup.gateway.url).port));
  const [path, body] =
    form === "chat"
      ? ["/v1/chat/completions", ask({ stream: true, messages: [{ role: "user", content: said }] })]
      : ["/v1/responses", { model: "small", stream: true, input: said }];
  client.send(postBytes(path, setup.key, JSON.stringify(body)));
  const peer = await reached.promise;
  if (everyStage.indexOf(stage) > 1) await client.seen("Hello");
  const startedMs = performance.now();
  const tookMs = unhinderedTimer([setup.gateway.pid, process.pid]);
  client[way]();
  await peer.closed;
  return { byTheClock: performance.now() - startedMs, own: tookMs().all };
}

test(
  `${clients} clients leave their streams: each provider has its grace of ${graceMs} ms, or four times that, and is let go within 250 ms more`,
  async () => {
    const times: { byTheClock: number; own: number }[] = [];
    const waiting = [...leavings.entries()];
    const context = async (): Promise<void> => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
        times.push(await disconnect(next[1], next[0]));
    };
    await Promise.all(several(atOnce, context));
    const own = times.map((time) => time.own).toSorted((a, b) => a - b);
    const figures = [own[0], own[clients / 2], own.at(-1)].map((ms) => `${ms?.toFixed(0)} ms`);
    process.stdout.write(`let go after ${figures.join(", ")} (first, middle, last)\n`);
    expect(times).toHaveLength(clients);
    expect(own.filter((ms) => ms > closedWithinMs)).toEqual([]);
    expect(times.filter(({ byTheClock }) => byTheClock < graceMs - 5)).toEqual([]);
    const cancelled = ["--status", "cancelled", "--limit", String(2 * clients)];
    expect(await setup.gateway.cli.json("requests", ...cancelled)).toHaveLength(clients);
  },
  timeoutMs,
);
