/**
 * Plays histories of money against its model, as many as one likes: `bun scripts/moneyModel.ts WHICH [RUNS] [SEED]`.
 * WHICH is `holds` (memory alone), `replicas` (the memory of several replicas), `ledger` (a real store and its writer) or `http` (the whole gateway).
 */
import { assert, type IRawProperty } from "fast-check";
import { historyConfig } from "../test/support/histories/historyPrices.ts";
import { holdsHistory } from "../test/support/histories/holdsHistory.ts";
import { httpHistory } from "../test/support/histories/httpHistory.ts";
import { openLedgerSetup } from "../test/support/histories/ledgerSetup.ts";
import { ledgerHistory } from "../test/support/histories/ledgerHistory.ts";
import { answerOnDemand } from "../test/support/histories/moneyProvider.ts";
import { replicaHistory } from "../test/support/histories/replicaHistory.ts";
import { startProvider } from "../test/support/provider/scriptedProvider.ts";
import { drawnSeed } from "../test/support/seededRandom.ts";
import { openTestApp } from "../test/support/gateway/testApp.ts";

/** A model with the system under test. `close` runs the audits once more. */
interface Playground {
  readonly history: IRawProperty<[readonly number[]]>;
  close(): Promise<void>;
}

const playgrounds: Readonly<Record<string, { runs: number; open(): Promise<Playground> }>> = {
  holds: {
    runs: 1_000_000,
    open: () => Promise.resolve({ history: holdsHistory(), close: () => Promise.resolve() }),
  },
  replicas: {
    runs: 200_000,
    open: () => Promise.resolve({ history: replicaHistory(), close: () => Promise.resolve() }),
  },
  ledger: {
    runs: 5000,
    async open() {
      const setup = await openLedgerSetup();
      return { history: ledgerHistory(setup), close: () => setup.close() };
    },
  },
  http: {
    runs: 10_000,
    async open() {
      const provider = startProvider();
      const gateway = await openTestApp(historyConfig(`http://127.0.0.1:${provider.port}/v1`));
      gateway.auditor.listenTo(provider);
      return {
        history: httpHistory(gateway, answerOnDemand(provider)),
        async close() {
          await gateway.close();
          provider.stop();
        },
      };
    },
  },
};

/** Prints the seed first, so that the run can be repeated. Throws with the shrunk history that failed. */
async function play(which: string, runs: string | undefined, seed: string | undefined) {
  const playground = playgrounds[which];
  if (!playground) throw new Error(`which model: ${Object.keys(playgrounds).join(", ")}?`);
  const numRuns = Number(runs ?? playground.runs);
  const chosen = Number(seed ?? drawnSeed());
  console.log(JSON.stringify({ model: which, runs: numRuns, seed: chosen }));
  const startedMs = performance.now();
  const opened = await playground.open();
  try {
    await assert(opened.history, { numRuns, seed: chosen, includeErrorInReport: true });
  } finally {
    await opened.close();
  }
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  console.log(JSON.stringify({ failed: 0, seconds }));
}

if (import.meta.main) {
  const [which = "", runs, seed] = process.argv.slice(2);
  try {
    await play(which, runs, seed);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(1);
  }
}
