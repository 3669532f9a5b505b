import {
  emptyFileProblem,
  inspectStore,
  missingFolderProblem,
  hardLinkProblem,
  type StoreInspection,
  type UpgradeRoom,
} from "../../store/open.ts";
import { StoreError } from "../../store/store.ts";
import type { LastEntry } from "./host.ts";
import { failed, passed, type Verdict } from "./verdict.ts";
import { bytesText } from "../../lib/terminal.ts";

const PROBLEMS_SHOWN_MAX = 3;

export interface DatabaseReading {
  readonly verdict: Verdict;
  /** For the check of the clock. */
  readonly lastEntry: LastEntry;
}

/** Checks the database read-only. It does not create one, and a gateway may run on it. */
export async function readDatabase(path: string): Promise<DatabaseReading> {
  try {
    const inspection = await inspectStore(path);
    if (inspection === undefined) return { verdict: judgeMissing(path), lastEntry: "none" };
    const problem = emptyFileProblem(path) ?? hardLinkProblem(path);
    const verdict = problem === undefined ? judgeDatabase(path, inspection) : failed(problem);
    return { verdict, lastEntry: inspection.lastEntryMs ?? "none" };
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return { verdict: failed(error.message), lastEntry: "unknown" };
  }
}

function judgeMissing(path: string): Verdict {
  const missing = missingFolderProblem(path);
  if (missing !== undefined) return failed(missing);
  return passed(
    `there is no database yet at ${path}: \`tollgate serve\` or \`tollgate accounts create\` creates it`,
  );
}

function judgeDatabase(path: string, inspection: StoreInspection): Verdict {
  const { problems, schemaProblems, settingsProblems, schema, isGatewayRunning } = inspection;
  if (problems.length > 0) return damaged(path, "is damaged", problems);
  if (schemaProblems.length > 0)
    return damaged(path, "does not have tollgate's schema", schemaProblems);
  if (settingsProblems.length > 0) {
    const advice = "set them again, or restore a backup";
    return failed(
      `${path} has keys or accounts that are damaged: ${advice}`,
      ...firstOf(settingsProblems),
    );
  }
  const age = `schema ${schema.applied} of ${schema.known}`;
  const upgrade = inspection.upgradeRoom && judgeUpgrade(inspection.upgradeRoom);
  if (upgrade && isGatewayRunning) {
    return failed(
      `${path} has an older schema (${age}) and a running gateway: unless it has just started, it has another version: restart it`,
      ...upgrade.lines,
    );
  }
  const facts = [
    bytesText(inspection.bytes),
    upgrade ? `${age}, the next start or command upgrades it` : age,
    isGatewayRunning ? "a gateway is running on it" : "no gateway is running on it",
  ];
  const check = inspection.isFullyChecked ? "in order" : "in order by the quick check";
  const found = `${path} is ${check} (${facts.join(", ")})`;
  if (upgrade) return { ok: upgrade.ok, lines: [found, ...upgrade.lines] };
  return passed(`${found}; \`tollgate audit\` verifies its ledger`);
}

/** Whether the upgrade of an older database can make its backup. */
function judgeUpgrade({ neededBytes, freeBytes }: UpgradeRoom): Verdict {
  const room = `needs up to ${bytesText(neededBytes)} on its disk, and ${bytesText(freeBytes)} are free`;
  if (freeBytes >= neededBytes)
    return passed(`the upgrade makes a verified backup beside the database first: it ${room}`);
  return failed(
    `the upgrade ${room}, so it would make no backup: free disk space first, or run \`tollgate backup FILE\` with a file on another disk`,
  );
}

function damaged(path: string, verdict: string, problems: readonly string[]): Verdict {
  return failed(
    `${path} ${verdict}: stop the gateway, copy the file, and restore a backup`,
    ...firstOf(problems),
  );
}

function firstOf(problems: readonly string[]): readonly string[] {
  const shown = problems.slice(0, PROBLEMS_SHOWN_MAX);
  const more = problems.length - shown.length;
  return more > 0 ? [...shown, `and ${more} more: \`tollgate audit\` shows all`] : shown;
}
