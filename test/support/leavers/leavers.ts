import { readdirSync } from "node:fs";
import { startGatewayBefore } from "../binary/gatewayBefore.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import { scrape } from "../gateway/scrape.ts";
import { promptFor } from "../generation/plannedAnswer.ts";
import { startMeteredProvider, type MeteredProvider } from "../generation/meteredProvider.ts";
import { sendTimed } from "../generation/timedClient.ts";
import { isAnswered, markOf, requestBytes } from "../generation/ways.ts";
import { residentBytes } from "../measurement.ts";
import { seededRandom } from "../seededRandom.ts";
import { several } from "../several.ts";
import { until, untilAsync } from "../until.ts";
import { judge, type Judged, type SentRequest } from "./judge.ts";
import { drawPlan, stageAt, type LeaverPlan, type Scale } from "./plan.ts";
import { boundTokens, leaverRoutes, leaversConfig } from "./routes.ts";

export interface LeaversOptions {
  readonly clients: number;
  readonly seconds: number;
  readonly accounts: number;
  readonly seed: number;
  readonly scale: Scale;
  /** Called with the totals so far, each half minute. */
  report?(standing: LeaversStanding): void;
}

/** The totals so far. */
export interface LeaversStanding {
  readonly seconds: number;
  readonly begun: number;
  readonly left: number;
  readonly whole: number;
  /** Answers that were neither left nor whole, by their status. */
  readonly others: Readonly<Record<string, number>>;
  readonly residentMiB: number;
  /** The gateway's open files and connections. */
  readonly files: number;
  /** Answers that providers generate now. */
  readonly generating: number;
}

/** What was seen at the end. */
export interface LeaversSeen extends Judged {
  readonly standing: LeaversStanding;
  readonly residentMiBMax: number;
  readonly filesMax: number;
  /** From the moment when the last client left until nothing was generated any more. */
  readonly readOnSeconds: number;
}

export interface Leavers {
  run(): Promise<LeaversSeen>;
  /** Stops the gateway with SIGTERM and runs the audits. */
  close(): Promise<void>;
}

const credit = "1000000";
const reportEveryMs = 30_000;
const sampleEveryMs = 500;
const answerTimeoutMs = 300_000;
const restTimeoutMs = 400_000;
/** The clients begin over this time. */
const rampMs = 10_000;
/** So many answers of each model come to their end before anybody leaves. */
const finishedFirst = 3;
const mebibyte = 1_048_576;

interface Run {
  readonly options: LeaversOptions;
  readonly gateway: GatewayProcess;
  readonly providers: readonly MeteredProvider[];
  readonly keys: readonly string[];
  readonly sent: SentRequest[];
  readonly others: Record<string, number>;
  readonly startedMs: number;
  begun: number;
  left: number;
  whole: number;
  residentMax: number;
  filesMax: number;
}

/** Starts the compiled gateway before a provider for each route. Close it, also after a failure. */
export async function openLeavers(options: LeaversOptions): Promise<Leavers> {
  const providers = leaverRoutes.map(({ habit }) => startMeteredProvider(habit));
  const ports = leaverRoutes.map(({ model }, at) => [model, providers[at]?.port ?? 0] as const);
  const stop = (): void => providers.forEach((provider) => provider.stop());
  const started = await startGatewayBefore({ stop }, leaversConfig(Object.fromEntries(ports)));
  const { gateway } = started;
  const keys: string[] = [];
  for (let at = 0; at < options.accounts; at += 1)
    keys.push(await gateway.key(`account-${at}`, credit));
  const run: Run = {
    options,
    gateway,
    providers,
    keys,
    sent: [],
    others: {},
    startedMs: performance.now(),
    begun: 0,
    left: 0,
    whole: 0,
    residentMax: 0,
    filesMax: 0,
  };
  return { run: () => leave(run), close: () => started.close() };
}

async function leave(run: Run): Promise<LeaversSeen> {
  const { options, gateway, providers } = run;
  await finishSome(run);
  const stopWatching = watch(run);
  const endMs = performance.now() + options.seconds * 1000;
  await Promise.all(several(options.clients, (at) => useAgainAndAgain(run, at, endMs)));
  const lastLeftMs = performance.now();
  const isIdle = (): boolean => providers.every(({ busyCount }) => busyCount === 0);
  await until("no provider generates any more", isIdle, restTimeoutMs);
  const readOnSeconds = (performance.now() - lastLeftMs) / 1000;
  await untilAtRest(gateway);
  stopWatching();
  return {
    ...(await judge(gateway.place, run.sent, providers)),
    standing: standingOf(run),
    residentMiBMax: inMiB(run.residentMax),
    filesMax: run.filesMax,
    readOnSeconds: Math.round(readOnSeconds),
  };
}

