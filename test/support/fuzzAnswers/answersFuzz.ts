import { Database } from "bun:sqlite";
import {
  measureHealth,
  whenIdle,
  GROWTH_BYTES_MAX,
  holdEverything,
  summaryOf,
  type Growth,
  type HealthTimes,
} from "../fuzz/resources.ts";
import type { LogLine } from "../binary/gatewayProcess.ts";
import { backupProvider, type AnswersSetup } from "./setup.ts";
import { runConnection, type AnswersTally } from "./connectionRun.ts";

/** What a run saw; `problems` is empty where all is well. */
export interface AnswersSeen extends Omit<AnswersTally, "verdicts"> {
  readonly seed: number;
  readonly seconds: number;
  /** Answers whose charge was known from what came, each looked up in the books. */
  readonly charged: number;
  readonly health: HealthTimes;
  /** What the gateway has more of than after a tenth of the run. */
  readonly growth: Growth;
}

const connectionsAtOnce = 48;
/** A run that finds this much ends early. */
const problemsMax = 20;

/** Has so many requests answered, soundly or not, by providers that are drawn from the seed alone; then looks at what is left. */
export async function fuzzAnswers(
  setup: AnswersSetup,
  { seed, requests }: { readonly seed: number; readonly requests: number },
): Promise<AnswersSeen> {
  const startedMs = performance.now();
  const { pid } = setup.gateway;
  const tally: AnswersTally = {
    requests: 0,
    connections: 0,
    outcomes: {},
    verdicts: [],
    problems: [],
  };
  const over = new AbortController();
  const health = measureHealth(setup.gateway, over.signal, tally.problems);
  await sendUntil(requests / 10, { setup, seed, tally });
  const before = await whenIdle(setup, tally.problems);
  await sendUntil(requests, { setup, seed, tally });
  over.abort();
  const times = await health;
  const after = await whenIdle(setup, tally.problems, before.bytes + GROWTH_BYTES_MAX / 2);
  if (setup.gateway.pid !== pid) tally.problems.push("the gateway is another process");
  tally.problems.push(...(await finalProblems(setup, tally)));
  const { verdicts, ...rest } = tally;
  return {
    seed,
    ...rest,
    charged: verdicts.filter(({ verdict: { charge } }) => charge !== undefined && charge > 0n)
      .length,
    health: summaryOf(times),
    growth: { bytes: after.bytes - before.bytes, files: after.files - before.files },
    seconds: Math.round((performance.now() - startedMs) / 1000),
  };
}

async function sendUntil(
  requests: number,
  { setup, seed, tally }: { setup: AnswersSetup; seed: number; tally: AnswersTally },
): Promise<void> {
  const runConnections = async (): Promise<void> => {
    while (tally.requests < requests && tally.problems.length < problemsMax) {
      const number = tally.connections;
      tally.connections += 1;
      await runConnection(setup, { seed, number }, tally).catch((error: unknown) =>
        tally.problems.push(
          `seed ${seed}, visit ${number}: ${error instanceof Error ? error.stack : String(error)}`,
        ),
      );
    }
  };
  await Promise.all(Array.from({ length: connectionsAtOnce }, runConnections));
}

/** What is wrong with the books, the log and the providers, once all is over. */
async function finalProblems(
  { gateway, key, problems }: AnswersSetup,
  { verdicts }: AnswersTally,
): Promise<readonly string[]> {
  const wrong: string[] = [];
  const failed = (error: unknown): number => wrong.push(String(error));
  await gateway.expectAuditPasses().catch(failed);
  await holdEverything(gateway, key).catch(failed);
  const errors = gateway.log.filter(
    (line) => line["level"] === "fatal" || (line["level"] === "error" && !isProviders(line)),
  );
  return [
    ...wrong,
    ...problems,
    ...ledgerProblems(gateway.cli.database, verdicts),
    ...errors.slice(0, 20).map((line) => `the log says: ${JSON.stringify(line)}`),
  ];
}

/** What the log says loudly of providers. */
const providersFaults = new Set([
  "the provider refuses the API key, the account or the country: run `tollgate check --live` to see why, fix it, then reload (SIGHUP) to use the provider again at once",
  "the provider answers 404: check its base_url and the model name of the route",
  "the provider reported an impossible usage: the gateway does not charge these figures",
]);

/** What a request failed by, where that was its provider: any other cause is the gateway's own. */
const providersErrors =
  /^(?:ApiError|UpstreamError(?: < (?:ReportedFailure|(?:Answer|ExcessiveAnswer|IsolatedFailure|Connection|SseEncoding|SseLimit)Error)\b.*)?)$/;

/** A request that failed by its providers, and not by the gateway itself. */
function isProviders({ msg, error }: LogLine): boolean {
  return msg === "request" ? providersErrors.test(String(error)) : providersFaults.has(msg);
}

interface LedgerChangeResult {
  readonly status: string;
  readonly charge: bigint;
  readonly estimated: bigint;
  readonly provider: string | null;
  /** What became of its last attempt. */
  readonly tried: string | null;
}

/** The requests of which the books say something else than their clients saw. */
function ledgerProblems(path: string, verdicts: AnswersTally["verdicts"]): string[] {
  const database = new Database(path, { readonly: true, safeIntegers: true });
  try {
    const find = database.query<LedgerChangeResult, [string]>(
      `SELECT status, charge, estimated, provider,
        (SELECT outcome FROM attempts WHERE request_id = requests.id ORDER BY n DESC LIMIT 1) AS tried
        FROM requests WHERE public_id = ?`,
    );
    return verdicts.flatMap(({ asked, verdict, model }) => {
      const { id, outcome, charge, isEstimated } = verdict;
      const row = find.get(id);
      const isServed = outcome === "whole" || outcome === "backup";
      const isRight =
        row !== null &&
        row.status === (isServed ? "done" : "failed") &&
        row.charge === (isServed ? (charge ?? row.charge) : 0n) &&
        row.estimated === BigInt(isEstimated ?? row.estimated) &&
        (!isServed || row.provider === (outcome === "backup" ? backupProvider : model));
      // What its caller made unreadable is paid for as by a client that left.
      const isIsolatedFailure = outcome === "broken" && row?.tried === "isolated failure";
      if (isRight || (isIsolatedFailure && row.status === "cancelled")) return [];
      const words = [row?.status, row?.charge, row?.estimated, row?.provider].join(" ");
      return [`${asked}, ${id}: ${outcome} for ${charge} (${isEstimated}); the books: ${words}`];
    });
  } finally {
    database.close();
  }
}
