import {
  readDatabase,
  readDatabaseAt,
  type DatabasePlace,
  type DatabaseRows,
} from "./databaseRows.ts";
import { ledgerProblems } from "./ledgerRules.ts";
import type { ProducedAnswer, SeenAnswer } from "./logs.ts";
import { inventedProblems, producedProblems, seenProblems } from "./logRules.ts";
import { openProblems, requestProblems } from "./requestRules.ts";
import { totalsProblems } from "./totalsRules.ts";
import { voucherProblems } from "./voucherRules.ts";

/**
 * Compares the database of a gateway with what providers sent and clients received. It shares no code with
 * the gateway, so that no mistake of the one hides one of the other.
 */
export interface Auditor {
  /** The answers that clients received: each client appends its own. */
  readonly seen: SeenAnswer[];
  /** The refs of credits that were acknowledged. */
  readonly credits: string[];
  /** Records what these providers send from now on. After the first call every answer must come from one of them. */
  listenTo(...providers: readonly AuditedProvider[]): void;
  /**
   * All problems in the database of an idle gateway, one sentence each. The recorded answers are dropped: the next
   * call does not check them again.
   */
  problems(): Promise<string[]>;
}

/** A provider that records what it sends. */
export interface AuditedProvider {
  log: ProducedAnswer[] | undefined;
}

/** The auditor of the database at this place, which need not be there yet. */
export function openAuditor(place: DatabasePlace): Auditor {
  const produced: ProducedAnswer[] = [];
  let isListening = false;
  const seen: SeenAnswer[] = [];
  const credits: string[] = [];
  return {
    seen,
    credits,
    listenTo(...providers) {
      for (const provider of providers) provider.log = produced;
      isListening = true;
    },
    async problems() {
      const said = {
        seen: seen.splice(0),
        produced: produced.splice(0),
        credits: credits.splice(0),
      };
      const problems = auditRows(await readDatabaseAt(place), said);
      return isListening ? [...problems, ...inventedProblems(said.seen, said.produced)] : problems;
    },
  };
}

/** The problems of a file at once. `isAtRest`: no request may be running. */
export function auditFile(path: string, logs: Logs = {}, isAtRest = true): string[] {
  return auditRows(readDatabase(path), logs, isAtRest);
}

interface Logs {
  readonly seen?: readonly SeenAnswer[];
  readonly produced?: readonly ProducedAnswer[];
  readonly credits?: readonly string[];
}

function auditRows(database: DatabaseRows, logs: Logs, isAtRest = true): string[] {
  const { seen = [], produced = [], credits = [] } = logs;
  const refs = new Map(database.ledger.map(({ ref, kind }) => [ref, kind]));
  return [
    ...ledgerProblems(database),
    ...requestProblems(database),
    ...totalsProblems(database),
    ...voucherProblems(database),
    ...(isAtRest ? openProblems(database) : []),
    ...seenProblems(database, seen),
    ...producedProblems(database, produced),
    ...credits
      .filter((ref) => refs.get(ref) !== "credit")
      .map((ref) => `credit ${ref} was acknowledged, and is not there`),
  ];
}

/** Checks only the charges of the answers that clients received. */
export async function lostCharges(
  place: DatabasePlace,
  seen: readonly SeenAnswer[],
): Promise<string[]> {
  return seenProblems(await readDatabaseAt(place), seen);
}