/** A few answers of each way that come to their end show the gateway how fast each model is. */
async function finishSome(run: Run): Promise<void> {
  const random = seededRandom(run.options.seed);
  const plans = leaverRoutes.flatMap((route) =>
    several(finishedFirst, (): LeaverPlan => {
      const hiddenTokens = route.hiddenSeconds[1] === 0 ? 0 : 2 * route.habit.tokensPerSecond;
      const answer = {
        name: "first",
        promptTokens: 500,
        firstMs: 300,
        hiddenTokens,
        visibleTokens: 60,
      };
      const way = random.pick(route.ways);
      return { route, way, answer, promptEstimate: 500, leaving: undefined };
    }),
  );
  await Promise.all(plans.map((plan, at) => use(run, plan, at, undefined)));
}

async function useAgainAndAgain(run: Run, client: number, endMs: number): Promise<void> {
  const { options } = run;
  const random = seededRandom(options.seed * 1000 + client);
  await Bun.sleep((rampMs * options.scale.time * client) / options.clients);
  for (let leftMs = left(endMs); leftMs > 0; leftMs = left(endMs)) {
    const plan = drawPlan(random, options.scale);
    // At the end all leave.
    const how = plan.leaving?.how ?? "reset";
    const afterMs = plan.leaving?.afterMs ?? Infinity;
    const leaving = afterMs < leftMs ? plan.leaving : { afterMs: leftMs, how };
    await use(run, { ...plan, leaving }, client, leaving?.afterMs);
  }
}

const left = (endMs: number): number => endMs - performance.now();

async function use(
  run: Run,
  plan: LeaverPlan,
  client: number,
  leftAfterMs: number | undefined,
): Promise<void> {
  const { gateway, keys } = run;
  const name = `client-${run.begun}`;
  run.begun += 1;
  const { way, promptEstimate, leaving } = plan;
  const prompt = promptFor({ ...plan.answer, name }, promptEstimate);
  const reply = await sendTimed({
    port: Number(new URL(gateway.url).port),
    bytes: requestBytes(way, keys[client % keys.length] ?? "", { prompt, bound: boundTokens }),
    mark: markOf(way),
    leaving,
    timeoutMs: answerTimeoutMs,
  });
  const hasLeft = reply.outcome === "left";
  if (hasLeft) run.left += 1;
  else if (isAnswered(reply)) run.whole += 1;
  else {
    const what = `${plan.route.model} ${way.path} ${reply.status} ${reply.outcome} ${reply.begun}`;
    run.others[what] = (run.others[what] ?? 0) + 1;
  }
  const stage = stageAt(plan, hasLeft ? leftAfterMs : undefined);
  run.sent.push({ name, way, stage });
}

/** Samples memory and files until it is stopped. */
function watch(run: Run): () => void {
  const { gateway, options } = run;
  const sampling = setInterval(() => {
    run.residentMax = Math.max(run.residentMax, residentBytes(gateway.pid));
    run.filesMax = Math.max(run.filesMax, openFiles(gateway));
  }, sampleEveryMs);
  const reporting = setInterval(() => options.report?.(standingOf(run)), reportEveryMs);
  return () => {
    clearInterval(sampling);
    clearInterval(reporting);
  };
}

function standingOf(run: Run): LeaversStanding {
  const { gateway, providers, startedMs, begun, left: leftCount, whole, others } = run;
  return {
    seconds: Math.round((performance.now() - startedMs) / 1000),
    begun,
    left: leftCount,
    whole,
    others,
    residentMiB: inMiB(residentBytes(gateway.pid)),
    files: openFiles(gateway),
    generating: providers.reduce((sum, { busyCount }) => sum + busyCount, 0),
  };
}

function openFiles({ pid }: GatewayProcess): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Resolves when the gateway has no open request and holds no money. */
async function untilAtRest(gateway: GatewayProcess): Promise<void> {
  const isForMetrics = ({ msg }: { msg: string }) => msg === "listening for metrics";
  const { address } = await gateway.logged("it shows metrics", isForMetrics);
  const isAtRest = async (): Promise<boolean> => {
    const found = await scrape(`${String(address)}/metrics`);
    await Bun.sleep(sampleEveryMs);
    return (
      found.value("tollgate_open_requests") === 0 && found.value("tollgate_held_roubles") === 0
    );
  };
  await untilAsync("the gateway is at rest", isAtRest, restTimeoutMs);
}

function inMiB(bytes: number): number {
  return Math.round(bytes / mebibyte);
}
