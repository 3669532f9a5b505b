import { beforeAll, expect, test } from "bun:test";
import { binaryPath } from "../support/binary/binary.ts";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
} from "../support/provider/chatAnswers.ts";
import { ask } from "../support/gateway/chatCalls.ts";
import { startGatewayBefore } from "../support/binary/gatewayBefore.ts";
import {
  startTimeoutMs,
  type GatewayProcess,
  type RequestRecord,
} from "../support/binary/gatewayProcess.ts";
import { chatBytes, connectRaw, type RawClient } from "../support/gateway/rawClient.ts";
import {
  piece,
  startProvider,
  streamEnd,
  streamHead,
  type ScriptedProvider,
} from "../support/provider/scriptedProvider.ts";
import { holdWrites } from "../support/store/gatewayDatabase.ts";
import { until } from "../support/until.ts";
import { several } from "../support/several.ts";

beforeAll(async () => {
  await binaryPath();
}, startTimeoutMs);

const timeoutMs = 60_000;

/** Each test has its own gateway, so that the tests can wait in parallel. */
interface Setup {
  readonly gateway: GatewayProcess;
  readonly provider: ScriptedProvider;
  /** Sends a request. */
  readonly open: (stream: boolean) => Promise<RawClient>;
}

async function withGateway(work: (setup: Setup) => Promise<void>): Promise<void> {
  const provider = startProvider();
  const started = await startGatewayBefore(provider, {
    providers: { local: `http://127.0.0.1:${provider.port}/v1` },
    models: [
      {
        id: "small",
        routes: [{ provider: "local" }],
        settings: { max_output_tokens: 1_000_000 },
      },
    ],
    sections: { server: { listen: "127.0.0.1:0", shutdown_grace: "200ms" } },
  });
  const { gateway } = started;
  try {
    const key = await gateway.key("alice", "100000");
    const open = async (stream: boolean): Promise<RawClient> => {
      const client = await connectRaw(Number(new URL(gateway.url).port));
      client.send(chatBytes(key, JSON.stringify(ask({ stream }))));
      return client;
    };
    await work({ gateway, provider, open });
  } finally {
    await started.close();
  }
}

const recordsOf = async (gateway: GatewayProcess) =>
  (await gateway.cli.json("requests", "--limit", "100")) as RequestRecord[];

test.concurrent(
  "at SIGTERM a stream whose client does not read is cut, and is recorded and logged as failed",
  () =>
    withGateway(async ({ gateway, provider, open }) => {
      const large = helloEvent.replace("Hello", "Hello".repeat(2000));
      const over = new AbortController();
      let sent = 0;
      provider.answer = async (peer) => {
        await peer.send(streamHead);
        for (; !over.signal.aborted; sent += 1) await peer.send(piece(large));
      };
      const clients = await Promise.all(several(10, () => open(true)));
      for (const client of clients) {
        await client.seen("Hello");
        client.pause();
      }
      // When all buffers are full, the provider can send nothing more.
      for (let before = -1; before < sent; await Bun.sleep(500)) before = sent;
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      over.abort();
      const ends = (await recordsOf(gateway)).map(({ status, cost_rub: cost }) => [status, cost]);
      expect(ends).toEqual(clients.map(() => ["failed", "0"]));
      const loggedCount = () => gateway.log.filter(({ outcome }) => outcome === "failed").length;
      await until("the log has a line for each", () => loggedCount() === clients.length);
    }),
  timeoutMs,
);

test.concurrent(
  "at SIGTERM an answer that waits for a locked store is charged only when its client gets it",
  () =>
    withGateway(async ({ gateway, provider, open }) => {
      const go = Promise.withResolvers<void>();
      provider.answer = async (peer, request) => {
        const isStream = request.json["stream"] === true;
        if (isStream) await peer.send(Buffer.concat([Buffer.from(streamHead), piece(helloEvent)]));
        await go.promise;
        if (!isStream) return answered()(peer, request);
        await peer.send(piece(stopEvent + usageEvent + doneEvent));
        await peer.send(streamEnd);
      };
      const clients = await Promise.all(several(8, (at) => open(at % 2 === 0)));
      await until("all are asked", () => provider.requests.length === clients.length);
      const lock = await holdWrites(gateway.place);
      try {
        go.resolve();
        await Bun.sleep(100);
        gateway.signal("SIGTERM");
        gateway.signal("SIGTERM");
        // Longer than the time that aborted requests have to end.
        await Bun.sleep(4000);
      } finally {
        await lock[Symbol.asyncDispose]();
      }
      expect(await gateway.ended).toBe(0);
      await Promise.all(clients.map(({ closed }) => closed));
      const whole = clients.filter(({ text }) => /"total_tokens"|\[DONE\]/.test(text)).length;
      const charged = (await recordsOf(gateway)).filter(
        ({ cost_rub: cost }) => cost !== "0",
      ).length;
      expect({ whole, charged }).toEqual({ whole: clients.length, charged: clients.length });
    }),
  timeoutMs,
);
