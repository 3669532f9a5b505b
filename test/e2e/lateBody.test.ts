import { afterAll, beforeAll, expect, test } from "bun:test";
import { binaryPath } from "../support/binary/binary.ts";
import { helloEvent, roleEvent, usual } from "../support/provider/chatAnswers.ts";
import { ask, openChat } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { chatBytes, connectRaw } from "../support/gateway/rawClient.ts";
import { piece, startProvider, streamHead } from "../support/provider/scriptedProvider.ts";
import { until } from "../support/until.ts";

/** Starts a stream and leaves it open. Answers all other requests at once. */
const provider = startProvider(async (peer, request) => {
  if (request.json["stream"] !== true) return usual(peer, request);
  await peer.send(Buffer.concat([Buffer.from(streamHead), piece(roleEvent + helloEvent)]));
});

beforeAll(async () => {
  await binaryPath();
}, startTimeoutMs);
afterAll(() => provider.stop());

test(
  "a request whose body arrives after the cut at shutdown is refused, and no provider is asked",
  async () => {
    const url = `http://127.0.0.1:${provider.port}/v1`;
    const gateway = await startGatewayProcess(
      oneModel(url, { server: { listen: "127.0.0.1:0", shutdown_grace: "1h" } }),
    );
    try {
      const key = await gateway.key("alice", "100");
      const stream = await openChat(gateway, { key }, { stream: true });
      await stream.seen("Hello");
      const late = await connectRaw(Number(new URL(gateway.url).port));
      const bytes = chatBytes(key, JSON.stringify(ask()), "Expect: 100-continue\r\n");
      const bodyStart = bytes.indexOf("\r\n\r\n") + 4;
      late.send(bytes.slice(0, bodyStart + 5));
      await late.seen("100 Continue");

      gateway.signal("SIGTERM");
      await gateway.logged("it drains", ({ msg }) => msg === "draining");
      gateway.signal("SIGTERM");
      await until("open streams are cut off", () => stream.isOver);
      late.send(bytes.slice(bodyStart + 5));
      await late.seen("service temporarily unavailable");
      expect(late.text).toContain("HTTP/1.1 502 ");
      expect(await gateway.ended).toBe(0);
      expect(provider.requests).toHaveLength(1);
      expect(await gateway.cli.json("requests")).toMatchObject([
        { id: stream.id, status: "failed" },
      ]);
      await gateway.expectAuditPasses();
    } finally {
      await gateway.close();
    }
  },
  startTimeoutMs,
);
