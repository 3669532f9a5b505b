import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { startLoadProvider } from "../support/provider/loadProvider.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { sendMixedLoad } from "../support/binary/mixedLoad.ts";
import { chatAndEmbeddings } from "../support/gateway/gatewayConfig.ts";
import { reverseProxies } from "../support/servers/reverseProxies.ts";
import { freePort } from "../support/servers/serverProcess.ts";

/** It holds a request while nobody listens. */
const haproxy = reverseProxies.find(({ name }) => name === "HAProxy");

describe.skipIf(haproxy === undefined || haproxy.missing !== undefined)(
  "one gateway that restarts behind HAProxy with the settings of docs/run/reverse-proxy.md",
  () => {
    const provider = startLoadProvider({ wordDelayMs: 5 });
    const port = freePort();
    let gateway: GatewayProcess;
    beforeAll(async () => {
      const server = { listen: `127.0.0.1:${port}`, drain_delay: "500ms" };
      gateway = await startGatewayProcess(chatAndEmbeddings(provider.url, { server }));
    }, startTimeoutMs);
    afterAll(async () => {
      await gateway.close();
      provider.stop();
    });

    test(
      "loses no request",
      async () => {
        const key = await gateway.key("alice", "1000");
        await using proxy = await haproxy?.start([port]);
        const state = { isOver: false };
        const load = sendMixedLoad({ url: `http://127.0.0.1:${proxy?.port}` }, key, {
          requests: Infinity,
          atOnce: 8,
          isOver: () => state.isOver,
          seen() {},
        });
        const answers = async () => {
          const since = gateway.log.length;
          const isAnswer = ({ account }: Readonly<Record<string, unknown>>) => account === "alice";
          await gateway.logged("it answers", isAnswer, since);
        };
        await answers();
        await gateway.stop();
        await gateway.start();
        await answers();
        state.isOver = true;
        const { begun, whole, refusals } = await load;
        expect([begun - whole.length, refusals]).toEqual([0, []]);
      },
      startTimeoutMs,
    );
  },
);
