import type { Command } from "commander";
import { auditResult } from "../contract/operator/auditResult.ts";
import type { AuditReport } from "../store/store.ts";
import { CommandFailure, printResult, visible, type Result } from "./cli/print.ts";
import { globalOptions, runSession } from "./cli/session.ts";

/** Registers `tollgate audit`. */
export function addAudit(program: Command): void {
  program
    .command("audit")
    .description("verify the ledger and all balances; list the problems and exit with 1 if any")
    .action(async (_: unknown, command: Command) => {
      const { config, json } = globalOptions(command);
      const report = await runSession(config, "existing", ({ store }) => store.auditInParallel());
      printResult(resultOf(report), json);
      const count = report.problems.length;
      if (count > 0) {
        throw new CommandFailure(
          `the ledger is inconsistent (problems: ${count}): copy the database and compare it with a backup`,
        );
      }
    });
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
