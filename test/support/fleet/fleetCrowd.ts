import { answerOnlyPrices } from "../gateway/answerOnlyPrices.ts";
import { CROWD_MONEY, crowd } from "../histories/concurrentRequests.ts";
import { inRoubles } from "../generation/money.ts";
import { startProvider } from "../provider/scriptedProvider.ts";
import { readDatabaseAt } from "../auditor/databaseRows.ts";
import { freshDatabase, postgresMissing } from "../servers/postgres.ts";
import type { Script } from "../world/script.ts";
import { startFleet } from "./fleet.ts";

const REPLICAS = 3;

/** Two hundred requests at once, over all replicas, on a balance for exactly ten. */
export const fleetCrowd: Script = {
  name: "fleetCrowd",
  proves:
    "of 200 requests at once on a balance for ten, over three replicas: exactly ten are served",
  unit: "seeds",
  amounts: [2, 5, 100],
  missing: postgresMissing,
  async run({ seed, amount }) {
    await using database = await freshDatabase();
    const provider = startProvider();
    try {
      await using fleet = await startFleet({
        databaseUrl: database.url,
        serverPort: Number(new URL(database.url).port),
        replicas: REPLICAS,
        config: answerOnlyPrices(`http://127.0.0.1:${provider.port}/v1`),
      });
      fleet.auditor.listenTo(provider);
      const gateways = fleet.replicas.map(({ process }) => process);
      const problems: string[] = [];
      for (let at = seed; at < seed + amount; at += 1) {
        const account = `crowd-${at}`;
        const keys = [
          await fleet.key(account, inRoubles(CROWD_MONEY, 9)),
          await fleet.key(account, "0"),
        ];
        const balance = async (): Promise<bigint | undefined> => {
          await fleet.atRest();
          const { accounts } = await readDatabaseAt({ url: database.url });
          return accounts.find(({ name }) => name === account)?.balance;
        };
        problems.push(...(await crowd({ gateways, keys, provider, balance }, at)).problems);
      }
      return { problems: [...problems, ...(await fleet.problems())] };
    } finally {
      provider.stop();
    }
  },
};
