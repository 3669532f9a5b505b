import { beforeAll, describe, expect, test } from "bun:test";
import { binaryPath } from "../support/binary/binary.ts";
import { startGatewayBefore } from "../support/binary/gatewayBefore.ts";
import { startTimeoutMs, type GatewayProcess } from "../support/binary/gatewayProcess.ts";
import { ask, call, chunksOf, openChat } from "../support/gateway/chatCalls.ts";
import { oneModel, type Section } from "../support/gateway/gatewayConfig.ts";
import { chatBytes, connectRaw, type RawClient } from "../support/gateway/rawClient.ts";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
} from "../support/provider/chatAnswers.ts";
import {
  piece,
  startProvider,
  streamEnd,
  streamHead,
} from "../support/provider/scriptedProvider.ts";
import { several } from "../support/several.ts";
import { until } from "../support/until.ts";

beforeAll(async () => {
  await binaryPath();
}, startTimeoutMs);

interface Setup {
  readonly gateway: GatewayProcess;
  readonly key: string;
  readonly port: number;
  /** Lets the streams of the provider go on. */
  readonly goOn: () => void;
}

/** JSON answers come at once, and streams after their first event on demand. */
async function withGateway(server: Section, work: (setup: Setup) => Promise<void>): Promise<void> {
  const gate = Promise.withResolvers<void>();
  const provider = startProvider(async (peer, request) => {
    if (request.json["stream"] !== true) return await answered()(peer, request);
    await peer.send(Buffer.concat([Buffer.from(streamHead), piece(helloEvent)]));
    await gate.promise;
    await peer.send(piece(stopEvent + usageEvent + doneEvent));
    await peer.send(streamEnd);
  });
  const config = oneModel(`http://127.0.0.1:${provider.port}/v1`, { server });
  const started = await startGatewayBefore(provider, config);
  const { gateway } = started;
  try {
    const key = await gateway.key("alice", "1000");
    await work({ gateway, key, port: Number(new URL(gateway.url).port), goOn: gate.resolve });
  } finally {
    gate.resolve();
    await started.close();
  }
}

const draining = (gateway: GatewayProcess) =>
  gateway.logged("it drains", ({ msg }) => msg === "draining");
const refusing = (gateway: GatewayProcess) =>
  gateway.logged("it refuses", ({ msg }) => msg === "refusing new requests");

const healthBytes = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/** A connection that has had an answer. */
async function keptConnection(port: number): Promise<RawClient> {
  const client = await connectRaw(port);
  client.send(healthBytes);
  expect((await client.response()).head).not.toMatch(/^connection:/im);
  return client;
}

describe.concurrent("drain_delay", () => {
  test("a stopping gateway serves during the delay and ends each connection, and then refuses", () =>
    withGateway({ drain_delay: "1s" }, async ({ gateway, key, port, goOn }) => {
      const stream = await openChat(gateway, { key }, { stream: true });
      await stream.seen("Hello");
      const kept = await keptConnection(port);
      const half = await connectRaw(port);
      const bytes = chatBytes(key, JSON.stringify(ask()));
      half.send(bytes.slice(0, 20));
      gateway.signal("SIGTERM");
      expect(await draining(gateway)).toMatchObject({ duration_ms: 1000 });

      const health = await call(gateway, undefined, { path: "/healthz" });
      expect(health).toMatchObject({ status: 503, body: { status: "draining" } });
      const streamed = await openChat(gateway, { key }, { stream: true });
      await streamed.seen("Hello");
      for (const [path, body, status] of [
        ["/v1/chat/completions", ask(), 200],
        ["/v1/models", undefined, 200],
        ["/v1/chat/completions", { model: "none" }, 400],
        ["/", undefined, 200],
        ["/openapi.json", undefined, 200],
      ] as const) {
        const reply = await call(gateway, { key }, { path, body });
        expect([path, reply.status, reply.headers.get("connection")]).toEqual([
          path,
          status,
          "close",
        ]);
      }
      for (const { headers } of [health, streamed]) expect(headers.get("connection")).toBe("close");
      for (const version of ["1.0", "1.1"]) {
        const client = version === "1.1" ? kept : await connectRaw(port);
        client.send(bytes.replace("HTTP/1.1", `HTTP/${version}`));
        expect(await client.response()).toMatchObject({ status: 200 });
        await client.closed;
      }

      await refusing(gateway);
      expect(call(gateway, { key }, { path: "/v1/models" })).rejects.toThrow(/Unable to connect/);
      half.send(bytes.slice(20));
      const { status, head, body } = await half.response();
      expect([status, JSON.parse(body)]).toEqual([
        502,
        { error: { message: "service temporarily unavailable", type: "provider_error" } },
      ]);
      expect(head).toMatch(/^retry-after: 1$/im);
      expect(head).toMatch(/^connection: close$/im);
      await half.closed;
      goOn();
      for (const open of [stream, streamed]) {
        await until("the stream is over", () => open.isOver);
        expect(chunksOf(open).at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }] });
      }
      expect(await gateway.ended).toBe(0);
    }));

  test.each([
    ["at the end of the delay", "500ms"],
    ["at the signal", "0s"],
  ])("what arrives %s is answered, on kept and on new connections", (_, drainDelay) =>
    withGateway({ drain_delay: drainDelay }, async ({ gateway, key, port }) => {
      const kept = await Promise.all(several(8, () => keptConnection(port)));
      if (drainDelay === "0s") gateway.signal("SIGSTOP");
      gateway.signal("SIGTERM");
      if (drainDelay !== "0s") {
        await draining(gateway);
        gateway.signal("SIGSTOP");
      }
      // While the process stands still, the system takes connections and bytes for it.
      const fresh = await Promise.all(several(8, () => connectRaw(port)));
      const clients = [...kept, ...fresh];
      for (const client of clients) client.send(chatBytes(key, JSON.stringify(ask())));
      await Bun.sleep(500);
      gateway.signal("SIGCONT");
      for (const client of clients) {
        const { status, head } = await client.response();
        expect([status, /^connection: close$/im.test(head)]).toEqual([200, true]);
      }
      expect(await gateway.ended).toBe(0);
      expect(await gateway.cli.json("requests")).toHaveLength(clients.length);
    }),
  );

  test("a second signal ends the delay", () =>
    withGateway({ drain_delay: "5m" }, async ({ gateway }) => {
      gateway.signal("SIGTERM");
      await draining(gateway);
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
    }));
});
