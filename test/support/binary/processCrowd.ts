import { answerOnlyPrices } from "../gateway/answerOnlyPrices.ts";
import { inRoubles } from "../generation/money.ts";
import { CROWD_MONEY, crowd } from "../histories/concurrentRequests.ts";
import { startProvider } from "../provider/scriptedProvider.ts";
import { openStoreAt } from "../store/gatewayDatabase.ts";
import { testedProcesses, testedStore } from "../testedEngines.ts";
import type { Script } from "../world/script.ts";
import { startGatewayProcess } from "./gatewayProcess.ts";

/** Two hundred requests at once, over all serving processes of a gateway, on a balance for exactly ten. */
export const processCrowd: Script = {
  name: "processCrowd",
  proves:
    "of 200 requests at once on a balance for ten, over several serving processes: exactly ten are served",
  unit: "seeds",
  amounts: [2, 5, 100],
  missing:
    testedStore === "sqlite" ? undefined : "processes of a database on a server are replicas",
  async run({ seed, amount }) {
    const provider = startProvider();
    try {
      const config = answerOnlyPrices(`http://127.0.0.1:${provider.port}/v1`);
      const server = { processes: Math.max(2, testedProcesses) };
      const sections = { ...config.sections, server };
      const gateway = await startGatewayProcess({ ...config, sections });
      gateway.auditor.listenTo(provider);
      const problems: string[] = [];
      for (let at = seed; at < seed + amount; at += 1) {
        const account = `crowd-${at}`;
        const keys = [
          await gateway.key(account, inRoubles(CROWD_MONEY, 9)),
          await gateway.key(account, "0"),
        ];
        const balance = async (): Promise<bigint> => {
          await gateway.unreserved(account);
          const store = await openStoreAt(gateway.place);
          const found = await store.accounts.findOrThrow(account);
          await store.close();
          return found.balance;
        };
        const seen = await crowd({ gateways: [gateway], keys, provider, balance }, at);
        problems.push(...seen.problems);
      }
      await gateway.close();
      return { problems };
    } finally {
      provider.stop();
    }
  },
};
