import type { DatabasePlace } from "../auditor/databaseRows.ts";
import {
  measureHealth,
  whenIdle,
  GROWTH_BYTES_MAX,
  holdEverything,
  summaryOf,
  type Growth,
  type HealthTimes,
} from "../fuzz/resources.ts";
import type { LogLine } from "../binary/servingProcess.ts";
import { rowsAt } from "../store/gatewayDatabase.ts";
import { backupProvider, type AnswersSetup } from "./setup.ts";
import { runConnection, type AnswersTally } from "./connectionRun.ts";

/** The result of a run; `problems` is empty if all is well. */
export interface AnswersSeen extends Omit<AnswersTally, "verdicts"> {
  readonly seed: number;
  readonly seconds: number;
  /** Answers with a known charge, each found in the database. */
  readonly charged: number;
  readonly health: HealthTimes;
  /** The growth of the gateway after the first tenth of the run. */
  readonly growth: Growth;
}

const connectionsAtOnce = 48;
/** A run that finds this much ends early. */
const problemsMax = 20;

/** Sends this number of requests to providers whose answers are drawn from the seed alone; then checks what remains. */
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

/** Problems in the database, the log and the providers, after the run. */
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
    ...(await ledgerProblems(gateway.place, verdicts)),
    ...errors.slice(0, 20).map((line) => `the log has: ${JSON.stringify(line)}`),
  ];
}

/** The errors that the log may contain about providers. */
const providersFaults = new Set([
  "the provider refuses the API key, the account or the country: run `tollgate check --live` to see why, fix it, then reload (SIGHUP) to use the provider again at once",
  "the provider answers 404: check its base_url and the model name of the route",
  "the provider reported an impossible usage: the gateway does not charge these figures",
]);

/** The causes of a provider's failure: any other cause is an error of the gateway. */
const providersErrors =
  /^(?:ApiError|UpstreamError(?: < (?:ReportedFailure|(?:Answer|ExcessiveAnswer|IsolatedFailure|Connection|SseEncoding|SseLimit)Error)\b.*)?)$/;

/** A request that failed by its providers, and not by the gateway itself. */
function isProviders({ msg, error }: LogLine): boolean {
  return msg === "request" ? providersErrors.test(String(error)) : providersFaults.has(msg);
}

interface LedgerChangeResult {
  readonly id: string;
  readonly status: string;
  readonly charge: bigint;
  readonly estimated: bigint;
  readonly provider: string | null;
  /** The outcome of its last attempt. */
  readonly tried: string | null;
}

const CHARGED: ReadonlySet<string> = new Set(["isolated failure", "timeout", "reported failure"]);

/** The requests whose records differ from what their clients received. */
async function ledgerProblems(
  place: DatabasePlace,
  verdicts: AnswersTally["verdicts"],
): Promise<string[]> {
  const found = await rowsAt<LedgerChangeResult>(
    place,
    `SELECT public_id AS id, status, charge, estimated, provider,
      (SELECT outcome FROM attempts WHERE request_id = requests.id ORDER BY n DESC LIMIT 1) AS tried
      FROM requests`,
  );
  const rows = new Map(found.map((row) => [row.id, row]));
  return verdicts.flatMap(({ asked, verdict, model }) => {
    const { id, outcome, charge, isEstimated } = verdict;
    const row = rows.get(id);
    const isServed = outcome === "whole" || outcome === "backup";
    const isRight =
      row !== undefined &&
      row.status === (isServed ? "done" : "failed") &&
      row.charge === (isServed ? (charge ?? row.charge) : 0n) &&
      row.estimated === BigInt(isEstimated ?? row.estimated) &&
      (!isServed || row.provider === (outcome === "backup" ? backupProvider : model));
    // An answer that the request itself made unreadable, or that a time-out of the gateway cut, is charged as for a
    // disconnected client, and one that reports a failure by its usage.
    const isIsolatedFailure = outcome === "broken" && CHARGED.has(row?.tried ?? "");
    if (isRight || (isIsolatedFailure && row?.status === "cancelled")) return [];
    const words = [row?.status, row?.charge, row?.estimated, row?.provider].join(" ");
    return [
      `${asked}, ${id}: ${outcome} for ${charge} (${isEstimated}); the database has: ${words}`,
    ];
  });
}
