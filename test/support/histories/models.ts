import { assert, type IRawProperty } from "fast-check";
import { openTestApp, type TestApp } from "../gateway/testApp.ts";
import type { GatewayConfig } from "../gateway/gatewayConfig.ts";
import { startProvider, type ScriptedProvider } from "../provider/scriptedProvider.ts";
import type { Script, Seen } from "../world/script.ts";
import {
  concurrencyConfig,
  requestsForTenTimesTheBalance,
  requestsOfRandomCost,
} from "./concurrentRequests.ts";
import { historyConfig } from "./historyPrices.ts";
import { holdsHistory } from "./holdsHistory.ts";
import { httpHistory } from "./httpHistory.ts";
import { ledgerHistory } from "./ledgerHistory.ts";
import { openLedgerSetup } from "./ledgerSetup.ts";
import { answerOnDemand } from "./moneyProvider.ts";
import { replicaHistory } from "./replicaHistory.ts";

/** Histories of money, compared with a model. The folders of what they are about have their tests. */
export const models: readonly Script[] = [
  model("holds", 1_000_000, (play) => play(holdsHistory())),
  model("replicas", 200_000, (play) => play(replicaHistory())),
  ledgerOf("ledger", 1),
  ledgerOf("ledger: 2 processes", 2),
  ledgerOf("ledger: 4 processes", 4),
  model("http", 10_000, (play) =>
    inProcess(historyConfig, (gateway, provider) =>
      play(httpHistory(gateway, answerOnDemand(provider))),
    ),
  ),
  crowdOf("ten times the balance", requestsForTenTimesTheBalance),
  crowdOf("random costs", requestsOfRandomCost),
];

type Play = (history: IRawProperty<[readonly number[]]>) => Promise<void>;

/** The problem of a model is the shrunk history that failed. */
function model(name: string, amount: number, open: (play: Play) => Promise<void>): Script {
  return {
    name: `model: ${name}`,
    proves: "of money agree with a model",
    unit: "histories",
    amounts: [0, 0, amount],
    async run({ seed, amount: numRuns }): Promise<Seen> {
      const play: Play = async (history) =>
        await assert(history, { numRuns, seed, includeErrorInReport: true });
      await open(play);
      return { problems: [] };
    },
  };
}

function ledgerOf(name: string, replicas: number): Script {
  return model(name, 5000, async (play) => {
    const setup = await openLedgerSetup(replicas);
    try {
      await play(ledgerHistory(setup));
    } finally {
      await setup.close();
    }
  });
}

function crowdOf(name: string, send: typeof requestsForTenTimesTheBalance): Script {
  return {
    name: `model: ${name}`,
    proves: "of many requests at once on a small balance spend no more than it",
    unit: "seeds",
    amounts: [0, 0, 100],
    async run({ seed, amount }): Promise<Seen> {
      const problems: string[] = [];
      await inProcess(concurrencyConfig, async (gateway, provider) => {
        for (let at = 0; at < amount; at += 1)
          problems.push(...(await send(gateway, provider, seed + at)).problems);
      });
      return { problems };
    },
  };
}

async function inProcess(
  configOf: (providerUrl: string) => GatewayConfig,
  use: (gateway: TestApp, provider: ScriptedProvider) => Promise<void>,
): Promise<void> {
  const provider = startProvider();
  const gateway = await openTestApp(configOf(`http://127.0.0.1:${provider.port}/v1`));
  gateway.auditor.listenTo(provider);
  try {
    await use(gateway, provider);
  } finally {
    await gateway.close();
    provider.stop();
  }
}
