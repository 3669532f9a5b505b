import type { DatabasePlace } from "../auditor/databaseRows.ts";
import { rowsAt } from "../store/gatewayDatabase.ts";
import { inWorld } from "../world/script.ts";
import { runConnection } from "./connectionRun.ts";
import { backupProvider, openAnswers, type AnswersSetup } from "./setup.ts";

/** What may occur, by form. Each must, or the run did not test it. */
const everyOutcome = [
  ["chat", "backup", "refused", "unavailable", "whole"],
  ["chat stream", "backup", "broken", "refused", "unavailable", "whole"],
  ["responses", "backup", "failed", "missing", "refused", "unavailable", "whole"],
  ["responses stream", "backup", "broken", "failed", "missing", "refused", "unavailable", "whole"],
].flatMap(([form, ...outcomes]) => outcomes.map((outcome) => `${form}: ${outcome}`));
/** Of so many requests each must have occurred; of fewer, the rare one need not. */
const MANY = 6000;
const RARE = "missing";

export const answersFuzz = inWorld<AnswersSetup>({
  name: "answersFuzz",
  proves:
    "whose providers' answers are valid, odd and broken, each end as the contract demands, and leave nothing open",
  unit: "requests",
  amounts: [1500, MANY, 2_000_000],
  // Every outcome but the rare one occurs in 1,500 requests of this seed.
  ciSeed: 3,
  roundMax: 20_000,
  atOnce: 48,
  open: openAnswers,
  play: runConnection,
  async check({ world, key, verdicts }) {
    await world.expectAllFree(key);
    const odd = Object.keys(world.counts).filter(
      (name) => name.includes(": ") && !everyOutcome.includes(name),
    );
    return [...odd, ...(await ledgerProblems(world.gateway.place, verdicts))];
  },
  least: (requests) => ({
    ...Object.fromEntries(
      everyOutcome
        .filter((outcome) => requests >= MANY || !outcome.endsWith(RARE))
        .map((outcome) => [outcome, 1]),
    ),
    charged: requests / 4,
  }),
});

interface RecordedRow {
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
  verdicts: AnswersSetup["verdicts"],
): Promise<string[]> {
  const found = await rowsAt<RecordedRow>(
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
