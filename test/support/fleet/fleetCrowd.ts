import { answerOnlyPrices, ANSWER_TOKENS, PRICE } from "../gateway/answerOnlyPrices.ts";
import { chat } from "../gateway/chatCalls.ts";
import { says } from "../histories/concurrentRequests.ts";
import { startProvider, type ScriptedProvider } from "../provider/scriptedProvider.ts";
import { readDatabaseAt } from "../auditor/databaseRows.ts";
import { seededRandom } from "../seededRandom.ts";
import { freshDatabase, postgresMissing } from "../servers/postgres.ts";
import type { Script } from "../world/script.ts";
import { startFleet, type Fleet } from "./fleet.ts";

const CROWD = 200;
const PLACES = 10n;
const REPLICAS = 3;
const NANO = 1_000_000_000n;

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
      const problems: string[] = [];
      for (let at = 0; at < amount; at += 1)
        problems.push(...(await crowd(fleet, provider, database.url, seed + at)));
      return { problems: [...problems, ...(await fleet.problems())] };
    } finally {
      provider.stop();
    }
  },
};

async function crowd(
  fleet: Fleet,
  provider: ScriptedProvider,
  databaseUrl: string,
  seed: number,
): Promise<readonly string[]> {
  const random = seededRandom(seed);
  const account = `crowd-${seed}`;
  const money = PLACES * PRICE;
  const roubles = `${money / NANO}.${String(money % NANO).padStart(9, "0")}`;
  const keys = [await fleet.key(account, roubles), await fleet.key(account, "0")];
  provider.forget();
  provider.answer = says({ prompt_tokens: 5, completion_tokens: ANSWER_TOKENS });
  const replies = await Promise.all(
    Array.from({ length: CROWD }, async () => {
      if (random.chance(0.5)) await Bun.sleep(random.below(20));
      const replica = random.pick(fleet.replicas).process;
      return chat(replica, { key: random.pick(keys) }, { stream: random.chance(0.5) });
    }),
  );
  await fleet.atRest();
  const { accounts } = await readDatabaseAt({ url: databaseUrl });
  const wrong = [
    [replies.filter(({ status }) => status === 200).length, Number(PLACES), "were served"],
    [provider.requests.length, Number(PLACES), "reached the provider"],
    [accounts.find(({ name }) => name === account)?.balance, 0n, "are left of the balance"],
    [
      replies.filter(({ status }) => ![200, 402, 429].includes(status)).length,
      0,
      "got another answer",
    ],
  ].filter(([seen, expected]) => seen !== expected);
  return wrong.map(([seen, , what]) => `seed ${seed}: ${seen} ${what}`);
}
