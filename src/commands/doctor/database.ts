import {
  emptyFileProblem,
  inspectStore,
  missingFolderProblem,
  hardLinkProblem,
  StoreError,
  type StoreInspection,
} from "../../store/store.ts";
import type { LastEntry } from "./host.ts";
import { bytesText, failed, passed, type Verdict } from "./verdict.ts";

const PROBLEMS_SHOWN_MAX = 3;

/** What is said of the database, and what the clock is compared with. */
export interface DatabaseReading {
  readonly verdict: Verdict;
  readonly lastEntry: LastEntry;
}

/** Looks at the database, makes none, and changes nothing in one; a gateway may run on it. */
export function readDatabase(path: string): DatabaseReading {
  try {
    const inspection = inspectStore(path);
    if (inspection === undefined) return { verdict: noneYet(path), lastEntry: "none" };
    const problem = emptyFileProblem(path) ?? hardLinkProblem(path);
    const verdict = problem === undefined ? judgeDatabase(path, inspection) : failed(problem);
    return { verdict, lastEntry: inspection.lastEntryMs ?? "none" };
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return { verdict: failed(error.message), lastEntry: "unknown" };
  }
}

function noneYet(path: string): Verdict {
  const missing = missingFolderProblem(path);
  if (missing !== undefined) return failed(missing);
  return passed(
    `there is none yet at ${path}: \`tollgate serve\` or \`tollgate accounts create\` creates it`,
  );
}

function judgeDatabase(path: string, inspection: StoreInspection): Verdict {
  const { problems, schemaProblems, settingsProblems, schema, isGatewayRunning } = inspection;
  if (problems.length > 0) return damaged(path, "is damaged", problems);
  if (schemaProblems.length > 0)
    return damaged(path, "does not have tollgate's schema", schemaProblems);
  if (settingsProblems.length > 0) {
    const advice = "set them anew, or put a backup in the place of the file";
    return failed(
      `${path} has keys or accounts that are damaged: ${advice}`,
      ...few(settingsProblems),
    );
  }
  const age = `schema ${schema.applied} of ${schema.known}`;
  if (schema.applied < schema.known && isGatewayRunning) {
    return failed(
      `${path} has an older schema (${age}), and a gateway is running on it: if it did not just start, it is of another version: restart it`,
    );
  }
  const facts = [
    bytesText(inspection.bytes),
    schema.applied < schema.known ? `${age}, the next command brings it up to date` : age,
    isGatewayRunning ? "a gateway is running on it" : "no gateway is running on it",
  ];
  const check = inspection.isWhollyChecked ? "in order" : "in order by the quick check";
  return passed(
    `${path} is ${check} (${facts.join(", ")}); \`tollgate audit\` proves the books in it`,
  );
}

function damaged(path: string, verdict: string, problems: readonly string[]): Verdict {
  return failed(
    `${path} ${verdict}: stop the gateway, keep a copy of the file, and put a backup in its place`,
    ...few(problems),
  );
}

function few(problems: readonly string[]): readonly string[] {
  const shown = problems.slice(0, PROBLEMS_SHOWN_MAX);
  const more = problems.length - shown.length;
  return more > 0 ? [...shown, `and ${more} more: \`tollgate audit\` shows all`] : shown;
}
