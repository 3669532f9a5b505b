import { expect, test } from "bun:test";
import { usual } from "../support/provider/chatAnswers.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { chat } from "../support/gateway/chatCalls.ts";
import { startCollector } from "../support/gateway/collector.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";

test(
  "the executable sends spans, the last ones when it stops",
  async () => {
    const collector = startCollector();
    const provider = startProvider(usual);
    const telemetry = { otlp: collector.url, "headers.x-api-key": "canary-collector-key" };
    const config = oneModel(`http://127.0.0.1:${provider.port}/v1`, { telemetry });
    const gateway = await startGatewayProcess(config);
    try {
      const key = await gateway.key("canary-account", "1");
      const messages = [{ role: "user", content: "canary-prompt" }];
      const first = await chat(gateway, { key }, { messages });
      expect((await collector.trace(first.id)).attempts).toHaveLength(1);
      const last = await chat(gateway, { key }, { messages, stream: true });
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      const { attempts } = await collector.trace(last.id);
      expect(attempts[0]?.attributes).toMatchObject({
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.response.finish_reasons": ["stop"],
      });
      expect(collector.latest?.headers.get("x-api-key")).toBe("canary-collector-key");
      const sent = collector.bodies.join("\n");
      for (const secret of ["canary", key]) expect(sent).not.toContain(secret);
      expect(JSON.stringify(gateway.log)).not.toContain("canary-collector-key");
    } finally {
      await gateway.close();
      collector.stop();
      provider.stop();
    }
  },
  startTimeoutMs,
);

test(
  "a collector that is down delays neither a request nor the stop",
  async () => {
    const collector = startCollector();
    collector.stop();
    const provider = startProvider(usual);
    const telemetry = { otlp: collector.url };
    const config = oneModel(`http://127.0.0.1:${provider.port}/v1`, { telemetry });
    const gateway = await startGatewayProcess(config);
    try {
      const key = await gateway.key("a", "1");
      for (let count = 0; count < 5; count += 1)
        expect((await chat(gateway, { key })).status).toBe(200);
      const isOutage = (msg: string): boolean => msg.startsWith("the trace collector does not");
      await gateway.logged("the outage is logged", ({ msg }) => isOutage(msg));
      expect((await chat(gateway, { key })).status).toBe(200);
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      expect(gateway.log.filter(({ msg }) => isOutage(msg))).toHaveLength(1);
    } finally {
      await gateway.close();
      provider.stop();
    }
  },
  startTimeoutMs,
);
