import { inRoubles } from "../generation/money.ts";
import { startMeteredProvider, type MeteredProvider } from "../generation/meteredProvider.ts";
import { promptFor } from "../generation/plannedAnswer.ts";
import { sendTimed } from "../generation/timedClient.ts";
import { isAnswered, markOf, requestBytes } from "../generation/ways.ts";
import { seededRandom, type Chance } from "../seededRandom.ts";
import { several } from "../several.ts";
import { inWorld } from "../world/script.ts";
import { World } from "../world/world.ts";
import { judge, type SentRequest } from "./judge.ts";
import { drawPlan, stageAt, type LeaverPlan } from "./plan.ts";
import { boundTokens, leaverRoutes, leaversConfig } from "./routes.ts";

interface LeaversSetup {
  readonly world: World;
  readonly providers: readonly MeteredProvider[];
  readonly keys: readonly string[];
  readonly sent: SentRequest[];
  /** How much shorter answers and waits are than usual. */
  readonly timeScale: number;
}

const credit = "1000000";
const ACCOUNTS = 20;
const answerTimeoutMs = 300_000;
const restTimeoutMs = 400_000;
/** A run of fewer seconds has answers of a tenth of the usual length, and fewer clients. They show less. */
const longSeconds = 60;
const CLIENTS = { short: 30, long: 500 };
/** The clients begin over this time. */
const rampMs = 10_000;
/** So many answers of each model come to their end before anybody leaves. */
const finishedFirst = 3;
/** What all clients together may be charged, as a share of what the providers count. */
const CHARGED_MIN = { short: 0.98, long: 0.99 };
const CHARGED_MAX = 1.1;
/** What a client that stops may be charged above the provider's count, in the median. */
const MEDIAN_OVER_MAX = 0.1;

const lengthOf = (seconds: number): "short" | "long" => (seconds < longSeconds ? "short" : "long");

export const leavers = inWorld<LeaversSetup>({
  name: "leavers",
  proves:
    "of clients that leave over all interfaces: they are charged for what was generated until then",
  unit: "seconds",
  amounts: [6, 15, 600],
  atOnce: (seconds) => CLIENTS[lengthOf(seconds)],
  open: openLeavers,
  warmUp: finishSome,
  play: useOnce,
  restTimeoutMs,
  check: (setup, _, seconds) => moneyProblems(setup, lengthOf(seconds)),
  least: (seconds) => ({ left: seconds * 3 }),
});

async function openLeavers(seed: number, seconds: number): Promise<LeaversSetup> {
  const providers = leaverRoutes.map(({ habit }) => startMeteredProvider(habit));
  const ports = leaverRoutes.map(({ model }, at) => [model, providers[at]?.port ?? 0] as const);
  const config = leaversConfig(Object.fromEntries(ports));
  return await World.open({ seed, providers, config }, async ({ gateway }) => {
    const keys: string[] = [];
    for (let at = 0; at < ACCOUNTS; at += 1) keys.push(await gateway.key(`account-${at}`, credit));
    const timeScale = lengthOf(seconds) === "short" ? 0.1 : 1;
    return { providers, keys, sent: [], timeScale };
  });
}

/** A few answers of each way that come to their end show the gateway how fast each model is. */
async function finishSome(setup: LeaversSetup): Promise<void> {
  const random = seededRandom(setup.world.seed);
  const plans = leaverRoutes.flatMap((route) =>
    several(finishedFirst, (): LeaverPlan => {
      const hiddenTokens = route.hiddenSeconds[1] === 0 ? 0 : 2 * route.habit.tokensPerSecond;
      const figures = { promptTokens: 500, firstMs: 300, hiddenTokens, visibleTokens: 60 };
      const answer = { name: "first", ...figures };
      const way = random.pick(route.ways);
      return { route, way, answer, promptEstimate: 500, leaving: undefined };
    }),
  );
  await Promise.all(plans.map((plan, at) => use(setup, plan, at)));
}

async function useOnce(setup: LeaversSetup, chance: Chance, number: number): Promise<void> {
  const { world, timeScale } = setup;
  const clients = CLIENTS[timeScale === 1 ? "long" : "short"];
  if (number < clients) await Bun.sleep((rampMs * timeScale * number) / clients);
  const plan = drawPlan(chance, timeScale);
  const leftMs = Math.max(world.endMs - performance.now(), 0);
  const { how = "reset", afterMs = Infinity } = plan.leaving ?? {};
  // At the end all leave.
  const leaving = afterMs < leftMs ? plan.leaving : { afterMs: leftMs, how };
  await use(setup, { ...plan, leaving }, number);
}

async function use(setup: LeaversSetup, plan: LeaverPlan, number: number): Promise<void> {
  const { world, keys, sent } = setup;
  const name = `client-${sent.length}-${number}`;
  const { way, promptEstimate, leaving } = plan;
  const prompt = promptFor({ ...plan.answer, name }, promptEstimate);
  const reply = await sendTimed({
    port: world.port,
    bytes: requestBytes(way, keys[number % keys.length] ?? "", { prompt, bound: boundTokens }),
    mark: markOf(way),
    leaving,
    timeoutMs: answerTimeoutMs,
  });
  const hasLeft = reply.outcome === "left";
  if (hasLeft) world.count("left");
  else if (isAnswered(reply)) world.count("whole");
  else {
    const what = `${plan.route.model} ${way.path} ${reply.status} ${reply.outcome} ${reply.begun}`;
    world.problems.push(`instead of a whole answer: ${what}`);
  }
  sent.push({ name, way, stage: stageAt(plan, hasLeft ? leaving?.afterMs : undefined) });
}

/** Compares the charges with what the providers count, and shows both. */
async function moneyProblems(
  { world, providers, sent }: LeaversSetup,
  length: "short" | "long",
): Promise<readonly string[]> {
  const { rows, chargedUnsent } = await judge(world.gateway.place, sent, providers);
  const percent = (share: number): string => `${(share * 100).toFixed(2)}%`;
  const shareOf = (row: (typeof rows)[number] | undefined): number =>
    Number(row?.charged) / Number(row?.generated);
  world.figures["charged of what was generated, in roubles"] = rows.map((row) =>
    [
      `${row.what}: ${row.requests} requests, ${inRoubles(row.charged)} of ${inRoubles(row.generated)}`,
      `${percent(shareOf(row))}, ${percent(row.medianOver)} more in the median`,
    ].join(", "),
  );
  const problems: string[] = [];
  const share = shareOf(rows[0]);
  if (!(share >= CHARGED_MIN[length] && share <= CHARGED_MAX))
    problems.push(`charged are ${percent(share)} of what the providers count`);
  if (chargedUnsent > 0n) problems.push(`${chargedUnsent} were charged for what no provider got`);
  if (length === "short") return problems;
  const stoppers = rows.filter(({ what }) => ["reasoning", "text", "tail"].includes(what));
  for (const { what, medianOver } of stoppers)
    if (medianOver > MEDIAN_OVER_MAX)
      problems.push(`who left (${what}) pays ${percent(medianOver)} more in the median`);
  return problems;
}
