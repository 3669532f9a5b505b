import { readDatabase } from "./databaseRows.ts";
import { ledgerProblems } from "./ledgerRules.ts";
import type { ProducedAnswer, SeenAnswer } from "./logs.ts";
import { inventedProblems, producedProblems, seenProblems } from "./logRules.ts";
import { openProblems, requestProblems } from "./requestRules.ts";
import { totalsProblems } from "./totalsRules.ts";

/**
 * Holds the books of a gateway against what was really produced and really received. It shares no code with
 * the gateway, so that no mistake of the one hides one of the other.
 */
export interface Auditor {
  /** What clients have of their answers: each puts its own here. */
  readonly seen: SeenAnswer[];
  /** The refs of credits that somebody was told are booked. */
  readonly credits: string[];
  /** Hears from now on what these providers send. Once it is told of one, every answer must be made by one of them. */
  listenTo(...providers: readonly AuditedProvider[]): void;
  /**
   * Everything that is wrong with the books of a gateway that has nothing to do, a sentence each. What the logs have
   * said by then is forgotten: it is not asked about again.
   */
  problems(): string[];
}

/** A provider that tells what it sends. */
export interface AuditedProvider {
  log: ProducedAnswer[] | undefined;
}

/** The auditor of the store at `path`, which need not be there yet. */
export function openAuditor(path: string): Auditor {
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
    problems() {
      const said = {
        seen: seen.splice(0),
        produced: produced.splice(0),
        credits: credits.splice(0),
      };
      const problems = auditFile(path, said);
      return isListening ? [...problems, ...inventedProblems(said.seen, said.produced)] : problems;
    },
  };
}

/** The same of any file; `isAtRest`: no request may be under way. */
export function auditFile(
  path: string,
  logs: {
    readonly seen?: readonly SeenAnswer[];
    readonly produced?: readonly ProducedAnswer[];
    readonly credits?: readonly string[];
  } = {},
  isAtRest = true,
): string[] {
  const { seen = [], produced = [], credits = [] } = logs;
  const database = readDatabase(path);
  const refs = new Map(database.ledger.map(({ ref, kind }) => [ref, kind]));
  return [
    ...ledgerProblems(database),
    ...requestProblems(database),
    ...totalsProblems(database),
    ...(isAtRest ? openProblems(database) : []),
    ...seenProblems(database, seen),
    ...producedProblems(database, produced),
    ...credits
      .filter((ref) => refs.get(ref) !== "credit")
      .map((ref) => `credit ${ref} was acknowledged, and is not there`),
  ];
}

/** The answers that clients have, against the file at `path` alone. */
export function lostCharges(path: string, seen: readonly SeenAnswer[]): string[] {
  return seenProblems(readDatabase(path), seen);
}
