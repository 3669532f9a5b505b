import type { Command } from "commander";
import { auditResult } from "../contract/operator/auditResult.ts";
import { isDamage } from "../store/open.ts";
import type { AuditReport } from "../store/store.ts";
import { CommandFailure, printResult, printWarning, type Result } from "./cli/print.ts";
import { globalOptions, runSession } from "./cli/session.ts";
import { visible } from "../lib/terminal.ts";

/** Registers `tollgate audit`. */
export function addAudit(program: Command): void {
  program
    .command("audit")
    .description("verify the ledger and all balances; list the problems and exit with 1 if any")
    .action(async (_: unknown, command: Command) => {
      const { json } = globalOptions(command);
      const report = await runSession(command, "report", async ({ store, actor }) => {
        const record = (hasProblems: boolean) =>
          recordOutcome(() => store.notices.audited("audit", hasProblems, actor.at));
        try {
          const found = await store.audit();
          await record(found.problems.length > 0);
          return found;
        } catch (error) {
          if (isDamage(error)) await record(true);
          throw error;
        }
      });
      printResult(resultOf(report), json);
      const count = report.problems.length;
      if (count > 0) {
        throw new CommandFailure(
          `the ledger is inconsistent (problems: ${count}): copy the database and compare it with a backup`,
        );
      }
    });
}

/**
 * Records the outcome of an audit, which a serving gateway tells a person. A database that cannot be written does not fail
 * the audit.
 */
export async function recordOutcome(record: () => Promise<void>): Promise<void> {
  try {
    await record();
  } catch (error) {
    printWarning(
      `the outcome could not be recorded, so no notice of it is sent: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function resultOf(report: AuditReport): Result {
  const { accounts, requests, problems, notes } = report;
  const verdict = `the ledger is consistent (accounts: ${accounts}, requests: ${requests})`;
  return {
    document: auditResult(report),
    text: () =>
      [...(problems.length === 0 ? [verdict] : problems), ...notes.map((note) => `note: ${note}`)]
        .map(visible)
        .join("\n"),
  };
}
