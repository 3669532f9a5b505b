import { afterAll, beforeAll, expect, test } from "bun:test";
import { startDemoProvider } from "../../src/commands/demo/provider.ts";
import { oneModel } from "../support/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/gatewayProcess.ts";
import { observeCharges } from "../support/observer.ts";

const provider = startDemoProvider({ wordDelayMs: 0 });
let gateway: GatewayProcess;
beforeAll(async () => {
  const sections = { database: { path: "tollgate.db", durability: "power" } };
  gateway = await startGatewayProcess(oneModel(provider.url, sections));
}, startTimeoutMs);
afterAll(async () => {
  await gateway.close();
  await provider.stop();
});

const rounds = 1000;
const timeoutMs = 60_000;

// `bun scripts/observeCharges.ts` looks a hundred thousand times.
test(
  `in ${rounds} answers another process finds the charge committed in the moment that their end arrives`,
  async () => {
    const key = await gateway.key("alice", "1000");
    const { url, desk } = gateway;
    const seen = await observeCharges({ url, key, database: desk.database }, rounds);
    expect(seen).toEqual({
      ends: {
        chat: rounds / 4,
        "chat stream": rounds / 4,
        responses: rounds / 4,
        "responses stream": rounds / 4,
      },
      early: [],
    });
  },
  timeoutMs,
);
